"""Write the golden database of this version: one session of each kind that a later version must go on with."""

import asyncio
import gzip
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

import segue
from tests.fakes import answer, call_tool, plan_json

from .agents import Tools

PLAN = plan_json(
    "hold and double",
    [
        {"action": "hold", "params": {"number": 7}, "description": "hold 7", "phase": "execution"},
        {
            "action": "double",
            "params": {"number": {"$ref": "steps.1.result.held"}},
            "description": "double it",
            "phase": "execution",
        },
        {"action": "none", "params": {}, "description": "say it", "phase": "generation"},
    ],
)
BATCH = AIMessage(
    "",
    tool_calls=[
        {"name": "hold", "args": {"number": 7}, "id": "call_1", "type": "tool_call"},
        {"name": "double", "args": {"number": 7}, "id": "call_2", "type": "tool_call"},
    ],
)


async def write(path: Path) -> None:
    """Write the sessions; the last one kills this process in the middle of a call."""
    async with segue.open(path) as app:
        tools = Tools()
        app.register(tools.agent(call_tool(("double", {"number": 21})), answer("42"), answer("As said: 42.")))
        await app.ask("Double 21.", session_id="finished", agent="golden")
        await app.ask("Again?", session_id="finished", agent="golden")
        await paused(app, "paused", call_tool(("hold", {"number": 7})))
        await paused(app, "native", BATCH, protocol="native")
        await paused(app, "planned", PLAN, mode="plan")
        app.register(tools.agent(call_tool(("refund", {"order": 17}))))
        await app.ask("Refund order 17.", session_id="waiting", agent="golden")
        app.register(Tools(die).agent(call_tool(("deposit", {"amount": 5}))))
        await app.ask("Deposit 5.", session_id="interrupted", agent="golden")


async def paused(app: segue.App, session: str, reply: Any, *, mode: str = "react", protocol: str = "json") -> None:
    """A session whose task was paused in a call of `hold`."""

    async def pause() -> None:
        (row, *_) = await app.tasks(session_id=session)
        await app.pause(row["task_id"])

    app.register(Tools(pause).agent(reply, protocol=protocol))
    await app.ask("Hold 7, then double it.", session_id=session, agent="golden", mode=mode)


async def die() -> None:
    os._exit(0)


def pack(path: Path) -> bytes:
    """The database in one file, without the name of the machine that wrote it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE leases SET owner = 'elsewhere:1:golden', expires_at = 1 WHERE owner <> ''")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    return gzip.compress(path.read_bytes(), mtime=0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "segue.db")
        if (child := os.fork()) == 0:
            asyncio.run(write(database))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert status == 0, "the sessions could not be written"
        Path(__file__).with_name(f"{sys.argv[1]}.db.gz").write_bytes(pack(database))
