"""What one process of a run does: go on with the scenario's conversation from wherever the database stands."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import segue
from segue import Agent, App
from segue.errors import SegueError, TaskError
from segue.events import Event

from . import controls
from .deciding import Deciding
from .scenarios import SCENARIOS, Scenario, Turn, verdict
from .tools import Effects, tools_over
from .traps import Traps

SESSION = "s"
AGENT = "crashed"


@dataclass
class Orders:
    """What a child is told: the scenario, where its files are, and what shall befall it.

    `at` maps points to kill, stop or pause; `pages` is how much the database may grow; `pause_after` the numbers of
    the durable events after which a pause is asked for; `leave` ends the process once it paused; `without` switches
    off the ledger or the lease; `unknown` are labels whose calls count as interrupted; `ttl` shortens the lease; with
    `power` it is noted how much of the log is on the disk.
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
    power: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def carry_on(given: Mapping[str, Any]) -> None:
    """Play the scenario to its end; `out.json` says how it went, `history.json` what the thread holds."""
    orders = Orders(**given)
    folder = Path(orders.folder)
    traps = Traps(orders.at, orders.pages, folder if orders.power else None)
    traps.install()
    controls.apply(orders.without, orders.unknown, orders.ttl)
    report: dict[str, Any] = {"error": None}
    began = time.monotonic()
    talk = _Talk(orders, traps)
    try:
        asyncio.run(talk.go_on())
        _write(folder / "history.json", talk.history)
    except SegueError as error:
        report["error"] = {"type": type(error).__name__, "message": str(error)}
    report |= {"seconds": time.monotonic() - began, "written": traps.written, "models": traps.models}
    _write(folder / "out.json", report)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


class _Talk:
    """One child's part of the conversation."""

    def __init__(self, orders: Orders, traps: Traps) -> None:
        self._orders = orders
        self._traps = traps
        self._folder = Path(orders.folder)
        self._scenario: Scenario = SCENARIOS[orders.scenario]
        self._events = 0
        self.history: dict[str, Any] = {}
        self._pausing: set[asyncio.Task[None]] = set()

    async def go_on(self) -> None:
        agent = agent_over(self._folder, self._traps, self._scenario)
        async with segue.open(self._folder / "segue.db", agents=[agent]) as app:
            self._traps.on_pause = self._pause_from_a_thread(app)
            for place, turn in enumerate(self._scenario.turns):
                while (status := await self._status(app, place)) not in ("done", "cancelled"):
                    if status == "paused" and self._orders.leave and self._events:
                        return
                    await self._converse(app, place, turn)
            self.history = {SESSION: await app.history(SESSION)}

    async def _status(self, app: App, place: int) -> str:
        rows = await _rows(app)
        return str(rows[place]["status"]) if place < len(rows) else ""

    async def _converse(self, app: App, place: int, turn: Turn) -> None:
        """Send the message if it is new, else go on with its task; what that fails with is raised."""
        rows = await _rows(app)
        known = rows[place]["task_id"] if place < len(rows) else ""
        watched = bool(self._orders.pause_after)
        doing: Any
        if not known:
            options: dict[str, Any] = {"session_id": SESSION, "agent": AGENT, "mode": turn.mode}
            doing = app.chat(turn.message, **options) if watched else app.ask(turn.message, **options)
        elif rows[place]["status"] == "waiting" and turn.cancelled:
            doing = app.cancel(known)
        elif rows[place]["status"] == "waiting":
            answer = {"verdicts": [verdict(call) for call in (await app.question(known))["calls"]]}
            doing = app.answer_and_follow(known, answer) if watched else app.answer(known, answer)
        else:
            listed = [row["task_id"] for row in await app.resumable()]
            assert rows[place]["status"] == "error" or known in listed, f"{rows[place]} is not among the resumable ones"
            doing = app.resume_and_follow(known) if watched else app.resume(known)
        await (self._watch(app, doing) if isinstance(doing, AsyncIterator) else doing)

    async def _watch(self, app: App, stream: AsyncIterator[Event]) -> None:
        """Follow the task, and ask for a pause where one is ordered."""
        async for event in stream:
            self._events += event.seq > 0
            if event.seq and self._events in self._orders.pause_after:
                await _pause(app, event.task_id)

    def _pause_from_a_thread(self, app: App) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        async def pause_what_runs() -> None:
            for row in await _rows(app):
                if row["status"] in ("pending", "running"):
                    await _pause(app, row["task_id"])

        def begin() -> None:
            task = loop.create_task(pause_what_runs())
            self._pausing.add(task)
            task.add_done_callback(self._pausing.discard)

        def pause() -> None:
            loop.call_soon_threadsafe(begin)

        return pause


def agent_over(folder: Path, traps: Traps, scenario: Any) -> Agent:
    """The agent, its effects in a file of the folder; `scenario` gives a message's turn by `turn_of`."""
    return Agent(
        agent_id=AGENT,
        model=Deciding(scenario.turn_of, traps.model),
        tools=tools_over(Effects(folder / "effects.jsonl", traps.reach)),
        prompt="You are tested. {{current_state}}",
        protocol=getattr(scenario, "protocol", "json"),
        mode="react",
    )


async def _rows(app: App) -> list[dict[str, Any]]:
    return list(reversed(await app.tasks(session_id=SESSION)))


async def _pause(app: App, task_id: str) -> None:
    with suppress(TaskError):  # it may just have ended
        await app.pause(task_id)
