"""Replays of recorded sessions: offline, or continued live from a turn on."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ...app import App
from ...core.actor import SEGUE, acting
from ...core.agents import Agent
from ...core.approval import Grant
from ...core.calls import CallResult, Execution, Executor, Tool
from ...core.context import Services
from ...core.errors import ConfigurationError, ModelRefused, ThreadExists
from ...core.events import Event, Token
from ...core.models import CallDelta, Model, ModelPiece, ModelReply, ModelRequest, RawCall, ReasoningDelta, TextDelta
from ...core.records import Json, Task
from ...core.task import TaskStatus
from ...entry import open_app
from ...models.transcript import digest, request_text
from ...registry import Registry
from ...runtime.start import Request
from ...tools.bound_tool import Marked
from ...tools.calls import TOOLS
from .cassette import Cassette, Difference, ModelCall, OnCall, RecordedIds, ServedTool, Tape, difference_of_messages


@dataclass(frozen=True)
class LiveTurn:
    """What the agent did in a live turn; `question` is what its task waits with."""

    number: int
    status: str
    answer: str
    question: Json | None = None


@dataclass(frozen=True)
class Replay:
    """The outcome of a replay: its first difference, if there is one, or what its live turns did.

    `cassette` has the requests and messages of this replay.
    """

    cassette: Cassette
    difference: Difference | None = None
    live: tuple[LiveTurn, ...] = ()


async def replay(
    cassette: Cassette,
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    compare: bool = True,
    live_from: int | None = None,
    model: str = "",
    database: str | Path = ":memory:",
    on_call: OnCall = lambda call, reused: None,
) -> Replay:
    """Run the session's messages through the agents as they are now.

    No model is called and no tool runs, and the first difference from the recording ends it; without `compare`, or
    where the cassette's level is `calls`, requests may differ. From the turn `live_from` on, the agent continues live:
    its model is called (`model` takes the place of its own), and tools run from the first call on that was not
    recorded; `on_call` is called with each. The session is kept in `database`.
    """
    if live_from is not None and not 1 <= live_from <= len(cassette.turns):
        raise ConfigurationError(
            "There is no turn {turn}: the cassette has turns 1 to {turns}.", turn=live_from, turns=len(cassette.turns)
        )
    tape = Tape(cassette, live_from=live_from, compare=compare and cassette.level == "requests")
    tape.on_call = on_call
    with TemporaryDirectory(prefix="segue-memory-") as memory:
        app = await open_app(database, agents, modes, memory=memory, registry=ReplayRegistry(tape))
        try:
            return await _Player(app, tape, model).play()
        finally:
            await app.close()


class _Player:
    """Plays a tape's turns on an app that was opened for it."""

    def __init__(self, app: App, tape: Tape, model: str) -> None:
        self._app = app
        self._tape = tape
        self._model = model
        self._session = tape.cassette.session

    async def play(self) -> Replay:
        cassette, live = self._tape.cassette, []
        if await self._app.tasks.newest(self._session):
            raise ThreadExists(self._session)
        for number in range(1, len(cassette.turns) + 1):
            self._tape.begin(number)
            task = await self._task_of_turn()
            if self._tape.live:
                answer = (task.result or {}).get("answer") or task.error or ""
                question = await self._app.question(task.task_id) if task.status == TaskStatus.WAITING else None
                live.append(LiveTurn(self._tape.number, str(task.status), answer, question))
                if task.status != TaskStatus.DONE:
                    break
            elif difference := self._tape.difference or self._tape.left_out() or await self._outcome(task):
                return Replay(cassette, difference)
        messages = await self._app.history(self._session)
        if not live and (difference := difference_of_messages(cassette, messages)):
            return Replay(cassette, difference)
        return Replay(_with_requests(cassette, self._tape, messages), live=tuple(live))

    async def _outcome(self, task: Task) -> Difference | None:
        """The difference between how the task ended then and now."""
        turn, result = self._tape.turn, task.result or {}
        then = _ended(turn.status, turn.answer, turn.error or turn.failure)
        error = result.get("error") or ("" if result else task.error or "")
        now = _ended(str(task.status), result.get("answer") or "", error)
        return None if then == now else Difference(self._tape.number, "outcome", then, now)

    async def _task_of_turn(self) -> Task:
        """Send the turn's message, give its answers, and return the task once it stopped."""
        turn, tasks = self._tape.turn, self._app.tasks
        request = Request(
            turn.message,
            session_id=self._session,
            agent=turn.agent,
            mode=turn.mode,
            user_id=turn.user,
            model=(self._model if self._tape.live else "") or turn.model,
            language=turn.language,
        )
        row, run = await tasks.start(request)
        while True:
            await self._until_stopped(run, row.task_id)
            task = await self._app.task(row.task_id)
            if task.status != TaskStatus.WAITING:
                return task
            if answer := self._tape.answer_to(await self._app.question(task.task_id)):
                with acting(SEGUE, None):  # for everybody who decided then
                    row, run = await tasks.resume(task.task_id, answer=answer.value)
            elif turn.status == "cancelled" and not self._tape.live:
                await self._app.cancel(task.task_id)
            else:
                return task

    async def _until_stopped(self, run: "asyncio.Task[Json] | None", task_id: str) -> None:
        """Wait until the run stops; it is cancelled where it was cancelled then."""
        if run is None:
            return
        stopped = asyncio.create_task(self._tape.stopped.wait())
        await asyncio.wait({run, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            await self._app.cancel(task_id)
        stopped.cancel()


def _ended(status: str, answer: str, error: str) -> str:
    return "\n".join([f"status: {status}", *([f"error: {error}"] if error else []), "", answer]).rstrip()


def _with_requests(cassette: Cassette, tape: Tape, messages: Sequence[Json]) -> Cassette:
    """The cassette with the requests that the replay sent, and its messages."""
    turns = []
    for number, turn in enumerate(cassette.turns, 1):
        texts = [tape.texts.get((number, place), call.request) for place, call in enumerate(turn.model_calls)]
        calls = tuple(
            call.model_copy(update={"request": text, "digest": digest(text) if text else call.digest})
            for call, text in zip(turn.model_calls, texts, strict=True)
        )
        turns.append(turn.model_copy(update={"model_calls": calls}))
    return cassette.model_copy(update={"turns": tuple(turns), "messages": tuple(messages)})


class RecordedModel:
    """Replies what was recorded; no model is called."""

    endpoint = ""

    def __init__(self, tape: Tape, agent: Agent, name: str, cut: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.is_language_model = name != "offline"
        self._tape = tape
        self._agent = agent
        self._cut = cut

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the recorded reply as a model would."""
        call = await self._tape.reply_to(request_text(request, self.name, self._agent), self._cut)
        if call.reply.error:
            raise ModelRefused(call.reply.error)
        async for piece in _pieces(call):
            yield piece


async def _pieces(call: ModelCall) -> AsyncGenerator[ModelPiece, None]:
    """The pieces in the order that shows as much of the text as was shown then."""
    reply = call.reply
    made = tuple(RawCall(**called.model_dump()) for called in reply.tool_calls)
    if reply.reasoning:
        yield ReasoningDelta(reply.reasoning)
    if made and not reply.streamed:
        yield CallDelta(made[0].name)
    if reply.text:
        yield TextDelta(reply.text)
    used = {"input": call.input, "output": call.output}
    yield ModelReply(reply.text, reply.finish_reason, used, made)


class RecordedResults(Protocol):
    """Results of calls that were recorded."""

    async def result_of(self, name: str, arguments: Mapping[str, Any]) -> Json | None:
        """The result of a call with these arguments, in the form of `CallResult.json`; None where there is none."""
        ...


class RecordedExecutor:
    """Answers calls with recorded results, in whichever order they come; `other` carries out those that have none."""

    def __init__(self, results: RecordedResults, other: Executor) -> None:
        self._results = results
        self._other = other

    def needs_approval(self, tool: Tool) -> bool:
        return self._other.needs_approval(tool)

    def parallel(self, tool: Tool) -> bool:
        return self._other.parallel(tool)

    async def execute(self, execution: Execution) -> CallResult:
        if execution.claim.state != "interrupted":
            result = await self._results.result_of(execution.name, execution.arguments)
            if result is not None and (execution.tool is not None or not CallResult.of(result).success):
                return CallResult.of(result)
        return await self._other.execute(execution)


class OfflineTool(Marked):
    """A tool of an MCP server as it was described when the session was recorded; it cannot run."""

    def __init__(self, served: ServedTool) -> None:
        self.spec = served.spec
        self.name = str(served.spec["function"]["name"])
        self.marks = served.marks
        self._is_foreign = served.foreign

    @property
    def foreign_text(self) -> str:
        return json.dumps(self.spec["function"], ensure_ascii=False) if self._is_foreign else ""

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        raise RuntimeError(f"{self.name} cannot run: its server is not connected in a replay.")


class ReplayRegistry(Registry):
    """Agents as they are now, with recorded models, results, ids and time.

    Of a live turn the model is real, and so are tools whose call was not recorded.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.ids = RecordedIds(tape)
        self._tape = tape
        self._emit: Callable[[Event], None] = lambda event: None

    async def prepare(self, agent: Agent) -> None:
        """Make the agent's tools ready; those of MCP servers are the recorded ones unless a turn is live."""
        if not (agent.mcp or agent.a2a) or self._tape.continues:
            return await super().prepare(agent)
        await super().prepare(agent.model_copy(update={"mcp": (), "a2a": ()}))
        served: dict[str, Tool] = {}
        for given in self._tape.cassette.served.get(agent.agent_id, ()):
            served[given.spec["function"]["name"]] = OfflineTool(given)
        self._tools[agent.agent_id] = {**self.tools_for(agent), **served}

    def model_for(self, agent: Agent, override: str = "") -> Model:
        if self._tape.live:
            return super().model_for(agent, override)
        return RecordedModel(self._tape, agent, self._name_of(agent, override), self.stream_rest)

    def environment_model(self, agent: Agent) -> str:
        return super().environment_model(agent) if self._tape.live else ""

    def _name_of(self, agent: Agent, override: str) -> str:
        """The name of the model that would be called now; the recorded one where the environment decides."""
        choice = override or agent.model
        if choice is None:
            return self._tape.model
        return choice if isinstance(choice, str) else super().model_for(agent, override).name

    def for_run(self, services: Services) -> Services:
        def emit(event: Event) -> None:
            self._tape.streamed.note(event)
            services.emit(event)

        async def notes(task_id: str) -> Sequence[str]:
            return self._tape.notes()

        async def permissions(agent_id: str) -> Sequence[Grant]:
            grants = await services.permissions(agent_id)
            permitted = self._tape.turn.permitted
            return grants if self._tape.live else [grant for grant in grants if grant.rule.tool in permitted]

        self._emit, clock = emit, self._tape.clock
        others: dict[str, Any] = {
            "executor": RecordedExecutor(self._tape, services.executor or TOOLS),
            "graph_executor": RecordedExecutor(self._tape, TOOLS),
            "clock": clock,
            "began": clock(),
        }
        return replace(services, emit=emit, notes=notes, permissions=permissions, **others)

    def stream_rest(self) -> None:
        """Stream what a cancelled task had written of its answer."""
        if rest := self._tape.unstreamed:
            self._emit(Token(task_id=self._tape.turn.task_id, content=rest))
