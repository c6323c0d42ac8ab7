"""Runs of graphs that Segue did not write; most of it is tested over HTTP in `tests/server/test_langgraph.py`."""

import asyncio

import pytest

from segue.runtime.graph_runs import pause


async def test_a_pause_is_cancelled_at_any_moment() -> None:
    for turns in range(6):
        changed = asyncio.Event()
        pausing = asyncio.create_task(pause(changed))
        await asyncio.sleep(0)
        changed.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        if pausing.cancel():
            with pytest.raises(asyncio.CancelledError):
                await pausing
