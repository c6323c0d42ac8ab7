"""One recorded message answered anew: in memory, with recorded results, and without any effect."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Any, Literal, TypeVar

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from ...checkpoints.storage import Storage
from ...core.agents import Agent
from ...core.approval import ApprovalTerms, Grant
from ...core.calls import CLIENT_CALLS, FRESH, RECALL, CallKey, CallResult, Claim, Execution, Ledger, Tool
from ...core.context import AppContext, PromptText, RunContext, Services
from ...core.conversation import API, Conversation, RunsTools
from ...core.decision import ActionType, Decision, read_object
from ...core.errors import ConfigurationError, SegueError, UnknownMode, UnreadableReply
from ...core.events import Action
from ...core.message import ReplyOptions, naming
from ...core.models import Model, ModelRequest, Renderings
from ...core.provenance import discloses
from ...core.records import Call, Json
from ...graphs.chat import MODES
from ...memory.files import TransientMemory
from ...nodes.chat import AUTO, ModeGraph
from ...nodes.context import NodeContext, as_json
from ...nodes.conversation import read_config
from ...nodes.participants import api_of, bot_setting
from ...nodes.permission import all_arguments
from ...prompts.catalogue import render, sentence_of, task_text
from ...registry import Registry, services_of
from ...runtime.modes import chat_graph
from ...runtime.run import (
    config_of,
    question_of,
    recursion_limit,
    said_in,
    state_at,
    stored_answer,
    thread_config,
)
from ...tools.adapters.client import client_tools
from ...tools.calls import TOOLS, argument_error, missing
from ..cassette import Cassette, RecordedModel
from ..cassette.cassette import Answer, RecordedIds, Tape, ToolCall, asked_of
from ..rehearsal.grades import ask_judge
from ..rehearsal.segue_bot import ConversationExecutor, bot_agent
from .comparison import Answered, Behaviour, Difference, Effects, MadeCall, Verdict, call_of, compared, key_of
from .recording import RecordedTurn, Recording

# The agents of conversations' bots, which are registered only while a conversation needs them.


async def bots_of(storage: Storage, registry: Registry, turns: Iterable[RecordedTurn]) -> dict[str, Agent]:
    """The bots of these turns' conversations as their agents are now, by the ids that they had."""
    found: dict[str, Agent] = {}
    for task in (turn.task for turn in turns):
        if task.agent_id in (*registry, *found):
            continue
        if talk := await storage.tasks.conversation_of(task.session_id):
            config = read_config(talk.message)
            work = NodeContext(services_of(registry, lambda _: None), RunContext(), registry.agent(config.bot_agent))
            language = task.language or "en"
            conversation = Conversation(conversation_id=talk.session_id, config=config, language=language)
            setting = bot_setting(conversation, work)
            agent = bot_agent(setting)
            tools = tuple(_marked(tool, api_of(conversation, work)) for tool in agent.tools)
            own = {"agent_id": task.agent_id, "tools": tools, "model": setting.model or agent.model}
            found[task.agent_id] = agent.model_copy(update=own)
    return found


def _marked(tool: Any, api: API | RunsTools) -> Any:
    """A function of the API, which only reads if the API's tool, or else its specification, says so."""
    known = api.tools.get(tool.name) if isinstance(api, RunsTools) else None
    read_only = known.read_only if known else bool(tool.spec.get("segue", {}).get("read_only"))
    return replace(tool, marks=replace(tool.marks, read_only=read_only))


@contextmanager
def registered(registry: Registry, bots: dict[str, Agent]) -> Iterator[None]:
    """Have the bots in the registry meanwhile."""
    for agent in bots.values():
        registry.register(agent, ConversationExecutor())
    try:
        yield
    finally:
        for agent_id in bots:
            registry.forget(agent_id)


# Stand-ins: results of calls that were not recorded and do not run.

Policy = Literal["stop", "recorded-shape", "model"]
"""What happens at a call that the recording cannot answer: the turn stops, or goes on with a stand-in."""
POLICIES: Sequence[Policy] = ("stop", "recorded-shape", "model")
EXAMPLES = 5
"""Recorded results of a tool that a model is shown."""
_REPLY = {"type": "object", "properties": {"result": {}}, "required": ["result"]}


def check_policy(name: str) -> None:
    """Refuse what is no policy."""
    if name not in POLICIES:
        raise ConfigurationError("effects cannot be {name}: set it to stop, recorded-shape or model.", name=repr(name))


def check_author(model: Model) -> None:
    """Refuse a model that cannot write a result."""
    if not model.is_language_model:
        raise ConfigurationError(
            "{name} cannot write stand-ins: name a language model with judge, or set effects to recorded-shape.",
            name=model.name,
        )


def nearest(calls: Sequence[ToolCall], arguments: Mapping[str, Any], most: int = 1) -> list[ToolCall]:
    """The recorded calls with the most of these arguments, best first."""
    return nlargest(most, calls, key=lambda call: sum(call.arguments.get(n) == v for n, v in arguments.items()))


async def written(model: Model, execution: Execution, recorded: Sequence[ToolCall], task_id: str) -> CallResult:
    """The result that a model writes for a call, in the form of the tool's recorded results."""
    examples = [(call, (call.outcome or {})["success"]) for call in nearest(recorded, execution.arguments, EXAMPLES)]
    lines = [f"{call.text}\n→ {as_json(value)}" for call, value in examples]
    spec = dict(execution.tool.spec["function"]) if execution.tool else {"name": execution.name}
    system = render(
        "stand_in", execution.language, tool=json.dumps(spec, ensure_ascii=False), calls="\n".join(lines) or "-"
    )
    call = ToolCall(name=execution.name, arguments=dict(execution.arguments), at=0.0)
    request = ModelRequest(purpose="converse", messages=[SystemMessage(system), HumanMessage(call.text)], schema=_REPLY)
    value = await ask_judge(model, request, _read, task_id, execution.language)
    is_text = bool(examples) and all(isinstance(each, str) for _, each in examples)
    return CallResult.done(as_json(value) if is_text and not isinstance(value, str) else value)


def _read(text: str) -> Any:
    """The result in a reply."""
    form = read_object(text)
    if "result" not in form:
        raise UnreadableReply("There is no `result`.")
    return form["result"]


# One recorded message answered anew: in memory, with recorded results, and without any effect.

T = TypeVar("T")

RECORDED = "recorded"
"""The name of the model that replies what was recorded."""
IN_MEMORY = JsonPlusSerializer(allowed_msgpack_modules=[])
"""State that nothing stores is neither compressed nor has checksums."""


class TurnStopped(SegueError):
    """The turn ends at a call that nothing can answer."""

    def __init__(self, name: str) -> None:
        super().__init__("The recording has no result of this call of {name}.", name=name)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all turns of a backtest share.

    `model` takes the place of the agents' own; `shapes` are recorded results of each tool, by its name.
    """

    registry: Registry
    modes: Mapping[str, ModeGraph]
    storage: Storage
    model: str = ""
    live_reads: bool = False
    effects: Policy = "stop"
    shapes: Mapping[str, Sequence[ToolCall]] = field(default_factory=dict)
    private: Collection[int] = ()
    """The ids of those of `shapes` that hold hidden or secret values: no model is sent them."""
    judge: Model | None = None
    author: Model | None = None
    """Writes stand-ins; None: the model of each task's agent."""
    unchanged: Registry | None = None
    """The agents as they were, where they are known."""
    renderings: Renderings = field(default_factory=Renderings)
    """What is sent with every turn, such as the tools, is rendered once."""

    def author_of(self, recorded: RecordedTurn) -> Model:
        """The model that writes stand-ins for a task."""
        return self.author or self.registry.model_for(self.agent(recorded), self.model_of(recorded))

    def model_of(self, recorded: RecordedTurn) -> str:
        """The model in place of the agent's own: that of the backtest, else the one that the message named.

        A task of an agent without a model remembers that of the environment, which nobody named.
        """
        if self.model:
            return "" if self.model == RECORDED else self.model
        agent = (self.unchanged or self.registry).get(recorded.task.agent_id) or self.agent(recorded)
        environment = self.registry.environment_model(agent.model_copy(update={"model": None}))
        return "" if agent.model is None or recorded.task.model == environment else recorded.task.model

    def mode_of(self, recorded: RecordedTurn) -> str:
        """The mode of a task: the one that its agent has now, where it had that of its agent as it was."""
        before = self.unchanged.get(recorded.task.agent_id) if self.unchanged else None
        known = recorded.agent_mode or (before.mode if before else None)
        return self.agent(recorded).mode if known == recorded.task.mode else recorded.task.mode

    @property
    def graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The chat graph with a memory of its own, for one turn."""
        return chat_graph(self.modes).copy({"checkpointer": InMemorySaver(serde=IN_MEMORY)})

    def agent(self, recorded: RecordedTurn) -> Agent:
        """The agent of a task as it is now."""
        return self.registry.agent(recorded.task.agent_id)

    def tools(self, recorded: RecordedTurn) -> Mapping[str, Tool]:
        """The tools that a task can call now; none where its agent is not there."""
        agent = self.registry.get(recorded.task.agent_id)
        own = self.registry.tools_in(agent, self.mode_of(recorded)) if agent else {}
        return {**own, **client_tools(recorded.task.client_tools, recorded.turn.language or "en")}

    def tools_then(self, recorded: RecordedTurn) -> Mapping[str, Tool]:
        """The tools that a task could call then, as far as they are known: else those that it can call now."""
        agent = self.unchanged.get(recorded.task.agent_id) if self.unchanged else None
        before = self.unchanged.tools_in(agent, recorded.task.mode) if self.unchanged and agent else {}
        return {**self.tools(recorded), **before}


class TurnAgents:
    """The agents as they are now; with a tape their model is the recording.

    Their digests are made by rules alone: a turn that runs by itself has no prose of the turns before it.
    """

    def __init__(self, registry: Registry, tape: Tape | None) -> None:
        self._registry = registry
        self._tape = tape
        self.tools_for = registry.tools_for
        self.tools_in = registry.tools_in
        self.tools_named = registry.tools_named
        self.auto_approves = registry.auto_approves

    def agent(self, agent_id: str) -> Agent:
        agent = self._registry.agent(agent_id)
        return agent if agent.digest == "rules" else agent.model_copy(update={"digest": "rules"})

    def accepted(self, agent: Agent, override: str = "") -> Any:
        return ("image", "pdf") if self._tape else self._registry.accepted(agent, override)

    def model_for(self, agent: Agent, override: str = "") -> Model:
        if self._tape is None:
            return self._registry.model_for(agent, override)
        return RecordedModel(self._tape, agent, self._tape.model)


class TurnLedger:
    """The calls of a turn under way, in memory, beside those that the session's ledger has from before it."""

    def __init__(self, stored: Ledger, recorded: RecordedTurn) -> None:
        self._stored = stored
        self._task = recorded.task
        self._calls: dict[CallKey, Call] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        if key.task_id != self._task.task_id:
            return await self._stored.read(key)
        own = self._calls.get(key)
        return own.json() if own else None

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        known = self._calls.get(key)
        if known and known.outcome is not None:
            return Claim("finished", known.outcome)
        self._calls[key] = Call(
            session_id=self._task.session_id,
            task_id=key.task_id,
            scope=key.scope,
            idx=key.index,
            name=name,
            arguments=dict(arguments),
            state="running",
            outcome=None,
            fence=1,
            started_at=time.time(),
            finished_at=None,
            orphaned=0,
        )
        return FRESH

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        done: Any = {"state": "done", "outcome": dict(outcome), "finished_at": time.time()}
        self._calls[key] = replace(self._calls[key], **done)

    async def keep(self, key: CallKey, job: Mapping[str, Any]) -> None: ...

    async def withdraw(self, key: CallKey) -> None:
        self._calls.pop(key, None)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        found = [call for call in self._calls.values() if CallResult.of(call.outcome or {}).unknown]
        return [{"name": call.name, "arguments": call.arguments} for call in found]

    async def finished(self) -> Sequence[Call]:
        before = [call for call in await self._stored.finished() if call.started_at < self._task.created_at]
        return [*before, *(call for call in self._calls.values() if call.outcome is not None)]


class TurnExecutor:
    """Answers the calls of a turn with what was recorded; no tool with an effect ever runs here.

    A call has the result of a recorded one that means the same, whichever order. A call that was not recorded runs with
    `live_reads` if its tool is read-only, and was so when it was recorded; any other ends the turn, or has a stand-in.
    """

    def __init__(self, setup: Setup, recorded: RecordedTurn, tools: Mapping[str, Tool], tape: Tape) -> None:
        self.made: list[MadeCall] = []
        self.stopped = False
        self._setup = setup
        self._recorded = recorded
        self._tools = tools
        self._tape = tape
        then = self._then = setup.tools_then(recorded)
        self._left = [(key_of(call.name, call.arguments, then), call) for call in recorded.turn.tool_calls]
        self._used: dict[str, ToolCall] = {}
        self.marks = setup.registry.executor_of(recorded.task.agent_id) or TOOLS
        """Says what needs approval, and what may run beside others."""
        self._private = recorded.private({**then, **tools})

    def needs_approval(self, tool: Tool) -> bool:
        return self.marks.needs_approval(tool)

    def parallel(self, tool: Tool) -> bool:
        return self.marks.parallel(tool)

    async def execute(self, execution: Execution) -> CallResult:
        """Answer a call."""
        if self.stopped:
            raise TurnStopped(execution.name)
        result, answered = await self._result_of(execution)
        if execution.name != RECALL:
            effects, tools = self._recorded.effects, {**self._tools, **execution.tools}
            call = call_of(execution.name, execution.arguments, tools, answered, effects)
            self.made.append(replace(call, stand_in=result.value if result and answered == "stand_in" else None))
        if result is None:
            self.stopped = True
            raise TurnStopped(execution.name)
        if execution.hidden or execution.secret:
            self._private.append(result.content)
        return result

    def is_private(self, value: Any) -> bool:
        """Whether a value holds one of a hidden or secret result, which no model but the agent's may be sent."""
        return any(discloses(value, each, ()) for each in self._private)

    def client_result(self, call: Json) -> str | None:
        """What the task's client returned for a call then; None where it was not asked."""
        key = key_of(call["name"], call["arguments"], self._tools)
        found = next((each for known, each in self._left if known == key), None)
        value = (found.outcome or {}).get("success") if found else None
        return value if value is None or isinstance(value, str) else as_json(value)

    def take(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> ToolCall | None:
        """The next recorded call that means the same, or of a read-only tool the last one that did."""
        key = key_of(name, arguments, tools)
        found = next((call for known, call in self._left if known == key), None)
        if found:
            self._left.remove((key, found))
            self._tape.use(found)
            self._used[key] = found
            return found
        tool = tools.get(name)
        return self._used.get(key) if tool and tool.read_only else None

    async def _result_of(self, execution: Execution) -> tuple[CallResult | None, Answered]:
        found = self.take(execution.name, execution.arguments, execution.tools)
        stored = CallResult.of(found.outcome) if found and found.outcome is not None else None
        if stored and not stored.success:
            return stored, "recording"
        tool = execution.tool
        if tool is None:
            return missing(execution), "missing"
        if why := argument_error(tool, execution.arguments):
            text = task_text("call_misfit", execution.language, tool=execution.name, why=why)
            return CallResult.failed(text), "refused"
        if stored:
            return stored, "recording"
        before = self._then.get(tool.name)  # of the unchanged agents, where they are known
        had_no_effects = before is None or before.read_only
        may_run = tool.read_only and self._recorded.allows_read(tool.name) and had_no_effects
        if may_run and self._setup.live_reads and not isinstance(self.marks, ConversationExecutor):
            return await TOOLS.execute(execution), "live"
        return await self._stand_in(execution)

    async def _stand_in(self, execution: Execution) -> tuple[CallResult | None, Answered]:
        """A result in place of the tool's; a model is never sent hidden or secret values to write one."""
        shapes = self._setup.shapes.get(execution.name, ())
        tool, is_written = execution.tool, self._setup.effects == "model"
        if is_written:
            shapes = [call for call in shapes if not CallResult.of(call.outcome or {}).secret]
        if tool and tool.secret:
            shapes = []
        is_private = execution.hidden or execution.secret or self.is_private(execution.arguments)
        if is_written and not is_private:
            with suppress(UnreadableReply):
                model = self._setup.author_of(self._recorded)
                shown = [call for call in shapes if id(call) not in self._setup.private]
                return await written(model, execution, shown, self._recorded.task.task_id), "stand_in"
        elif self._setup.effects != "stop" and shapes:
            (shape,) = nearest(shapes, execution.arguments)
            return CallResult.of(shape.outcome or {}), "stand_in"
        return None, "nothing"


async def ended(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The task of this work, once it has ended; it is cancelled with the one that waits for it."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    return task


def failed(error: BaseException, recorded: RecordedTurn, **made: Any) -> Behaviour:
    """What a turn came to that failed; the error is in the turn's language, as it would be in its session."""
    sentence = sentence_of(error, recorded.turn.language or "en")
    return Behaviour(status="error", error=sentence, usage={}, **made)


class TurnRun:
    """One turn under way; `notes` are what a person had added to it, by default as it was recorded."""

    def __init__(self, setup: Setup, recorded: RecordedTurn, notes: Sequence[str] | None = None) -> None:
        self._setup = setup
        self._recorded = recorded
        self._notes = notes
        self._agent = setup.agent(recorded)
        self._tools = setup.tools(recorded)
        self._tape = Tape(
            Cassette(session=recorded.task.session_id, turns=(recorded.turn,), messages=()), compare=False
        )
        self._is_recorded = setup.model == RECORDED
        self._executor = TurnExecutor(setup, recorded, self._tools, self._tape)
        self._verdicts = {line: verdict for answer in recorded.turn.answers for line, verdict in _verdicts(answer)}
        self._answers = [answer.value for answer in recorded.turn.answers if "verdicts" not in answer.value]
        self._began = time.monotonic()
        self._question = ""

    async def run(self) -> Behaviour:
        """What the agent does now; a failure is a part of it."""
        running = await ended(self._result())
        error = running.exception()
        made: Any = {"calls": self._executor.made, "seconds": round(time.monotonic() - self._began, 3)}
        if self._executor.stopped:
            return Behaviour(status="stopped", usage={}, **made)
        if error:
            return failed(error, self._recorded, **made)
        result = running.result()
        if result is None:
            return Behaviour(status="waiting", question=self._question, usage={}, **made)
        return Behaviour(
            status="done" if result.get("success") else "error",
            answer=result.get("answer") or "",
            error=result.get("error") or "",
            usage=result.get("usage") or {},
            **made,
        )

    async def _result(self) -> Json | None:
        """The task's result; None where it waits with a question that nobody was asked."""
        task = self._recorded.task
        mode = self._setup.mode_of(self._recorded)
        if mode not in (*self._setup.modes, AUTO):
            raise UnknownMode(mode, [*self._setup.modes, AUTO])
        await self.prepare()
        message = HumanMessage(task.message, additional_kwargs=naming(task.attachments))
        given: Any = {"messages": [*self._recorded.history, message], "assignment": {"task_id": task.task_id}}
        graph, context = self._setup.graph, self.context()
        config: RunnableConfig = {**thread_config(task.session_id), "recursion_limit": recursion_limit(self._agent)}
        while True:
            out: Json = await graph.ainvoke(given, config, context=context, durability="exit")
            asked = question_of(out.get("__interrupt__", ()))
            if asked is None:
                return dict(out["result"])
            if (value := self._answer_to(asked.value)) is None:
                self._question = asked_of(asked.value)
                return None
            given = Command(resume={asked.id: value})

    def is_private(self, value: Any) -> bool:
        """Whether a value holds one of a hidden or secret result."""
        return self._executor.is_private(value)

    async def prepare(self) -> None:
        """Make the agent's tools ready."""
        await self._setup.registry.prepare(self._agent)

    def context(self) -> AppContext:
        """What the turn's graph runs with: recorded results, ids and time, and nothing that is stored."""
        task, turn, registry = self._recorded.task, self._recorded.turn, self._setup.registry

        async def notes(task_id: str) -> Sequence[str]:
            if self._notes is not None:
                return self._notes
            return self._tape.notes() if self._is_recorded else turn.notes

        async def said() -> Sequence[PromptText]:
            tasks = self._setup.storage.tasks
            return await said_in(tasks, task.session_id, registry, until=task.created_at)

        async def permissions(agent_id: str) -> Sequence[Grant]:
            return [grant for grant in self._recorded.grants if grant.rule.tool in turn.permitted]

        services = Services(
            agents=TurnAgents(registry, self._tape if self._is_recorded else None),
            participants=registry.participants,
            emit=lambda event: None,
            memory=TransientMemory(),
            ledger=TurnLedger(self._setup.storage.ledger(task.session_id), self._recorded),
            executor=self._executor,
            ids=RecordedIds(self._tape),
            clock=self._tape.clock if self._is_recorded else self._clock,
            notes=notes,
            said=said,
            permissions=permissions,
            files=self._setup.storage.files.get,
            renderings=self._setup.renderings,
            client_tools=client_tools(task.client_tools, turn.language or "en"),
            reply_options=ReplyOptions.of(task.reply_options),
        )
        names = {
            "agent": task.agent_id,
            "mode": self._setup.mode_of(self._recorded),
            "user_id": task.user_id,
            "model": self._setup.model_of(self._recorded),
        }
        return AppContext.carrying(services, **names, language=task.language or "")

    def _clock(self) -> float:
        """The time of the recording, which goes on as fast as now."""
        return self._recorded.task.created_at + time.monotonic() - self._began

    def _answer_to(self, question: Json) -> Json | None:
        """What a person answers, in the form that is stored; None where they were not asked then."""
        if calls := question.get(CLIENT_CALLS):
            return {"results": {call["id"]: self._executor.client_result(call) for call in calls}}
        if question["kind"] == "approval":
            verdicts = [{**self._verdict(call), "index": call["index"]} for call in question["calls"]]
            answer: Json = {"verdicts": verdicts}
        elif self._answers:
            answer = self._answers.pop(0)
        else:
            return None
        value: Json = stored_answer(question, answer, self._tools)
        return value

    def _verdict(self, call: Json) -> Json:
        """What was decided about this call; one that nobody was asked about then is approved, since it does not run."""
        verdict = self._verdicts.get(asked_of({"calls": [call]})) or self._verdict_apart_from_defaults(call)
        dropped = ("always", "only", "flow") if ApprovalTerms.of(call).each_call else ()
        return {name: value for name, value in verdict.items() if name not in dropped}

    def _verdict_apart_from_defaults(self, call: Json) -> Json:
        """What was decided about the call with the same given arguments, where its tool has other defaults now."""
        name = call["name"]
        given = _given(call["arguments"], self._tools.get(name))
        then = self._setup.tools_then(self._recorded).get(name)
        for line, verdict in self._verdicts.items():
            if line.startswith(f"{name}("):
                known = json.loads(line[len(name) + 1 : -1])
                if given in (_given(known, then), _given(known, self._tools.get(name))):
                    return verdict
        return {"verdict": "approve"}


def _given(arguments: Json, tool: Tool | None) -> Json:
    """The arguments that are not the tool's defaults."""
    defaults = all_arguments({}, tool) if tool else {}
    return {name: value for name, value in arguments.items() if name not in defaults or defaults[name] != value}


def _verdicts(answer: Answer) -> Iterator[tuple[str, Json]]:
    """Each call that was asked about, with its verdict; none of an answer to a question."""
    return zip(answer.asked.split("\n"), answer.value.get("verdicts", ()), strict=False)


# Recorded decisions made anew, each from its recorded state: one is judged although an earlier one differs.

_REACT = MODES["react"]
_DECIDES = "CALL_LLM"
_ROUNDS = ("react", "plan_react")
"""The modes whose rounds are the task's own agent's."""


@dataclass(frozen=True)
class RecordedStep:
    """A decision in a round of ReAct, and the state that it was made in."""

    action: Action
    state: Json


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One decision; `iteration` is its round's."""

    iteration: int
    verdict: Verdict
    difference: Difference | None = None
    effects: Effects


async def steps_of(recording: Recording, recorded: RecordedTurn) -> AsyncIterator[RecordedStep]:
    """The decisions of a turn whose snapshots are kept, in the rounds of its own agent, oldest first."""
    task, storage = recorded.task, recording.storage
    events = await storage.events.read(task.task_id)
    actions = {event.trace_id: event for event in events if isinstance(event, Action)}
    if not actions:
        return
    for snapshot in reversed(await storage.sessions.snapshots(task.session_id, -1)):
        if snapshot.task_id == task.task_id and snapshot.next == [_DECIDES] and snapshot.inside in _ROUNDS:
            place = await storage.sessions.find_place(snapshot.checkpoint_id, task.session_id)
            state = (await state_at(recording.graph, config_of(place))).values
            if action := actions.get(state.get("trace_id", "")):
                yield RecordedStep(action, state)


async def decide_again(setup: Setup, recorded: RecordedTurn, step: RecordedStep) -> StepReport:
    """What the agent decides now in a recorded state; no call is carried out."""
    tools = setup.tools(recorded)
    then = _behaviour(step.action.action_type, step.action.output, setup.tools_then(recorded), recorded)
    deciding = await ended(_decision(setup, recorded, step))
    if error := deciding.exception():
        now, kind = failed(error, recorded), ""
    else:
        decision = deciding.result()
        kind = decision.action_type.value
        now = _behaviour(kind, decision.output, tools, recorded)
    verdict, difference, effects = compared(then, now)
    if verdict is Verdict.OTHER_WORDS and kind != step.action.action_type:
        verdict = Verdict.OTHER_CALLS
    return StepReport(iteration=step.action.iteration, verdict=verdict, difference=difference, effects=effects)


async def _decision(setup: Setup, recorded: RecordedTurn, step: RecordedStep) -> Decision:
    """The decision."""
    run = TurnRun(setup, recorded, notes=_notes(recorded, step.action.iteration))
    await run.prepare()
    graph = _REACT.copy({"checkpointer": InMemorySaver(serde=IN_MEMORY)})
    config: RunnableConfig = thread_config(recorded.task.session_id)
    state = {name: value for name, value in step.state.items() if name != "events"}
    await graph.aupdate_state(config, state, as_node="INPUT")
    await graph.ainvoke(None, config, context=run.context(), interrupt_after=[_DECIDES])
    decision = (await graph.aget_state(config)).values.get("decision")
    if not decision:
        raise UnreadableReply("The reply cannot be read as a decision.")
    return Decision.model_validate(decision)


def _notes(recorded: RecordedTurn, iteration: int) -> tuple[str, ...]:
    """What a person had added by a round."""
    turn = recorded.turn
    return turn.notes[: max((t.count for t in turn.taken_notes if t.model_calls < iteration), default=0)]


def _behaviour(kind: str, output: Json, tools: Mapping[str, Tool], recorded: RecordedTurn) -> Behaviour:
    """A decision in the form in which turns are compared: its calls, or what it says."""
    functions = [call["function"] for call in output.get("tool_calls", ())]
    calls = [call_of(each["name"], each["arguments"], tools, "recording", recorded.effects) for each in functions]
    said = output["answer"] if kind == ActionType.ANSWER else "" if calls else as_json([kind, output])
    return Behaviour(status="done", answer=said, calls=calls, usage={})
