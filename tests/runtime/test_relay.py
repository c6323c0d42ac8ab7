"""What one process streams is seen in another one while it is written: in its order, without gap or repeat."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import segue
from segue.app import App
from segue.checkpoints.postgres.state import CHANNEL, STREAMS
from segue.checkpoints.sqlite.database import SqliteBackend
from segue.core.agents import Agent
from segue.core.events import AttemptRestarted, Event, Thinking, Token
from segue.core.records import Task
from segue.core.task import TaskStatus
from segue.runtime.relay import MAX_DELTA_CHARS, MAX_PENDING, Delta, Deltas, Notice, Notices, Relay
from segue.runtime.run import Run
from tests.fakes import answer
from tests.loopback import Gate, LoopbackServer
from tests.runtime.polling_workers import PollingWorkers
from tests.server.records import stored_task

ENVELOPE = answer("an answer in two halves", thought="a thought in two halves")
CASES = {"token": ENVELOPE.index("two halves", ENVELOPE.index("answer in")), "thinking": ENVELOPE.index("in two")}


@asynccontextmanager
async def working(database: str | Path, *agents: Agent) -> AsyncIterator[None]:
    async with segue.open(database, agents=agents, dispatch="never") as app:
        worker = app.worker(2)
        run = asyncio.create_task(worker.run(5.0))
        yield
        worker.stop()
        await run


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str | Path]:
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
    else:
        monkeypatch.setattr(SqliteBackend, "workers", PollingWorkers(tmp_path / "segue.db"))
        yield tmp_path / "segue.db"


@pytest.mark.parametrize("kind", CASES)
async def test_the_first_half_is_seen_elsewhere_before_the_second_is_sent(database: str | Path, kind: str) -> None:
    seen = asyncio.Event()
    async with LoopbackServer([Gate(ENVELOPE[: CASES[kind]], ENVELOPE[CASES[kind] :], seen)]) as server:
        agent = Agent(agent_id="a", model="openai:m", base_url=server.base_url, protocol="json")
        async with segue.open(database, agents=[agent], dispatch="always") as app, working(database, agent):
            async with asyncio.timeout(60):
                events = [event async for event in watched(app, kind, seen)]
        server.assert_spent()
    assert seen.is_set()
    said = "".join(event.content for event in events if isinstance(event, Token))
    assert "an answer in two halves".startswith(said) and (said or kind == "thinking")
    numbers = [event.seq for event in events if event.seq]
    assert numbers == [*range(1, len(numbers) + 1)]


async def watched(app: App, kind: str, seen: asyncio.Event) -> AsyncIterator[Event]:
    """The events of a new task; `seen` is set at the first delta of that kind that is no banner."""
    async for event in app.chat("go", agent="a", mode="react"):
        if event.type == kind and "━" not in event.content:
            seen.set()
        yield event


async def test_who_waits_for_the_end_alone_is_given_no_deltas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteBackend, "workers", PollingWorkers(tmp_path / "segue.db"))
    follows, streamed = asyncio.Semaphore(0), asyncio.Event()
    async with segue.open(tmp_path / "segue.db", dispatch="always") as app:
        task_id = (await app.start("go")).task_id

        async def followed(streams: bool) -> list[str]:
            types = []
            async for event in app._control.follow(task_id, streams=streams):
                types.append(event.type)
                follows.release()
                if isinstance(event, Token):
                    streamed.set()
            return types

        following = [asyncio.create_task(followed(streams)) for streams in (False, True)]
        for _ in following:
            await follows.acquire()
        said = Token(task_id=task_id, content="one").json()
        app._runner.notices.on_message({"event": said, "after": len(await app.events(task_id)), "at": 0})
        await streamed.wait()
        await app.cancel(task_id)
        alone, both = await asyncio.gather(*following)
    assert both.count("token") == 1
    assert "token" not in alone


# What becomes of deltas that are lost, late or repeated


def token(text: str, at: int, after: int = 3) -> Delta:
    return Delta(Token(task_id="t", trace_id="r", content=text), after, at)


def shown(*deltas: Delta, seen: int = 3) -> list[str]:
    found = Deltas()
    for delta in deltas:
        found.add(delta)
    return [event.content if isinstance(event, Token) else event.type for event in found.until(seen)]


def test_what_follows_a_gap_is_left_out() -> None:
    assert shown(token("one ", 0), token("three", 8), token("!", 13)) == ["one "]
    assert shown(token("two", 4)) == []


def test_what_came_before_an_event_that_is_known_is_left_out_and_what_comes_after_one_that_is_not_waits() -> None:
    assert shown(token("late", 0, after=2)) == []
    found = Deltas()
    found.add(token("early", 0, after=4))
    assert [*found.until(3)] == []
    assert len([*found.until(4)]) == 1


def test_a_call_that_is_made_again_by_another_process_begins_anew() -> None:
    assert shown(token("half", 0), token("half ", 0), token("and half", 5)) == [
        "half",
        "attempt_restarted",
        "half ",
        "and half",
    ]


def test_an_attempt_that_restarts_begins_anew() -> None:
    restarted = Delta(AttemptRestarted(task_id="t", trace_id="r", attempt=2, reason="cut"), 3, 0)
    assert shown(token("half", 0), restarted, token("whole", 0)) == ["half", "attempt_restarted", "whole"]


class Sent:
    """In place of the workers of a database: keeps what a relay sends."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.relay_of: Any = None

    def relay(self, deltas: Any) -> Any:
        self.relay_of = deltas
        return lambda: self.messages.extend(map(json.loads, deltas()))


async def test_texts_are_gathered_and_divided_and_nothing_is_sent_that_nobody_follows() -> None:
    sent = Sent()
    relay = Relay(sent, notices := Notices(None))  # type: ignore[arg-type]
    run = Run(row("t"), 1, asyncio.get_running_loop().create_future())
    relay.send(run, Token(task_id="t", content="unseen"))
    notices.on_message({"watch": "t"})
    for text in ("a", "b", "c" * (MAX_DELTA_CHARS + 1)):
        relay.send(run, Token(task_id="t", content=text))
    relay.send(run, Thinking(task_id="t", content="hm"))
    relay._flush()
    assert [(len(m["event"]["data"]["content"]), m["at"]) for m in sent.messages] == [
        (2, 6),
        (MAX_DELTA_CHARS, 8),
        (1, 8 + MAX_DELTA_CHARS),
        (2, 0),
    ]
    sent.messages.clear()
    for number in range(MAX_PENDING + 10):
        relay.send(run, Thinking(task_id="t", trace_id=str(number), content="x"))
    relay._flush()
    assert len(sent.messages) == MAX_PENDING


@pytest.mark.postgres
async def test_any_text_can_be_sent(postgres_url: str) -> None:
    texts, heard, came = ["\ud83d\x00", "😀" * MAX_DELTA_CHARS, "end"], [], asyncio.Event()

    def hear(message: dict[str, Any]) -> None:
        heard.append(message["event"]["data"]["content"])
        if heard[-1] == "end":
            came.set()

    async with segue.open(postgres_url) as app:
        runner = app._runner
        run = Run(row("t"), 1, asyncio.get_running_loop().create_future())
        runner.relay._watched["t"] = float("inf")
        runner.notices.on_message, connected = hear, asyncio.Event()
        listening = asyncio.create_task(runner.notices._listen(print, hear, lambda _: connected.set()))  # type: ignore[misc]
        await connected.wait()
        for number, text in enumerate(texts):
            runner.relay.send(run, Token(task_id="t", trace_id=str(number), content=text))
        await came.wait()
        listening.cancel()
    assert heard == texts


@pytest.mark.postgres
async def test_a_notification_that_cannot_be_read_is_skipped(postgres_url: str) -> None:
    told, connected, came = [], asyncio.Event(), asyncio.Event()

    def tell(*ids: str) -> None:
        told.append(ids)
        came.set()

    async with segue.open(postgres_url) as app:
        runner = app._runner
        listening = asyncio.create_task(
            runner.notices._listen(tell, runner.notices.on_message, lambda _: connected.set())
        )  # type: ignore[misc]
        await connected.wait()
        unknown = json.dumps({"event": {"type": "later", "task_id": "t", "data": {}}, "after": 0, "at": 0})
        sent = [(channel, text) for channel in (CHANNEL, STREAMS) for text in ("no JSON", "[" * 7000, "3")]
        with runner.relay.following("t", Notice(runner.notices)):
            async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
                for values in [*sent, (STREAMS, unknown), (CHANNEL, '{"task_id": "t"}')]:
                    await connection.execute("SELECT pg_notify(%s, %s)", values)
            coming = asyncio.create_task(came.wait())
            await asyncio.wait({coming, listening}, return_when=asyncio.FIRST_COMPLETED)
            for each in (coming, listening):
                each.cancel()
            await asyncio.gather(coming, listening, return_exceptions=True)
    assert told == [("t",)]


def row(task_id: str) -> Task:
    return stored_task(task_id=task_id, status=TaskStatus.RUNNING)
