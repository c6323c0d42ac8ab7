"""Sessions whose processes do not agree about the time."""

import time
from typing import Any

import pytest
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.graph import StateGraph

from segue.checkpoints.rows import is_plausible

from .graphs import HELLO, Place, Steps, Talk, chain, config_of, run


def clock(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    """What the clock says in another process."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(ahead * 1e9))
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)


async def test_a_turn_after_the_clock_was_set_back_is_the_newest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph's ids are times, and the newest checkpoint is the one with the greatest id."""

    async def turn(ahead: float, name: str) -> Any:
        with monkeypatch.context() as patch:
            clock(patch, ahead)
            wired = chain(StateGraph(Talk), **{name: Steps().node(name)}).compile(checkpointer=place.saver)
            await run(wired, HELLO)
            return (await wired.aget_state(config_of())).values["done"]

    assert await turn(600, "first") == ["first"]
    assert await turn(0, "second") == ["first", "second"]
    assert await turn(-86_400, "third") == ["first", "second", "third"]


def test_an_id_that_langgraph_cannot_have_made_yet_is_not_plausible() -> None:
    assert is_plausible(str(langgraph_ids.uuid6()))
    for other in ("ffffffff-ffff-6fff-8000-000000000000", "1f1e739c-dea3-4f11-800b-ebfb0d3bf89c", "first"):
        assert not is_plausible(other)
