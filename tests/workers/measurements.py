"""What a fleet of workers is put through, and what came of it."""

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

import segue
from segue import App
from segue.core.agents import load_agents
from segue.core.errors import DatabaseUnavailable, SegueError

from .fleet import AGENTS, Fleet
from .judge import Verdict, judge

AGENT = "payer"
PATIENCE = 120.0
"""Seconds without any task that ends, after which the rest counts as stuck."""
_SCHEMA = "-c search_path=segue"
_ENDED = "SELECT count(*) FROM tasks WHERE status IN ('done', 'error', 'cancelled', 'paused')"
_HELD = "SELECT task_id FROM tasks JOIN leases USING (thread_id) WHERE owner LIKE %s AND status = 'running'"
_RESUMED = """
    SELECT min((event::jsonb ->> 'timestamp')::float) FROM events
    WHERE task_id = %s AND event::jsonb ->> 'type' = 'resumed' AND (event::jsonb ->> 'timestamp')::float > %s
"""


@dataclass(frozen=True)
class Spread:
    """Milliseconds: the median, the 99th percentile and the longest."""

    p50: float
    p99: float
    most: float

    @staticmethod
    def of(seconds: Sequence[float]) -> "Spread":
        if not seconds:
            return Spread(0.0, 0.0, 0.0)
        ordered = sorted(seconds)
        at_99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return Spread(*(round(1000 * value, 1) for value in (statistics.median(ordered), at_99, ordered[-1])))


@dataclass
class Chaos:
    """What came of tasks whose workers were killed and whose server was restarted."""

    verdict: Verdict
    seconds: float
    kills: int
    restarts: int
    takeovers: list[float] = field(default_factory=list)


@asynccontextmanager
async def dispatcher(url: str) -> AsyncIterator[App]:
    """An app that leaves every task to the workers."""
    async with segue.open(url, agents=load_agents(str(AGENTS)), dispatch="always") as app:
        yield app


async def until(found: Callable[[], Awaitable[Any]]) -> None:
    """Wait until something is found."""
    deadline = time.monotonic() + PATIENCE
    while not await found():
        if time.monotonic() > deadline:
            raise TimeoutError(f"It did not happen within {PATIENCE:g} s.")
        await asyncio.sleep(0.05)


async def ready(app: App, count: int) -> None:
    """Wait until so many workers are there."""

    async def all_there() -> bool:
        return len(await app.tasks.workers()) >= count

    await until(all_there)


async def in_spite_of_failures(action: Callable[[], Awaitable[Any]]) -> Any:
    """Try again for as long as the database cannot be used."""
    while True:
        try:
            return await action()
        except DatabaseUnavailable:
            await asyncio.sleep(0.2)


async def send(app: App, names: Sequence[str], calls: int, delay: float = 0.0, at_once: int = 16) -> None:
    """Start a task for each name, each in a session of its own, under an idempotency key."""
    places = asyncio.Semaphore(at_once)

    async def one(name: str) -> None:
        message = f"[pay {name} {calls} {delay}]"
        async with places:
            options: Any = {"session_id": name, "agent": AGENT, "mode": "react", "idempotency_key": name}
            await in_spite_of_failures(lambda: app.start(message, **options))

    await asyncio.gather(*(one(name) for name in names))


async def until_ended(url: str, count: int) -> bool:
    """Wait until so many tasks came to an end; False where none does for a while."""
    seen, since = -1, time.monotonic()
    while seen < count:
        try:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True, options=_SCHEMA) as connection:
                row = await (await connection.execute(_ENDED)).fetchone()
        except psycopg.OperationalError:
            row = None
        if row and row[0] != seen:
            seen, since = row[0], time.monotonic()
        if time.monotonic() - since > PATIENCE:
            return False
        await asyncio.sleep(0.1)
    return True


async def held_by(url: str, pid: int) -> list[str]:
    """The tasks that a process of this machine runs."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, options=_SCHEMA) as connection:
        return [row[0] for row in await (await connection.execute(_HELD, (f"%:{pid}:%",))).fetchall()]


async def busy(url: str, workers: Fleet) -> int:
    """Wait until a worker runs a task; which one takes it is chance."""
    found: list[int] = []

    async def look() -> list[int]:
        found[:] = [pid for pid in workers.running if await held_by(url, pid)]
        return found

    await until(look)
    return found[0]


async def takeovers(url: str, victims: Sequence[tuple[str, float]]) -> list[float]:
    """How long each task waited until another worker went on with it; those that had ended are left out."""
    found = []
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, options=_SCHEMA) as connection:
        for task_id, at in victims:
            row = await (await connection.execute(_RESUMED, (task_id, at))).fetchone()
            if row and row[0] is not None:
                found.append(row[0] - at)
    return found


async def chaos(
    url: str,
    workers: Fleet,
    restart: Callable[[], None],
    *,
    tasks: int,
    count: int = 3,
    every: float = 3.0,
    restarts: int = 2,
    calls: int = 2,
    delay: float = 0.05,
    seed: int = 1,
) -> Chaos:
    """Kill a random worker again and again, start another one, and restart the server in between."""
    chosen, began = random.Random(seed), time.monotonic()
    names = [f"t{number}" for number in range(tasks)]
    victims: list[tuple[str, float]] = []
    workers.start(count)
    result = Chaos(Verdict(0, 0, (), (), (), (), 0), 0.0, 0, 0)
    async with dispatcher(url) as app:
        sending = asyncio.create_task(send(app, names, calls, delay))
        ending = asyncio.create_task(until_ended(url, tasks))
        for number in itertools.count(1):
            await asyncio.wait([ending], timeout=every * chosen.uniform(0.5, 1.5))
            if ending.done():
                break
            if number % 4 == 0 and result.restarts < restarts:
                await asyncio.to_thread(restart)
                result.restarts += 1
                continue
            await in_spite_of_failures(lambda: ready(app, count))
            pid = chosen.choice(workers.running)
            held = await held_by(url, pid)
            workers.kill(pid)
            victims += [(task_id, time.time()) for task_id in held]
            workers.start()
            result.kills += 1
        await sending
    result.seconds = time.monotonic() - began
    result.takeovers = await takeovers(url, victims)
    result.verdict = judge(url, workers.payments)
    return result


@dataclass(frozen=True)
class Frozen:
    """What came of the tasks of a worker that stood still beyond its leases."""

    verdict: Verdict
    frozen: int
    takeovers: list[float]
    late_writes: Counter[str]
    """Rows that the worker wrote for these tasks once it went on, by table."""


_AUDIT = """
    CREATE TABLE seen (name text, place text, thread text, at timestamptz);
    CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO seen VALUES (
            current_setting('application_name'), TG_TABLE_NAME, NEW.thread_id, clock_timestamp()
        );
        RETURN NULL;
    END $$;
"""
_AUDITED = ("tasks", "events", "calls", "checkpoints", "checkpoint_writes")


async def freeze(url: str, workers: Fleet, *, tasks: int, seconds: float = 12.0, delay: float = 1.0) -> Frozen:
    """Stop one of two workers for longer than a lease lives, then let it go on."""
    names = [f"f{number}" for number in range(tasks)]
    async with (
        dispatcher(url) as app,
        await psycopg.AsyncConnection.connect(url, autocommit=True, options=_SCHEMA) as connection,
    ):
        await connection.execute(_AUDIT)
        for table in _AUDITED:
            await connection.execute(
                f"CREATE TRIGGER seen AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION seen()".encode()
            )
        workers.start(2)
        await ready(app, 2)
        await send(app, names, 2, delay)
        pid = await busy(url, workers)
        at = time.time()
        workers.freeze(pid)
        held = await held_by(url, pid)
        await asyncio.sleep(seconds)
        thawed = time.time()
        workers.thaw(pid)
        await until_ended(url, tasks)
        rows = await connection.execute(
            "SELECT place FROM seen JOIN tasks ON thread = thread_id"
            " WHERE name = %s AND task_id = ANY(%s) AND extract(epoch FROM at) > %s",
            (workers.name_of(pid), held, thawed),
        )
        late = Counter(row[0] for row in await rows.fetchall())
    taken = await takeovers(url, [(each, at) for each in held])
    return Frozen(judge(url, workers.payments), len(held), taken, late)


@dataclass(frozen=True)
class Throughput:
    """Tasks a second, and the seconds of processor time that a task took where."""

    workers: int
    tasks_a_second: float
    in_workers: float
    in_postgres: float
    elsewhere: float


async def throughput(url: str, workers: Fleet, server: int, *, tasks: int, count: int, calls: int = 2) -> Throughput:
    """Run the tasks that wait already, with so many workers."""
    names = [f"w{count}-{number}" for number in range(tasks)]
    async with dispatcher(url) as app:
        await send(app, names, calls)
        workers.start(count)
        await ready(app, count)
        busy, postgres, began = _seconds(workers.running), _seconds(_family(server)), time.monotonic()
        done = await _ended(url)
        await until_ended(url, tasks)
        seconds, ran = time.monotonic() - began, tasks - done
        spent = _seconds(workers.running) - busy
        in_postgres = _seconds(_family(server)) - postgres
        total = seconds * (os.cpu_count() or 1)
    return Throughput(
        count,
        round(ran / seconds, 1),
        *(round(value / ran, 4) for value in (spent, in_postgres, total - spent - in_postgres)),
    )


async def _ended(url: str) -> int:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, options=_SCHEMA) as connection:
        row = await (await connection.execute(_ENDED)).fetchone()
    return int(row[0]) if row else 0


def _family(pid: int) -> list[int]:
    import psutil

    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def _seconds(pids: Sequence[int]) -> float:
    """The processor time of processes so far; one that ended meanwhile counts nothing."""
    import psutil

    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


@dataclass(frozen=True)
class Latency:
    """Until a message and its job were stored, until a worker began, and from one task to the session's next."""

    dispatch: Spread
    begun: Spread
    following: Spread


async def latency(url: str, workers: Fleet, *, rounds: int) -> Latency:
    """One message after the other to idle workers, then messages that wait for the one before them."""
    workers.start(2)
    dispatched, begun, following = [], [], []
    async with dispatcher(url) as app:
        await ready(app, 2)
        for number in range(rounds):
            began, at = time.perf_counter(), time.time()
            task = await app.start(f"[pay l{number} 0]", session_id=f"l{number}", agent=AGENT, mode="react")
            dispatched.append(time.perf_counter() - began)
            events = [event async for event in app.follow(task.task_id)]
            begun.append(next(event.timestamp for event in events) - at)
        for number in range(rounds):
            first, second = await asyncio.gather(
                app.start(f"[pay n{number} 0 0.2]", session_id=f"n{number}", agent=AGENT, mode="react"),
                _later(app, f"[pay m{number} 0]", session_id=f"n{number}", agent=AGENT, mode="react", wait=30.0),
            )
            ended = [event async for event in app.follow(first.task_id)][-1].timestamp
            begins = await anext(app.follow(second["task_id"]))
            following.append(begins.timestamp - ended)
    return Latency(Spread.of(dispatched), Spread.of(begun), Spread.of(following))


async def _later(app: App, message: str, **options: Any) -> Any:
    await asyncio.sleep(0.1)
    return await app.start(message, **options)


@dataclass(frozen=True)
class Raced:
    """How the messages of the races ended, and which of them are missing or there twice."""

    ends: Counter[str]
    lost: list[str]


async def races(url: str, workers: Fleet, *, count: int, wait: float, turns: int = 20) -> Raced:
    """Two apps send a message to one session at the same instant, again and again."""
    workers.start(2)
    ends: dict[str, str] = {}
    async with dispatcher(url) as one, dispatcher(url) as other:
        for number in range(count):
            names = {f"{number}A": one, f"{number}B": other}
            session = f"race{wait:g}-{number // turns}"
            options: Any = {"session_id": session, "agent": AGENT, "mode": "react", "wait": wait}
            found = await asyncio.gather(*(_end_of(app, f"[pay {name} 1]", options) for name, app in names.items()))
            ends |= dict(zip(names, found, strict=True))
        histories = [await one.history(f"race{wait:g}-{number}") for number in range((count - 1) // turns + 1)]
    said = Counter(str(message["content"]).split()[1] for history in histories for message in _worded(history))
    lost = [f"{name} ended as {end}, and is there {said[name]} times" for name, end in ends.items()
            if said[name] != 2 * (end == "done")]  # fmt: skip
    return Raced(Counter(ends.values()), [*lost, *judge(url, workers.payments).faults])


def _worded(history: Sequence[Any]) -> list[Any]:
    """The messages and the answers, each of which names its payment second."""
    return [m for m in history if m["role"] in ("user", "assistant") and m.get("content")]


async def _end_of(app: App, message: str, options: Any) -> str:
    try:
        return str((await app.ask(message, **options))["status"])
    except SegueError as error:
        return type(error).__name__
