"""Kills of `segue serve --graphs` while clients read runs: `python -m tests.crash.langgraph --kills 200`.

A round is a folder with a database and a client for each way to read events. The process is killed a few times, and the
next one is left in peace. Clients connect again after the last event that they have.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import websockets
from websockets.asyncio.client import connect

from segue.testing.chaos.processes import SECONDS, Zygote
from tests.ports import free_port

from .harness import ROOT, environment
from .langgraph_graphs import BATCHES
from .measurement import commit

Json = dict[str, Any]

CHANNELS = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "custom"]
MODES = ["values", "updates", "messages", "messages-tuple", "custom"]
MOST = 3
"""Kills of a round; a run is given up after the fifth."""
LABELS = [label for batch in BATCHES for _, label in batch]
GRAPHS = {"run": "checked", "sse": "checked", "socket": "unchecked", "agent": "travel"}
"""What each kind of client runs; the last one is an agent of Segue's, whose tasks make no effects."""
PROMPT = {"messages": [{"role": "user", "content": "Pay.", "id": "asked"}]}
_VOLATILE = {"timestamp", "thread_id", "run_id", "run_attempt", "checkpoint_id", "parent_id", "checkpoint_ns", "id"}
_VOLATILE |= {"__metadata__", "langgraph_checkpoint_ns", "langgraph_request_id", "interrupt_id"}
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


# Clients.


@dataclass
class Client:
    """One that reads what happens in a thread: what a process does not answer, it asks the next one."""

    url: str
    kind: str
    thread_id: str
    on_event: Callable[[], None]
    events: list[Json] = field(default_factory=list)
    """What it was sent, in order."""
    since: int = 0

    @property
    def graph(self) -> str:
        return GRAPHS[self.kind]

    @property
    def is_agent(self) -> bool:
        return self.kind == "agent"

    async def converse(self) -> None:
        """Begin a run, read it until it asks, answer, and read until the end; an agent does not ask."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=SECONDS) as self.http:
            await self.post("/threads", {"thread_id": self.thread_id, "if_exists": "do_nothing"})
            for number in (1,) if self.is_agent else (1, 2):
                run_id = await self._begin(number)
                await self._read(run_id)
                await self.get(f"/threads/{self.thread_id}/runs/{run_id}/join")

    async def _begin(self, number: int) -> str:
        """Begin the run of this number, unless an answer that got lost had begun it."""
        while True:
            runs = await self.get(f"/threads/{self.thread_id}/runs")
            if len(runs) >= number:
                return str(runs[0]["run_id"])
            with suppress(httpx.TransportError):
                path, body = self._beginning(number)
                answer = await self.http.post(path, json=body)
                assert answer.is_success, answer.text
                return str(answer.json().get("run_id") or answer.json()["result"]["run_id"])

    def _beginning(self, number: int) -> tuple[str, Json]:
        given = PROMPT if self.is_agent else {**PROMPT, "order": self.kind}
        if self.kind != "run":
            method = "run.start"
            params = {"assistant_id": self.graph, "input": given if number == 1 else "yes"}
            return f"/threads/{self.thread_id}/commands", {"id": 1, "method": method, "params": params}
        body: Json = {"input": given} if number == 1 else {"command": {"resume": "yes"}}
        return f"/threads/{self.thread_id}/runs", {**body, "assistant_id": self.graph, "stream_mode": MODES}

    async def _read(self, run_id: str) -> None:
        read = {"run": self._read_run, "socket": self._read_socket}.get(self.kind, self._read_thread)
        broken = (httpx.TransportError, OSError, websockets.exceptions.WebSocketException)
        while True:
            with suppress(*broken):
                await read(run_id)
                return
            await asyncio.sleep(0.02)

    def _add(self, seq: int, event: Json) -> bool:
        """Keep an event; whether it is the last one of a run."""
        self.events.append(event)
        self.since = seq
        self.on_event()
        params = event.get("params", {})
        is_lifecycle = event.get("method") == "lifecycle" and not params["namespace"]
        return is_lifecycle and params["data"]["event"] in ("completed", "failed", "interrupted")

    async def _read_run(self, run_id: str) -> None:
        path = f"/threads/{self.thread_id}/runs/{run_id}/stream"
        frames: list[Json] = []
        async for seq, event in sse(self.http, "GET", path, headers={"Last-Event-ID": str(self.since)}):
            frames += [] if event["event"] == "metadata" else [event]
            if seq:
                self.events += frames[:-1]
                self._add(seq, event)
                frames.clear()

    async def _read_thread(self, run_id: str) -> None:
        path, body = f"/threads/{self.thread_id}/stream/events", {"channels": CHANNELS, "since": self.since}
        async for seq, event in sse(self.http, "POST", path, json=body):
            if self._add(seq, event["data"]) and event["data"]["event_id"].startswith(run_id):
                return

    async def _read_socket(self, run_id: str) -> None:
        address = f"{self.url.replace('http', 'ws')}/threads/{self.thread_id}/stream/events"
        async with connect(address, proxy=None) as socket:
            params = {"channels": CHANNELS, "since": self.since}
            await socket.send(json.dumps({"id": 1, "method": "subscription.subscribe", "params": params}))
            while True:
                event = json.loads(await socket.recv())
                if event["type"] == "event" and self._add(event["seq"], event) and event["event_id"].startswith(run_id):
                    return

    async def whole(self) -> list[Json]:
        """What a client gets that reads everything from the beginning, while nothing is killed."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=SECONDS) as self.http:
            again = Client(self.url, "run" if self.kind == "run" else "sse", self.thread_id, lambda: None)
            again.http = self.http
            for run in reversed(await self.get(f"/threads/{self.thread_id}/runs")):
                await again._read(run["run_id"])
            return again.events

    async def get(self, path: str) -> Any:
        return await self._ask("GET", path)

    async def post(self, path: str, body: Json) -> Any:
        return await self._ask("POST", path, json=body)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        while True:
            with suppress(httpx.TransportError, json.JSONDecodeError):
                answer = await self.http.request(method, path, **options)
                assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
                return answer.json()
            await asyncio.sleep(0.02)


async def sse(http: httpx.AsyncClient, method: str, path: str, **options: Any) -> Any:
    """The events of a stream with their numbers; 0 where one has none."""
    async with http.stream(method, path, **options) as answer:
        assert answer.is_success, await answer.aread()
        frame: Json = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                frame[name] = value
            elif "data" in frame:
                yield int(frame.get("id", 0)), {"event": frame["event"], "data": json.loads(frame["data"])}
                frame = {}


# Rounds.


@dataclass
class Round:
    """A seed names the threads and the blows: 'write:137', 'tool:sse-a:after', 'event:12' or 'time:0.2'."""

    seed: int
    blows: tuple[str, ...]
    kills: int = 0
    findings: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    """The events of each kind of client, without what differs between two runs."""
    written: int = 0
    seconds: float = 0.0


def play(zygote: Zygote, round: Round, folder: Path, reference: Round | None) -> Round:
    """Have the clients converse while the process is killed, then judge what is left."""
    folder.mkdir()
    graphs = {name: f"tests.crash.langgraph_graphs:{name}" for name in ("checked", "unchecked")}
    (folder / "langgraph.json").write_text(json.dumps({"graphs": graphs}), encoding="utf-8")
    asyncio.run(_play(zygote, round, folder, reference))
    return round


class Service:
    """The processes of a round, one after the other."""

    def __init__(self, zygote: Zygote, round: Round, folder: Path) -> None:
        self._zygote = zygote
        self._round = round
        self._folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pid = 0
        self._events = 0
        self._due = 0
        self.done = False

    async def run(self) -> None:
        """Start a process for each blow, and one after the last, which stays."""
        for blow in (*self._round.blows, ""):
            kind, _, value = blow.partition(":")
            at = {blow: "kill"} if kind in ("write", "tool") else {}
            self._due = self._events + int(value) if kind == "event" else 0
            self.pid = self._zygote.fork({"folder": str(self._folder), "port": self.port, "at": at})
            waiting = asyncio.create_task(asyncio.to_thread(self._zygote.wait, self.pid, SECONDS))
            if kind == "time":
                await asyncio.wait([waiting], timeout=float(value))
                self.kill()
            status = await waiting
            if self.done:
                return
            self._round.kills += status == -signal.SIGKILL
            if status != -signal.SIGKILL:
                log = (self._folder / "log.txt").read_text(encoding="utf-8")
                raise RuntimeError(f"the service ended by itself, {status}: {log[-2000:]}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def count_event(self) -> None:
        self._events += 1
        if self._events == self._due:
            self.kill()


async def _play(zygote: Zygote, round: Round, folder: Path, reference: Round | None) -> None:
    service = Service(zygote, round, folder)
    serving = asyncio.create_task(service.run())
    threads = uuid.uuid5(uuid.NAMESPACE_URL, str(round.seed))
    clients = [Client(service.url, kind, str(uuid.uuid5(threads, kind)), service.count_event) for kind in GRAPHS]
    began = time.monotonic()
    talking = asyncio.gather(*(client.converse() for client in clients))
    try:
        both: list[asyncio.Future[Any]] = [talking, serving]
        done, _ = await asyncio.wait(both, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if serving in done:
            serving.result()
        if talking not in done:
            round.findings += [f"{each.kind}: hangs after event {each.since}" for each in clients]
            return
        talking.result()
        round.seconds = time.monotonic() - began
        for client in clients:
            round.findings += [f"{client.kind}: {found}" for found in await _judge_client(client, folder)]
            round.events += Counter(f"{client.kind} {text}" for text in _plain(client))
        if reference:
            round.findings += [f"no event {text}" for text in reference.events - round.events]
        os.kill(service.pid, signal.SIGUSR1)
        await asyncio.sleep(0.1)
        with suppress(OSError, ValueError):
            round.written = json.loads((folder / "written.json").read_text())
    finally:
        talking.cancel()
        service.done = True
        service.kill()
        await asyncio.gather(serving, return_exceptions=True)


async def _judge_client(client: Client, folder: Path) -> list[str]:
    whole = await client.whole()
    found = []
    if client.events != whole:
        counts = f"it got {len(client.events)} events, not the {len(whole)} that there are"
        found.append(f"{counts}; {_difference(client.events, whole)}")
    async with httpx.AsyncClient(base_url=client.url, trust_env=False, timeout=SECONDS) as client.http:
        thread = await client.get(f"/threads/{client.thread_id}")
        runs = await client.get(f"/threads/{client.thread_id}/runs")
        tasks = await client.get(f"/api/sessions/langgraph.{client.thread_id}/tasks") if client.is_agent else {}
    if thread["status"] != "idle" or {run["status"] for run in runs} != {"success"}:
        found.append(f"the thread is {thread['status']}, its runs {[run['status'] for run in runs]}: {thread['error']}")
    values = thread["values"] or {}
    if client.is_agent:
        answers = [task["result"]["answer"] for task in tasks["items"] if task["status"] == "done"]
        if answers != [message["content"] for message in values["messages"][1:]]:
            found.append(f"its tasks are {tasks}, its state {values}")
    elif values.get("said") != ["yes"]:
        found.append(f"the state ends as {values}")
    lines = (folder / "effects.jsonl").read_text(encoding="utf-8").splitlines()
    ran = Counter(json.loads(line)["label"] for line in lines)
    for label in () if client.is_agent else (f"{client.kind}-{each}" for each in LABELS):
        if ran[label] > 1 or (client.graph == "checked" and not ran[label]):
            found.append(f"{label} ran {ran[label]} times")
    with closing(sqlite3.connect(folder / "segue.db")) as connection:
        numbers = connection.execute(
            "SELECT seq FROM graph_events WHERE thread_id = ? ORDER BY seq", (client.thread_id,)
        )
        seqs = [seq for (seq,) in numbers]
    if seqs != [*range(1, len(seqs) + 1)]:
        found.append(f"the stored events are numbered {seqs}")
    return found


def _difference(got: Sequence[Json], whole: Sequence[Json]) -> str:
    for place, (one, other) in enumerate(zip(got, whole, strict=False)):
        if one != other:
            return f"the first that differs is {place}: {json.dumps(one)[:600]} instead of {json.dumps(other)[:600]}"
    return "one of them ends early"


def _plain(client: Client) -> Iterator[str]:
    """The events that the client got, without what differs between two runs."""
    for event in client.events:
        form = event.get("params", event)
        name = event.get("method", event.get("event", "")).split("|")[0]
        if client.graph == "checked" and name != "lifecycle":
            yield f"{name} {json.dumps(_stable(form), sort_keys=True)}"


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name not in _VOLATILE or isinstance(each, dict)}
        return {_stable(name): _stable(each) for name, each in kept.items()}
    if isinstance(value, list):
        return [_stable(each) for each in value]
    return _ID.sub("", value) if isinstance(value, str) else value


# The measurement.


def plan(seed: int, reference: Round) -> Iterator[Round]:
    """Rounds without end: a third of the blows at writes, the others around effects, at events and at random times."""
    chance = random.Random(seed)
    labels = [f"{kind}-{label}" for kind in ("run", "sse", "socket") for label in LABELS]

    def blow() -> str:
        match chance.randrange(6):
            case 0 | 1:
                return f"write:{chance.randrange(1, reference.written)}"
            case 2:
                return f"tool:{chance.choice(labels)}:{chance.choice(('before', 'after'))}"
            case 3 | 4:
                return f"event:{chance.randrange(1, reference.events.total() // 2)}"
        return f"time:{chance.uniform(0.0, reference.seconds / 2):.3f}"

    while True:
        blows = tuple(blow() for _ in range(chance.randint(1, MOST)))
        yield Round(chance.randrange(10**9), blows)


def measure(kills: int, seed: int, folder: Path, workers: int = 2) -> list[Round]:
    """Play rounds until it was killed so often."""
    rounds: list[Round] = []
    with ThreadPoolExecutor(workers) as pool, ExitStack() as opened:
        started = (Zygote("tests.crash.langgraph_child", ROOT, environment()) for _ in range(workers))
        zygotes = [opened.enter_context(each) for each in started]
        reference = pool.submit(play, zygotes[0], Round(0, ()), folder / "undisturbed", None).result()
        if reference.findings:
            raise RuntimeError(f"the undisturbed round fails: {reference.findings}")
        planned = plan(seed, reference)

        def work(zygote: Zygote) -> None:
            while sum(each.kills for each in rounds) < kills:
                each = next(planned)
                place = folder / f"{len(rounds):03d}-{each.seed}"
                rounds.append(each)
                play(zygote, each, place, reference)
                sys.stderr.write(f"{'+'.join(each.blows)}: {each.kills} kills, {len(each.findings)} findings\n")
                if not each.findings:
                    shutil.rmtree(place)

        for future in [pool.submit(work, zygote) for zygote in zygotes]:
            future.result()
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.langgraph", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how often to kill")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="segue-langgraph-"))
    began = time.monotonic()
    rounds = measure(given.kills, given.seed, folder)
    kills = sum(each.kills for each in rounds)
    sys.stdout.write(f"{kills} kills in {len(rounds)} rounds, {time.monotonic() - began:.0f} s, commit {commit()}\n")
    found = [f"{'+'.join(each.blows)} (seed {each.seed}): {finding}" for each in rounds for finding in each.findings]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    if found:
        sys.stdout.write(f"What they left is in {folder}.\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
