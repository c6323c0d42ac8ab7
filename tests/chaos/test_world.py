import sqlite3
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from segue.core.errors import ConfigurationError
from segue.testing.chaos import world as worlds
from segue.testing.chaos.world import Change, Comparison, Outside, Worlds, is_same, landed, settled


class Rows:
    """A world whose snapshot is what it is told."""

    def __init__(self, look: Callable[[], Any] = list) -> None:
        self.snapshot = look

    def reset(self) -> None:
        raise ConnectionError("no route to staging")

    def check(self, before: Any, after: Any, effects: Any) -> str:
        return str(after["gone"])


def test_an_error_of_a_world_is_a_sentence_with_the_method_and_the_line() -> None:
    with pytest.raises(ConfigurationError, match=r"`reset` fails at .*test_world.py:\d+: ConnectionError: no route"):
        Worlds(Rows, takes_namespace=False).of("")
    with pytest.raises(ConfigurationError, match=r"`check` fails at .*test_world.py:\d+: KeyError: 'gone'"):
        Outside(Rows()).check({}, {}, [])
    with pytest.raises(ConfigurationError, match="`__init__` fails"):
        Worlds(lambda: Rows(*[list, list]), takes_namespace=False).of("")


def test_a_snapshot_stays_as_it_was_when_the_world_changes_its_list() -> None:
    rows = [1]
    before = Outside(Rows(lambda: rows)).snapshot()
    rows.append(2)
    assert before == [1]


def test_a_snapshot_that_is_not_json_is_refused_and_what_has_one_form_is_not() -> None:
    db = sqlite3.connect(":memory:")
    db.row_factory = sqlite3.Row
    with pytest.raises(ConfigurationError, match=r"`snapshot` fails at .*Row is not JSON"):
        Outside(Rows(lambda: db.execute("SELECT 1 AS n").fetchall())).snapshot()
    db.close()
    form = {"on": date(2026, 1, 2), "names": {"b", "a"}}
    assert Outside(Rows(lambda: form)).snapshot() == {"on": "2026-01-02", "names": ["a", "b"]}


def test_a_world_that_never_comes_to_rest_is_named_and_one_with_the_time_is_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worlds, "LONGEST", 0.2)
    ticks = iter(range(10_000))
    at_rest = Outside(Rows(lambda: {"now": f"2026-01-02T03:04:{next(ticks) % 60:02d}Z"}))
    assert settled(at_rest)["now"].startswith("2026")
    with pytest.raises(ConfigurationError, match=r"still changes after 0 seconds.*load has 1 more"):
        settled(Outside(Rows(lambda: {"load": next(ticks)})))


def test_an_effect_that_takes_longer_than_usual_is_awaited_where_the_world_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worlds, "LANDING", 0.1)
    began = time.monotonic()
    late = Rows(lambda: [time.monotonic() - began > 0.4])
    assert landed(Outside(late), [False], Outside(late).landing).seconds == 0
    late.landing = 20  # type: ignore[attr-defined]
    assert landed(Outside(late), [False], Outside(late).landing).seconds > 0


@pytest.mark.parametrize(
    ("one", "other", "rows"),
    [
        ({"a": []}, {}, [("a", "[]", 1)]),
        ({"a": {}}, {}, [("a", "{}", 1)]),
        ({"files": {"x.lock": {}}}, {"files": {}}, [("files.x.lock", "{}", 1)]),
        ({"a": {"b": {"c": 1}}}, {}, [("a.b.c", "1", 1)]),
        ({"a": [1]}, {"a": []}, [("a[]", "1", 1)]),
        ([[]], [], [("[]", "[]", 1)]),
    ],
)
def test_an_empty_container_is_an_item_and_a_full_one_is_told_by_what_it_holds(
    one: Any, other: Any, rows: list[tuple[str, str, int]]
) -> None:
    items = Comparison().items
    assert not is_same(one, other)
    assert Change.between(items(other), items(one)).extra == tuple(rows)


def test_an_empty_container_that_differs_between_undisturbed_runs_is_left_out() -> None:
    comparison = Comparison()
    comparison.learn(({"queue": {}}, ""), ({"queue": []}, ""))
    assert comparison.items({"queue": {}}) == comparison.items({"queue": []})
