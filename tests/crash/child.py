"""What one process of a run does: go on with the scenario's conversation from wherever the database stands."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import segue
from segue import Agent, App
from segue.core.agents import McpServer
from segue.core.errors import SegueError, TaskError
from segue.core.events import Event
from segue.core.flows import FlowConfig
from segue.core.records import Task
from segue.runtime.start import Request
from segue.testing.chaos.traps import append_line

from . import clock, controls
from .deciding import Deciding
from .scenarios import OUTLAST, SCENARIOS, SESSION, Note, Scenario, Turn, reply_to
from .tools import Effects, Linger, a_moment, tools_over
from .traps import Traps

AGENT = "crashed"
HELPER = "helper"
DESK = FlowConfig.model_validate(
    {
        "subflows_config": {
            "Executor": {
                "branches": {
                    "clerk": {"agent": AGENT, "description": "Settles a part of it."},
                    "office": {"flow": FlowConfig(name="office"), "description": "Settles another part of it."},
                }
            }
        }
    }
)
"""The flow of a mode of its own: a branch that is an agent, and one that is a flow."""
ACCEPTED = "accepted.jsonl"
"""The messages that were accepted while a tool ran: from then on they must not get lost."""
SECONDS = 30.0
"""A task that runs has paused by then."""


@dataclass
class Orders:
    """What a child is told: the scenario, where its files are, and what shall befall it.

    `at` maps points to kill, stop or pause; `pages` is how much the database may grow; `pause_after` the numbers of
    the durable events after which a pause is asked for; `leave` ends the process once it paused; `without` switches
    off the ledger or the lease; `unknown` are labels whose calls count as interrupted; `ttl` shortens the lease,
    `lock_timeout` the wait for SQLite's lock; `unrenewed` is how many of its renewals fail; with `power` it is noted
    how much of the log is on the disk; `ahead` is how many seconds the clock is ahead, and `full_after` after how many
    files of messages their folder is full.
    """

    scenario: str
    folder: str
    at: dict[str, str] = field(default_factory=dict)
    pages: int | None = None
    pause_after: list[int] = field(default_factory=list)
    leave: bool = False
    without: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    ttl: float | None = None
    lock_timeout: float | None = None
    unrenewed: int = 0
    power: bool = False
    ahead: float = 0.0
    full_after: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def carry_on(given: Mapping[str, Any]) -> None:
    """Play the scenario to its end; `out.json` says how it went, `history.json` what the thread holds."""
    orders = Orders(**given)
    folder = Path(orders.folder)
    traps = Traps(orders.at, orders.pages, folder if orders.power else None)
    traps.install()
    controls.apply(orders.without, orders.unknown, orders.ttl, orders.lock_timeout)
    controls.fail_renewals(orders.unrenewed)
    clock.set_ahead(orders.ahead)
    if orders.full_after is not None:
        controls.fill_folder(orders.full_after)
    report: dict[str, Any] = {"error": None}
    began = time.monotonic()
    talk = _Talk(orders, traps)
    try:
        asyncio.run(talk.go_on())
        write(folder / "history.json", talk.history)
    except SegueError as error:
        report["error"] = {"type": type(error).__name__, "message": str(error)}
    report |= {"seconds": time.monotonic() - began, "written": traps.written, "models": traps.models}
    report["entries"] = traps.entries
    report["steers"], report["added"] = talk.steers, talk.added
    write(folder / "out.json", report)


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, default=lambda record: record.json()), encoding="utf-8")


class _Talk:
    """One child's part of the conversation."""

    def __init__(self, orders: Orders, traps: Traps) -> None:
        self._orders = orders
        self._traps = traps
        self._folder = Path(orders.folder)
        self._scenario: Scenario = SCENARIOS[orders.scenario]
        self._seen: Counter[str] = Counter()
        self._leaving = False
        self._pausing: set[asyncio.Task[None]] = set()
        self.history: dict[str, Any] = {}
        self.steers: list[int] = []
        """The number of the first write of each steer."""
        self.added: list[str] = []
        """The labels of the calls during which a message was accepted."""

    async def go_on(self) -> None:
        agents = agents_over(self._folder, self._traps, self._scenario, self._linger)
        modes = {"desk": DESK} if self._scenario.desk else {}
        async with segue.open(self._folder / "segue.db", agents=agents, modes=modes) as app:
            self._app = app
            self._traps.on_pause = self._pause_from_a_thread(app)
            for place, turn in enumerate(self._scenario.turns):
                self._traps.reach(f"turn:{place}")
                while (row := await self._row(app, place))["status"] not in ("done", "cancelled"):
                    if row["status"] == "paused" and self._leaving:
                        return
                    await self._converse(app, row, turn)
            self.history = {SESSION: await app.history(SESSION)}

    async def _row(self, app: App, place: int) -> Mapping[str, Any]:
        rows = await _rows(app)
        return rows[place].json() if place < len(rows) else {"task_id": "", "status": ""}

    async def _converse(self, app: App, row: Mapping[str, Any], turn: Turn) -> None:
        """Send the message if it is new, else go on with its task; what that fails with is raised."""
        known, status = row["task_id"], row["status"]
        watched = bool(self._orders.pause_after)
        doing: Any
        if not known:
            files = [(name, text.encode()) for name, text in turn.files]
            review = {"review_plan": True} if turn.review else {}
            doing = self._send(app, turn.message, mode=turn.mode, files=files, **review)
        elif status == "waiting" and turn.cancelled:
            doing = app.cancel(known)
        elif status == "waiting":
            answer = reply_to(await app.question(known))
            doing = app.answer_and_follow(known, answer) if watched else app.answer(known, answer)
        elif turn.note and not self._was_accepted(turn.note) and await _is_due(app, row, turn.note):
            doing = await self._steer(app, row, turn.note)
        else:
            listed = [other.task_id for other in await app.resumable()]
            assert status == "error" or known in listed, f"{row} is not among the resumable ones"
            doing = app.resume_and_follow(known) if watched else app.resume(known)
        await (self._watch(app, doing) if isinstance(doing, AsyncIterator) else doing)

    def _send(self, app: App, message: str, **options: Any) -> Any:
        options = {"session_id": SESSION, "agent": AGENT, **options}
        return app.chat(message, **options) if self._orders.pause_after else app.ask(message, **options)

    async def _steer(self, app: App, row: Mapping[str, Any], note: Note) -> Any:
        """Send the note; what is sent to a task that failed would begin another, so that is paused first."""
        if row["status"] == "error":
            await app.tasks.resume(row["task_id"])
            return app.drain(SECONDS)
        self.steers.append(len(self._traps.written) + 1)
        return self._send(app, note.text, steer=True)

    async def _watch(self, app: App, stream: AsyncIterator[Event]) -> None:
        """Follow the task, and ask for a pause where one is ordered; what is told again counts once."""
        async for event in stream:
            if event.seq > self._seen[event.task_id]:
                self._seen[event.task_id] = event.seq
                if self._seen.total() in self._orders.pause_after:
                    await self._pause(app, event.task_id)

    async def _pause(self, app: App, task_id: str) -> None:
        self._leaving = self._orders.leave
        with suppress(TaskError):  # it may just have ended
            await app.pause(task_id)

    def _pause_from_a_thread(self, app: App) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        async def pause_what_runs() -> None:
            for row in await _rows(app):
                if row.status in ("pending", "running"):
                    await self._pause(app, row.task_id)

        def begin() -> None:
            task = loop.create_task(pause_what_runs())
            self._pausing.add(task)
            task.add_done_callback(self._pausing.discard)

        def pause() -> None:
            loop.call_soon_threadsafe(begin)

        return pause

    async def _linger(self, label: str) -> None:
        """Before this tool returns, add what is to be added, unless it was accepted before."""
        await a_moment(label)
        while label == OUTLAST and not await self._have_called_ended():
            await a_moment(label)
        for note in (turn.note for turn in self._scenario.turns if turn.note and turn.note.after == label):
            if self._was_accepted(note) or note.text in (await _rows(self._app))[-1].notes:
                continue
            self.steers.append(len(self._traps.written) + 1)
            with suppress(SegueError):  # where it cannot be stored, it is sent again later
                await self._app.tasks.accept(Request(note.text, session_id=SESSION, agent=AGENT, steer=True))
                append_line(self._folder / ACCEPTED, {"text": note.text})
                self.added.append(label)
                self._traps.reach(f"added:{label}")

    async def _have_called_ended(self) -> bool:
        """Whether what the last task called has ended."""
        latest = (await _rows(self._app))[-1]
        every = await self._app.tasks.list(limit=-1)
        return all(row.is_over for row in every if row.called_by == latest.task_id)

    def _was_accepted(self, note: Note) -> bool:
        """Whether a message was accepted by this process or an earlier one: nobody sends it again."""
        file = self._folder / ACCEPTED
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return any(json.loads(line)["text"] == note.text for line in lines)


def agents_over(folder: Path, traps: Traps, scenario: Scenario, linger: Linger) -> list[Agent]:
    """The agent, and the one that is its tool."""
    agent = agent_over(folder, traps, scenario, linger)
    if not scenario.agents:
        return [agent]
    label = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
    helper = agent.model_copy(update={"agent_id": HELPER, "arguments": label})
    called = {"agent": HELPER, "background": scenario.later}
    return [Agent(**{**dict(agent), "tools": (*agent.tools, called)}), helper]


def agent_over(folder: Path, traps: Traps, scenario: Any, linger: Linger = a_moment) -> Agent:
    """The agent, its effects in a file of the folder; `scenario` gives a message's turn by `turn_of`."""
    return Agent(
        agent_id=AGENT,
        model=Deciding(scenario.turn_of, traps.model),
        tools=tools_over(Effects(folder / "effects.jsonl", traps.reach), linger),
        mcp=_post_office(folder) if getattr(scenario, "mcp", False) else (),
        prompt="You are tested. {{current_state}}",
        protocol=getattr(scenario, "protocol", "json"),
        mode="react",
    )


def _post_office(folder: Path) -> tuple[McpServer, ...]:
    program = ["-I", "-S", str(Path(__file__).with_name("mcp_server.py")), str(folder / "effects.jsonl")]
    return (McpServer(name="post", command=sys.executable, args=tuple(program)),)


async def _rows(app: App) -> list[Task]:
    return list(reversed(await app.tasks.list(session_id=SESSION)))


async def _is_due(app: App, row: Mapping[str, Any], note: Note) -> bool:
    """Whether the call after which a note comes has been decided on, and the note is not there yet."""
    told = [event.data for event in (await app.trace(row["task_id"])).events if event.type == "tool_call"]
    return note.text not in row["notes"] and any(call["arguments"]["label"] == note.after for call in told)
