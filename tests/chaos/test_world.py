"""The world outside: what a chaos run compares, judges and lets fail."""

import logging
import sqlite3
import subprocess
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from segue import tool
from segue.core.errors import ConfigurationError
from segue.testing.chaos import world as worlds
from segue.testing.chaos.hunt import Judge
from segue.testing.chaos.runs import Run
from segue.testing.chaos.traps import Lines, Planned, Step, Unexpected, fail
from segue.testing.chaos.world import Change, Comparison, Outside, Worlds, is_same, landed, settled
from segue.tools.adapters.functions import bind_function


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


# What the judge says of a broken invariant.


class Accounts:
    """Accounts whose balances have the same sum."""

    def snapshot(self) -> object:
        return {}

    def check(self, before: Any, after: Any, effects: Any) -> str | None:
        return None if sum(before.values()) == sum(after.values()) else "the sum differs"


@tool(idempotent=True)
def call() -> None:
    """Do something."""


def test_an_invariant_that_breaks_without_a_fault_is_of_the_call_that_breaks_it_and_of_no_other() -> None:
    begun = [{"moment": "start", "name": name, "arguments": {}} for name in ("look", "debit", "mail")]
    before, after = {"a": 100, "b": 0}, {"a": 70, "b": 0}
    run = Run(Outside(Accounts()), "", before, after, begun, {})
    ends = {"look#1": before, "debit#1": after, "mail#1": after}
    steps = [Step(label, label[:-2], after=end) for label, end in ends.items()]
    judge = Judge(
        dict.fromkeys(("look", "debit", "mail"), bind_function(call)), lambda planned, **_: run, "segue chaos"
    )
    judge.learn(run)
    (found,) = judge.undisturbed(steps, run, run)
    assert (found.tool, found.kind, found.fault) == ("debit", "invariant", "none")
    assert found.repeat == "segue chaos --repeat debit/none"
    assert [*judge.of_run(Planned("mail#1", "kill-after-call"), run)] == []


# Lines at which a tool may fail.


def order(folder: Path) -> str:
    with (folder / "orders").open("a") as orders:
        orders.write("lamp\n")
    logging.getLogger("orders").info("ordered")
    try:
        return str(int("7"))
    finally:
        folder.exists()


def careful(folder: Path) -> str:
    (folder / "orders").write_text("lamp\n")
    try:
        return subprocess.list2cmdline(["a"])
    except OSError:
        return "unknown"


def _calling(call: Any, folder: Path) -> list[int]:
    lines = Lines()
    with lines.watched():
        call(folder)
    return lines.calling


def test_an_exception_may_come_from_what_calls_something_and_not_from_what_logs_or_tidies_up(tmp_path: Path) -> None:
    assert _calling(order, tmp_path) == [1, 2, 6]


@pytest.mark.parametrize("number", [1, 2, 6])
def test_an_exception_leaves_the_line_with_its_place(number: int, tmp_path: Path) -> None:
    with (
        pytest.raises(Unexpected, match=r"raised by segue chaos at test_world.py:\d+"),
        Lines([number], fail).watched(),
    ):
        order(tmp_path)


def test_a_tool_that_expects_an_exception_catches_it(tmp_path: Path) -> None:
    with Lines([3], fail).watched():
        assert careful(tmp_path) == "unknown"
