"""A process that is killed around the first of two approvals: it is there or not, and the call runs once."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import segue
from segue import Agent, acting, tool
from segue.core.errors import NotAnApprover
from tests.fakes import ScriptedChatModel, answer, call_tool

pytestmark = pytest.mark.slow


def agent(folder: Path, asks: bool = False) -> Agent:
    @tool(approvals=2)
    def pay(amount: int) -> str:
        """Pay an amount."""
        with (folder / "paid").open("a") as file:
            file.write(f"{amount}\n")
        return f"paid {amount}"

    model = ScriptedChatModel([*([call_tool(("pay", {"amount": 5}))] if asks else []), answer("Paid.")])
    return Agent(agent_id="a", model=model, tools=(pay,), mode="react")


FIRST = """
import asyncio, os, signal, sys
from pathlib import Path
import segue
from segue.checkpoints import tasks
from tests.checkpoints.test_killed_approvals import agent

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def main(address, folder, task_id, when):
    async with segue.open(address, agents=[agent(Path(folder))]) as app:
        if when == "inside":
            tasks.record_moved = die
        with segue.acting("ann"):
            await app.answer(task_id, "approve")
        die()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["inside", "after"])
async def test_the_first_approval_survives_its_process(address: str, tmp_path: Path, when: str) -> None:
    async with segue.open(address, agents=[agent(tmp_path, asks=True)], audit=True) as app:
        with acting("max"):
            task_id = str((await app.ask("pay", session_id="s", agent="a"))["task_id"])
    command = [sys.executable, "-c", FIRST, address, str(tmp_path), task_id, when]
    environ = {**os.environ, "PYTHONPATH": os.getcwd()}
    died = await asyncio.to_thread(subprocess.run, command, env=environ, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    async with segue.open(address, agents=[agent(tmp_path)]) as app:
        (waiting,) = await app.waiting()
        assert waiting.problem == ("" if when == "inside" else "Approved by ann; one more person must approve.")
        with acting("ann"):
            if when == "inside":
                await app.answer(task_id, "approve")
            else:
                with pytest.raises(NotAnApprover, match="already approved by ann"):
                    await app.answer(task_id, "approve")
        assert not (tmp_path / "paid").exists()
        with acting("bob"):
            assert (await app.answer(task_id, "approve"))["status"] == "done"
        assert (tmp_path / "paid").read_text() == "5\n"
        assert (await app.audit.verify()).ok
