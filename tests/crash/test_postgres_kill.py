"""A process on PostgreSQL that is killed in the middle of a task, after a pause: each effect happens once."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.tools.bound_tool import tool
from tests.checkpoints.worlds import note_up_to
from tests.fakes import ScriptedChatModel

LAST = 5


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def register(app: App, effects: Path, hold_at: int = 0) -> None:
    """An agent that notes the numbers up to LAST in a file; a call that is to hold never begins its effect."""

    @tool(idempotent=True)
    async def note(number: int) -> str:
        """Note a number."""
        if number == hold_at:
            say("holding")
            await asyncio.Event().wait()
        with effects.open("a") as file:
            file.write(f"{number}\n")
        return f"noted {number}"

    app.register(Agent(agent_id="a", model=ScriptedChatModel(note_up_to(LAST)), mode="react", tools=(note,)))


async def begin(url: str, effects: Path) -> None:
    """Run a task, pause it at its beginning, resume it, and hold in the fourth call."""
    async with segue.open(url) as app:
        register(app, effects, hold_at=4)
        task = await app.start("note five numbers", session_id="s", agent="a")
        async for event in app.follow(task.task_id):
            if event.type == "tool_result" and event.data["index"] == 0:
                await app.pause(task.task_id)
        say(task.task_id)
        await app.resume(task.task_id)


async def test_a_killed_task_goes_on_and_each_effect_happens_once(postgres_url: str, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    code = f"import asyncio, pathlib; from {__name__} import begin; asyncio.run(begin({postgres_url!r}, "
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"{code}pathlib.Path({str(effects)!r})))", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    async with asyncio.timeout(60):
        said = [(await process.stdout.readline()).decode().strip() for _ in range(2)]
    assert said[1] == "holding"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    assert effects.read_text().split() == ["1", "2", "3"]
    async with segue.open(postgres_url) as app:
        register(app, effects)
        assert (await app.resume(said[0]))["answer"] == "all noted"
        events = await app.events(said[0])
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        results = [message["content"] for message in await app.history("s") if message["role"] == "tool"]
    assert results == [f"noted {number}" for number in range(1, LAST + 1)]
    assert effects.read_text().split() == [str(number) for number in range(1, LAST + 1)]
