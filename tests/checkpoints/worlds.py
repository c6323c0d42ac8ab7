"""An app whose tools have effects that can be counted, and a second opening of its database as another process has."""

import asyncio
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
from langchain_core.messages import BaseMessage

import segue
from segue.app import App
from segue.checkpoints.fork import fork as stored_fork
from segue.checkpoints.ports import Database
from segue.checkpoints.postgres.database import PostgresDatabase
from segue.checkpoints.postgres.database import open_database as open_postgres
from segue.checkpoints.snapshots import snapshots as stored_snapshots
from segue.checkpoints.sqlite.database import open_database
from segue.core.agents import Agent
from segue.core.environment import is_server
from segue.core.records import Json, Task
from segue.tools.bound_tool import tool
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

TABLES = ("tasks", "events", "calls", "checkpoints", "writes")
Hook = Callable[[int], Awaitable[None]]


class World:
    """`effects` are the numbers that were noted, and when; `hook` is called in the middle of each noting."""

    def __init__(self, app: App, database: Database[Any]) -> None:
        self.app = app
        self.database = database
        self.effects: list[tuple[int, float]] = []
        self.hook: Hook | None = None

    def register(self, agent_id: str, script: Any, mode: str, **fields: Any) -> None:
        """An agent with the tools `note`, which counts, and `look`, which counts and only reads."""
        tools = (self.note, tool(read_only=True)(self.look))
        self.app.register(Agent(agent_id=agent_id, model=ScriptedChatModel(script), mode=mode, tools=tools, **fields))

    async def note(self, number: int) -> str:
        """Note a number."""
        self.effects.append((number, time.time()))
        if self.hook:
            await self.hook(number)
        return f"noted {number}"

    async def look(self, number: int) -> str:
        """Look a number up."""
        if self.hook:
            await self.hook(number)
        self.effects.append((number, time.time()))
        return f"saw {number}"

    def chosen(self, snapshots: Sequence[Json]) -> Sequence[Json]:
        """All of them; in PostgreSQL, unless `WHOLE` is set, the first, every fifth and the last."""
        whole = os.environ.get("WHOLE") or not isinstance(self.database, PostgresDatabase)
        return snapshots if whole else [*snapshots[:-1:5], snapshots[-1]]

    @property
    def noted(self) -> list[int]:
        return [number for number, _ in self.effects]

    def noted_before(self, moment: float) -> set[int]:
        return {number for number, at in self.effects if at < moment}

    async def run(self, message: str, session_id: str = "s", **options: Any) -> str:
        """Send a message, wait until its task stands and return its id."""
        row = await self.app.start(message, session_id=session_id, **options)
        async for _ in self.app.follow(row.task_id):
            pass
        return str(row.task_id)

    async def run_to(self, number: int, message: str, **options: Any) -> str:
        """As `run`, but pause the task while it notes or looks up `number`: it stops at the boundary after that."""

        async def pause(current: int) -> None:
            if current == number:
                (row,) = [row for row in await self.app.tasks.list() if row.status == "running"]
                await self.app.pause(row.task_id)

        self.hook = pause
        task_id = await self.run(message, **options)
        self.hook = None
        return task_id

    async def stop_in_the_last(self, numbers: int, message: str, **options: Any) -> str:
        """Send a message upon which `numbers` are looked up together; stop its task when all but the last have been."""
        stuck = asyncio.Event()

        async def hang(number: int) -> None:
            if number == numbers:
                stuck.set()
                await asyncio.Event().wait()

        self.hook = hang
        row = await self.app.start(message, session_id="s", **options)
        await stuck.wait()
        while await self._ended(row.task_id) < numbers - 1:  # noqa: ASYNC110 - the ledger sends no events
            await asyncio.sleep(0.01)
        self.app.stop_now(row.task_id)
        async for _ in self.app.follow(row.task_id):
            pass
        self.hook = None
        return str(row.task_id)

    async def _ended(self, task_id: str) -> int:
        return sum(call.state == "done" for call in (await self.app.trace(task_id)).calls)

    async def task(self, task_id: str) -> Task:
        (row,) = [row for row in await self.app.tasks.list(limit=-1) if row.task_id == task_id]
        return row

    def rows(self, thread_id: str) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that is stored of a thread."""
        with closing(self.connect()) as connection:
            tables, statement = [*TABLES, self._beside], "SELECT * FROM {} WHERE thread_id = '{}'"
            return {
                table: sorted(connection.execute(statement.format(table, thread_id)).fetchall(), key=repr)
                for table in tables
            }

    @property
    def _beside(self) -> str:
        """The table of state that is stored beside the checkpoints."""
        return "checkpoint_blobs" if isinstance(self.database, PostgresDatabase) else "texts"

    def connect(self) -> Any:
        """A plain connection of the driver's."""
        if isinstance(self.database, PostgresDatabase):
            return psycopg.connect(self.database.address, options="-c search_path=segue")
        return sqlite3.connect(self.database.url)


async def snapshots(database: Database[Any], thread_id: str, limit: int = 50, before: str | None = None) -> list[Json]:
    """The public form of a thread's snapshots."""
    return [
        found.json()
        for found in await database.read(lambda connection: stored_snapshots(connection, thread_id, limit, before))
    ]


async def fork(database: Database[Any], *place: str, **options: Any) -> str | None:
    """Copy a thread, which is given with its checkpoint and the copy's name."""
    return await database.write(lambda connection: stored_fork(connection, *place, **options))


@asynccontextmanager
async def world(address: str, **options: Any) -> AsyncIterator[World]:
    opening = open_postgres(address) if is_server(address) else open_database(address)
    database: Database[Any] = await opening
    async with segue.open(address, **options) as app, database:
        yield World(app, database)


def payments(here: World, *, first: bool = False) -> list[int]:
    """An agent that notes a number and pays, which needs approval, in one batch; returns what was paid."""
    paid: list[int] = []

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {amount}"

    def decide(messages: Sequence[BaseMessage]) -> str:
        batch = (("note", {"number": 1}), ("pay", {"amount": 5}))
        done = any("paid 5" in message.text for message in messages)
        return answer("it is paid") if done else call_tool(*(reversed(batch) if first else batch))

    agent = Agent(agent_id="a", model=ScriptedChatModel(decide), mode="react", tools=(here.note, pay))
    here.app.register(agent)
    return paid


def note_up_to(last: int) -> Callable[[Sequence[BaseMessage]], str]:
    """A model that has the numbers noted one by one, going by the results that it sees, then answers."""

    def decide(messages: Sequence[BaseMessage]) -> str:
        seen = {int(n) for m in messages for n in re.findall(r"noted (\d+)", m.text)}
        following = min(set(range(1, last + 1)) - seen, default=None)
        return answer("all noted") if following is None else call_tool(("note", {"number": following}))

    return decide


def look_in_a_batch(last: int) -> Callable[[Sequence[BaseMessage]], str]:
    """A model that has all numbers looked up in one batch, then answers."""

    def decide(messages: Sequence[BaseMessage]) -> str:
        seen = {n for m in messages for n in re.findall(r"saw (\d+)", m.text)}
        calls = [("look", {"number": number}) for number in range(1, last + 1)]
        return answer("seen " + ",".join(sorted(seen))) if seen else call_tool(*calls)

    return decide


def look_at_once(last: int) -> Callable[[Sequence[BaseMessage]], str]:
    """A model that plans to look all numbers up together, then answers from what was seen."""

    def reply(messages: Sequence[BaseMessage]) -> str:
        text = "\n".join(message.text for message in messages)
        if "saw 1" in text:
            return "seen " + ",".join(sorted(set(re.findall(r"saw (\d+)", text))))
        steps = [
            {"action": "look", "params": {"number": n}, "description": f"look {n} up", "phase": "execution"}
            | {"depends_on": []}
            for n in range(1, last + 1)
        ]
        return plan_json("look", steps)

    return reply


def note_the_turn(messages: Sequence[BaseMessage]) -> str:
    """A model that has the number of the turn noted, then answers; a message of turn 2 says «turn 2»."""
    text = "\n".join(message.text for message in messages)
    turn = max(int(number) for number in re.findall(r"turn (\d+)", text))
    return answer(f"done {turn}") if f"noted {turn}" in text else call_tool(("note", {"number": turn}))
