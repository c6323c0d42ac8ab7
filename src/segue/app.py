"""The way in: `segue.open()` gives an `App` over one database."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from .checkpoints.sqlite.database import Database, open_database
from .checkpoints.sqlite.state_reading import state_at
from .core.agents import Agent
from .core.errors import InvalidMessage, TaskUnfinished, UnknownMode
from .core.events import Event
from .core.ids import Ids
from .core.ports import Model
from .core.task_status import OPEN, TaskStatus
from .graphs.chat import MODES
from .nodes.chat.run_mode import ModeGraph
from .nodes.chat.select_mode import AUTO
from .registry import Registry
from .runtime.extraction import extract
from .runtime.modes import mode_graphs
from .runtime.recovery import make_again
from .runtime.run import Row
from .runtime.runner import Runner, thread_config
from .runtime.sessions import Archive, check_session
from .runtime.wired import wired_graph


class App(Archive):
    """Agents, modes and threads over one database."""

    def __init__(self, database: Database, registry: Registry, modes: Mapping[str, ModeGraph]) -> None:
        self._modes = dict(modes)
        super().__init__(database, registry, Runner(database, registry, self._modes))
        self._ids = Ids()

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self._registry.agents

    @property
    def modes(self) -> list[str]:
        """Every mode that a message may ask for."""
        return [*self._modes, AUTO]

    def model_for(self, agent: str = "", model: str = "") -> Model:
        """The model that a message to this agent would be answered by.

        Raises:
            UnknownAgent, UnknownModel, MissingKey.
        """
        return self._registry.model_for(self._registry.agent(agent), model)

    def register(self, agent: Agent) -> None:
        """Add an agent, or replace the one of that id.

        Raises:
            UnknownTool: one of its tools is not there.
        """
        self._registry.register(agent)

    async def start(
        self,
        message: str,
        *,
        session_id: str | None = None,
        agent: str = "",
        mode: str = "",
        user_id: str = "default",
        model: str = "",
        wait: float = 0.0,
        steer: bool = False,
    ) -> Row:
        """Take a message on and run its task in the background; returns the task's row.

        `wait` is how many seconds to stand in line for a session that is busy. With `steer` the message joins the
        session's unfinished task, if there is one, which goes on with it.

        Raises:
            InvalidMessage, UnknownAgent, UnknownMode, MissingKey, ToolServerUnavailable: nothing was stored.
            TaskUnfinished: the thread has a task to resume, steer or cancel first.
            DamagedSession: the session has to be recovered first.
            ThreadBusy: another owner runs a task on the thread.
        """
        row, _ = await self._send(message, session_id, agent, mode, user_id, model, wait, steer)
        return row

    async def _send(
        self,
        message: str,
        session_id: str | None = None,
        agent: str = "",
        mode: str = "",
        user_id: str = "default",
        model: str = "",
        wait: float = 0.0,
        steer: bool = False,
    ) -> tuple[Row, asyncio.Task[Row]]:
        thread_id = session_id or self._ids.thread()
        chosen = self._registry.agent(agent)
        preferred = await self._preferences.default_mode(user_id)
        wanted = mode or (preferred if preferred in self.modes else "") or chosen.mode
        self._check(message, thread_id, chosen, wanted, model)
        await self._registry.prepare(chosen)
        last = await self._runner.tasks.latest_of(thread_id) if steer else None
        if (
            last
            and last["status"] in OPEN
            and last["wanted"] != "cancel"
            and (steered := await self._steer(last, message.strip()))
        ):
            return steered
        async with self._runner.leased(thread_id, wait) as begin:
            await self._make_room(thread_id)
            creating = self._runner.tasks.create(
                task_id=self._ids.task(),
                thread_id=thread_id,
                agent_id=chosen.agent_id,
                user_id=user_id,
                mode=wanted,
                model=model or self._registry.environment_model(chosen),
                message=message.strip(),
                fence=self._runner.saver.fence(thread_id),
            )
            row = await self._unless_left(asyncio.create_task(creating))
            return row, begin(row)

    async def _unless_left(self, creating: "asyncio.Task[Row]") -> Row:
        """The new task's row; a caller that is cancelled meanwhile leaves no task behind that nobody runs."""
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            await self._runner.move(await creating, TaskStatus.CANCELLED)
            raise

    async def _make_room(self, thread_id: str) -> None:
        """Refuse a damaged thread and one with an unfinished task; what a failed one did goes into the history."""
        state = await state_at(self._runner.graph, thread_config(thread_id))
        last = await self._runner.tasks.latest_of(thread_id)
        if last and last["status"] in OPEN:
            if last["wanted"] != "cancel":
                raise TaskUnfinished(thread_id, last["task_id"], last["status"])
            await self._runner.give_up(last)  # its process died before it could
        if last and last["status"] == TaskStatus.ERROR and not last["result"]:
            await self._runner.leave_behind(last)
        elif state.tasks:  # a session that was recovered: else what its last steps wrote would be thrown away
            await make_again(self._runner, thread_id)

    def _check(self, message: str, thread_id: str, agent: Agent, mode: str, model: str) -> None:
        """Refuse what cannot run, before anything is stored."""
        if not message.strip():
            raise InvalidMessage("The message is empty: write what you want to be done.")
        if any("\ud800" <= char <= "\udfff" for char in message):
            raise InvalidMessage("The message holds bytes that are no text: send it as UTF-8.")
        if (size := len(message.encode("utf-8", "replace"))) > (most := agent.budget.message_bytes):
            raise InvalidMessage(f"The message has {size} bytes and {most} is the most: shorten it.")
        check_session(thread_id)
        if mode not in self.modes:
            raise UnknownMode(mode, self.modes)
        self._registry.model_for(agent, model)

    async def chat(self, message: str, **options: Any) -> AsyncIterator[Event]:
        """Send a message and follow its task; options and errors as in `start`. Leaving does not stop the task."""
        row = await self.start(message, **options)
        async for event in self.follow(row["task_id"]):
            yield event

    async def ask(self, message: str, *, response_model: type[BaseModel] | None = None, **options: Any) -> Row:
        """Send a message and wait for its result, with `task_id`, `session_id` and `status` added.

        With `response_model` the answer is also given as an object of it, under `object`.

        Raises:
            ModelError: the model failed; the task can be resumed.
            And those of `start`.
        """
        row, run = await self._send(message, **options)
        result = await self._result(row, run)
        if response_model is None or not result["success"]:
            return result
        model = self.model_for(row["agent_id"], row["model"])
        made, usage = await extract(model, result["answer"], response_model)
        spent = {name: result["usage"].get(name, 0) + count for name, count in usage.items()}
        return {**result, "object": made, "usage": {**result["usage"], **spent}}

    async def set_preferences(self, user_id: str, *, default_mode: str) -> None:
        """Set the mode that the user's messages are answered in where they name none; an empty one takes it back.

        Raises:
            UnknownMode: listing the modes there are.
        """
        if default_mode and default_mode not in self.modes:
            raise UnknownMode(default_mode, self.modes)
        await self._preferences.put(user_id, default_mode)

    def get_graph(self, agent: str = "") -> CompiledStateGraph[Any, Any, Any, Any]:
        """The chat graph wired to this app's agents and tools, to run or to compose into a graph of one's own.

        It runs as LangGraph runs it, at least once: lease, ledger and event log belong to `chat` and `ask`.
        """
        return wired_graph(self._registry, self._registry.agent(agent).agent_id, self._modes)

    async def close(self) -> None:
        """Pause what runs, end the MCP servers' sessions and close the database."""
        await self._runner.close()
        await self._registry.close()
        await self._database.close()


@asynccontextmanager
async def open(
    path: str | Path = "segue.db",
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
) -> AsyncIterator[App]:
    """Open the database at `path` (":memory:" for one that is not kept) and give the app over it.

    The examples are registered first, then `agents`; `modes` are graphs by name beside the built-in ones.

    Raises:
        DatabaseUnavailable, DatabaseTooNew, ConfigurationError: saying what to do.
    """
    registry = Registry()
    for agent in agents:
        registry.register(agent)
    graphs = {**MODES, **mode_graphs(modes or {})}
    database = await open_database(str(path))
    app = App(database, registry, graphs)
    try:
        yield app
    finally:
        await app.close()


def ask(message: str, *, db: str | Path = ":memory:", **options: Any) -> Row:
    """Ask one question and wait for the result; options as in `App.start`."""

    async def once() -> Row:
        async with open(db) as app:
            return await app.ask(message, **options)

    return asyncio.run(once())
