"""Renderings of what the state holds."""

import pytest

from segue.core import models
from segue.core.models import Renderings


class Counted:
    """Renders, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, record: dict[str, int], most: int) -> str:
        self.times += 1
        return str(record)[:most]


def test_each_record_is_rendered_once_for_the_same_arguments() -> None:
    known, render = Renderings(), Counted()
    records = [{"n": n} for n in range(3)]
    for _ in range(2):
        assert known.each(render, records, 20) == ["{'n': 0}", "{'n': 1}", "{'n': 2}"]
    assert render.times == 3
    assert known.each(render, records[:1], 2) == ["{'"]


def test_a_record_in_the_place_of_one_that_is_gone_is_not_taken_for_it() -> None:
    known, render = Renderings(), Counted()
    for n in range(1000):
        assert known.each(render, [{"n": n}], 20) == [f"{{'n': {n}}}"]


def test_beyond_the_limit_all_are_rendered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST_CHARS", 5 * 208)
    known, render = Renderings(), Counted()
    records = [{"n": n} for n in range(9)]
    for _ in range(2):
        assert known.each(render, records, 20) == [str(record) for record in records]
    assert render.times > 9
