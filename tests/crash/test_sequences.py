"""Whatever is done to a session in whatever order, what must hold does: a small model of it, driven by Hypothesis."""

import asyncio
import shutil
import sqlite3
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import segue
from segue import Agent, tool
from segue.app import App
from segue.core.errors import TaskError
from segue.core.records import Task

from .deciding import Deciding
from .scenarios import ANSWER, Call, Round, Turn, step

ENDED = ("done", "cancelled")
STANDS = ("paused", "waiting", *ENDED)


def act(label: str) -> Call:
    return ("act", {"label": label})


def spend(label: str) -> Call:
    return ("spend", {"label": label})


def turn_of(message: str) -> Turn | None:
    """'mode number': an act and a payment at once, then another act; in `direct` only talk."""
    mode, _, number = message.partition(" ")
    first, paid, last = act(f"{number}a"), spend(f"{number}b"), act(f"{number}c")
    steps = (step(1, first), step(2, paid, 1), step(3, last, 2), step(4, None, 3))
    return Turn(message, mode, (Round((first, paid)), Round((last,)), ANSWER), steps)


def _copy(old: Path, new: Path) -> None:
    """Copy a database between two transactions, and let its leases run out."""
    with sqlite3.connect(old, timeout=30) as lock:
        lock.execute("BEGIN IMMEDIATE")
        for suffix in ("", "-wal"):
            shutil.copy(f"{old}{suffix}", f"{new}{suffix}")
        lock.rollback()
    lock.close()
    with sqlite3.connect(new) as left:
        left.execute("UPDATE leases SET owner = '', expires_at = 0")
    left.close()


class Sequences(RuleBasedStateMachine):
    """One session; `effects` is the world outside the database, and `life` the process that may touch it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.life = 0
        self.opened = AsyncExitStack()
        self.sent: dict[str, str] = {}
        self.effects: Counter[str] = Counter()
        self.rejected: set[str] = set()
        self.app = self.loop.run(self._open())

    def _path(self) -> Path:
        return Path(self.folder.name, f"{self.life}.db")

    async def _open(self) -> App:
        life = self.life
        self.touched = asyncio.Event()

        async def touch(label: str) -> str:
            if life != self.life:
                raise RuntimeError("the process is dead")
            self.effects[label] += 1
            self.touched.set()
            await asyncio.sleep(0.02)
            return f"did {label}"

        @tool
        async def act(label: str) -> str:
            """Do something once."""
            return await touch(label)

        @tool(needs_approval=True)
        async def spend(label: str) -> str:
            """Pay once, if a person agrees."""
            return await touch(label)

        app = await self.opened.enter_async_context(segue.open(self._path()))
        app.register(Agent(agent_id="a", model=Deciding(turn_of, lambda: None), tools=(act, spend)))
        return app

    async def _latest(self) -> Task | None:
        rows = await self.app.tasks.list(session_id="s", limit=1)
        return rows[0] if rows else None

    async def _until(self, task_id: str, events: int) -> None:
        """Let the task go on for so many durable events, or until it stands."""
        async for happening in self.app.follow(task_id):
            events -= happening.seq > 0
            if events == 0:
                return

    async def _standing(self) -> Task | None:
        """The latest task; where it runs here, what it comes to."""
        if row := await self._latest():
            await self._until(row.task_id, -1)
        return await self._latest()

    @rule(mode=st.sampled_from(["direct", "react", "plan", "plan_react"]), events=st.integers(1, 40))
    def send(self, mode: str, events: int) -> None:
        message = f"{mode} {len(self.sent)}"

        async def go() -> None:
            before = await self._latest()
            if before and before.status not in ENDED:
                with pytest.raises(TaskError):  # unfinished, or busy
                    await self.app.start(message, session_id="s", agent="a", mode=mode)
                now = await self._latest()
                assert now and now.task_id == before.task_id
                return
            row = await self.app.start(message, session_id="s", agent="a", mode=mode)
            self.sent[row.task_id] = message
            await self._until(row.task_id, events)

        self.loop.run(go())

    @rule()
    def pause(self) -> None:
        async def go() -> None:
            row = await self._latest()
            if row is None:
                return
            try:
                await self.app.pause(row.task_id)
            except TaskError:
                now = await self._latest()
                assert now and now.status in STANDS
                return
            now = await self._standing()
            assert now and now.status in STANDS

        self.loop.run(go())

    @rule(events=st.integers(1, 60))
    def resume(self, events: int) -> None:
        async def go() -> None:
            row = await self._standing()
            if row is None:
                return
            if row.status in (*ENDED, "waiting"):
                with pytest.raises(TaskError):
                    await self.app.tasks.resume(row.task_id)
                return
            await self.app.tasks.resume(row.task_id)
            await self._until(row.task_id, len((await self.app.trace(row.task_id)).events) + events)

        self.loop.run(go())

    @rule(verdict=st.sampled_from(["approve", "reject"]))
    def answer(self, verdict: str) -> None:
        async def go() -> None:
            row = await self._standing()
            if row is None:
                return
            if row.status != "waiting":
                with pytest.raises(TaskError):
                    await self.app.tasks.resume(row.task_id, answer=verdict)
                return
            asked = (await self.app.question(row.task_id))["calls"]
            assert [call["name"] for call in asked] == ["spend"]
            label = asked[0]["arguments"]["label"]
            assert not self.effects[label]
            if verdict == "reject":
                self.rejected.add(label)
            await self.app.tasks.resume(row.task_id, answer=verdict)

        self.loop.run(go())

    @rule(verdict=st.sampled_from(["approve", "reject"]))
    def finish(self, verdict: str) -> None:
        """Go on until the task has ended, whatever it takes."""

        async def go() -> None:
            while (row := await self._standing()) and row.status not in ENDED:
                waits = row.status == "waiting"
                if waits and verdict == "reject":
                    asked = (await self.app.question(row.task_id))["calls"]
                    self.rejected.add(asked[0]["arguments"]["label"])
                await self.app.tasks.resume(row.task_id, answer=verdict if waits else None)
            assert row is None or row.status in ENDED

        self.loop.run(go())

    @rule()
    def cancel(self) -> None:
        async def go() -> None:
            row = await self._latest()
            if row is None:
                return
            try:
                await self.app.cancel(row.task_id)
            except TaskError:
                now = await self._latest()
                assert now and now.status in ENDED
                return
            now = await self._latest()
            assert now and now.status == "cancelled"

        self.loop.run(go())

    async def _inside_a_tool(self) -> None:
        """Wait until the task that runs has just had an effect, or stands."""
        self.touched.clear()
        waits = [asyncio.ensure_future(self.touched.wait()), asyncio.ensure_future(self._standing())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    @rule(in_tool=st.booleans())
    def kill(self, in_tool: bool) -> None:
        """What a process that dies leaves behind, and one that comes after its lease."""
        if in_tool:
            self.loop.run(self._inside_a_tool())
        old = self._path()
        self.life += 1
        self.loop.run(asyncio.to_thread(_copy, old, self._path()))
        self.app = self.loop.run(self._open())

    @invariant()
    def nothing_is_done_twice_or_against_a_persons_will(self) -> None:
        assert all(count == 1 for count in self.effects.values()), self.effects
        assert not [label for label in self.rejected if self.effects[label]]

    @invariant()
    def what_is_stored_fits_together(self) -> None:
        self.loop.run(self._fits())

    async def _fits(self) -> None:
        rows = await self.app.tasks.list(session_id="s", limit=-1)
        assert sum(row.status not in ENDED for row in rows) <= 1
        assert not [row.error for row in rows if row.status == "error"]
        for row in rows:
            trace = await self.app.trace(row.task_id)
            assert [event.seq for event in trace.events] == list(range(1, len(trace.events) + 1))
            moves = [event.data for event in trace.events if event.type == "state_changed"]
            assert [move["new"] for move in moves[:-1]] == [move["old"] for move in moves[1:]]
            if row.status == "done":
                self._came_to_its_end(row)

    def _came_to_its_end(self, row: Task) -> None:
        mode, number = row.message.split()
        labels = [] if mode == "direct" else [f"{number}{letter}" for letter in "abc"]
        unknown = {call["arguments"]["label"] for call in row.result["unknown_outcomes"]}
        told = str(row.result["answer"])
        for label in labels:
            if label in unknown:
                assert f"{label}: unknown" in told
            elif label in self.rejected:
                assert f"did {label}" not in told
            elif mode == "react" or not (unknown or self.rejected):
                assert self.effects[label] == 1, row.result
                assert f"did {label}" in told or mode != "react"

    def teardown(self) -> None:
        """The session takes one more message, and its history has every turn in order."""

        async def go() -> None:
            row = await self._standing()
            if row and row.status not in ENDED:
                await self.app.cancel(row.task_id)
            result = await self.app.ask("direct last", session_id="s", agent="a", mode="direct")
            assert result["success"]
            asked = [m["content"] for m in await self.app.history("s") if m["role"] == "user"]
            messages = [*self.sent.values(), "direct last"]
            assert asked == [message for message in messages if message in asked] and asked[-1] == "direct last"
            for row in await self.app.tasks.list(session_id="s", limit=-1):
                event(f"{row.message.split()[0]} {row.status}")
            finished = [
                row.message for row in await self.app.tasks.list(session_id="s", limit=-1) if row.status == "done"
            ]
            assert set(finished) <= set(asked)
            await self.opened.aclose()

        try:
            self.loop.run(go())
        finally:
            self.loop.close()
            self.folder.cleanup()


TestSequences = pytest.mark.filterwarnings("default::ResourceWarning")(Sequences.TestCase)
TestSequences.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[*HealthCheck]
)
