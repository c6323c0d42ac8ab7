"""The threads of synchronous tools: what they see, what comes back, and what happens when nobody waits."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from segue.tools.bound_tool import abandoned, has_running_thread, run_in_thread
from tests.polling import SECONDS, until

SEEN = contextvars.ContextVar("SEEN", default="nothing")

HANGS = """
import asyncio, time
from segue.core.calls import CallKey
from segue.tools.registry import as_tool, tool
from tests.tool_calls import run_call

@tool(timeout=0.05)
def hang(seconds: int) -> None:
    time.sleep(seconds)

print(asyncio.run(run_call({"hang": as_tool(hang)}, "hang", {"seconds": 60}, CallKey("t", "s", 0), None, 1)).result)
"""


async def test_the_result_of_a_daemon_that_sees_the_context() -> None:
    SEEN.set("this")
    found = await run_in_thread("look", lambda: (SEEN.get(), threading.current_thread()))
    assert found[0] == "this"
    assert (found[1].name, found[1].daemon) == ("tool look", True)
    assert not has_running_thread(asyncio.current_task() or pytest.fail("no task"))


async def test_what_the_thread_sets_stays_in_it() -> None:
    await run_in_thread("set", lambda: SEEN.set("that"))
    assert SEEN.get() == "nothing"


async def test_many_run_side_by_side() -> None:
    together = threading.Barrier(40, timeout=SECONDS)
    await asyncio.gather(*(run_in_thread("meet", together.wait) for _ in range(40)))


async def test_a_thread_that_was_given_up_counts_until_it_ends() -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        begun.release()
        go.wait()

    waiting = [asyncio.create_task(run_in_thread(name, wait)) for name in ("slow", "slow", "late")]
    for _ in waiting:
        await asyncio.to_thread(begun.acquire)
    assert abandoned() == {}
    for task in waiting:
        task.cancel("stop")
    await asyncio.wait(waiting)
    assert all(task.cancelled() and has_running_thread(task) for task in waiting)
    assert abandoned() == {"slow": 2, "late": 1}
    go.set()
    await until(lambda: abandoned() == {})


def test_a_thread_that_outlives_its_loop_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    go = threading.Event()

    async def leave() -> None:
        async with asyncio.timeout(0.01):
            await run_in_thread("outlive", go.wait)

    with pytest.raises(TimeoutError):
        asyncio.run(leave())
    go.set()
    asyncio.run(until(lambda: abandoned() == {}))
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_hanging_tool_does_not_keep_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert "unknown_outcome" in done.stdout
