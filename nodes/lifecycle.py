"""The lifecycle graph: state, routes and nodes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isawaitable
from typing import Any, Literal, NotRequired, TypeVar, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.errors import GraphBubbleUp, GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, Send
from typing_extensions import TypedDict

from segue.core.calls import CallResult, Tool
from segue.core.context import AppContext
from segue.core.decision import read_object
from segue.core.errors import InvalidMessage, InvalidPlan, ModelUnreachable, StorageError, UnreadableReply, together
from segue.core.events import Durable, ErrorRaised, Lifecycle, Phase, PlanUpdate, Token
from segue.core.lifecycle import (
    MOST_TASKS,
    SPAWNED,
    SPAWNING,
    Context,
    Coordinator,
    EngineEventType,
    EngineState,
    SubTask,
    in_order,
    next_state,
    next_tasks,
    read_tasks,
    unreachable_tasks,
)
from segue.core.message import naming
from segue.core.models import ModelReply, ModelRequest, add_usages, tokens
from segue.core.plan import Status, problems
from segue.prompts import catalogue
from segue.prompts.catalogue import agent_prompt, error_text, render, sentence_of, task_text

from .calls import begin_steps, end_steps, restart_steps, skip_steps, step_event, undone_line
from .context import (
    MOST_STEPS,
    Node,
    NodeContext,
    NodeRuntime,
    Settled,
    announce,
    as_json,
    as_text,
    conversation,
    described,
    exchange,
    node_context,
    truncate,
    truncate_together,
)
from .digest import NOT_SAID
from .history import window
from .model_call import MOST_ASKS, Listener, ask_model, refuse_unreadable
from .subtasks import Spawner, add_spawned, spawned_events
from .task import (
    Assignment,
    NestedLedger,
    Records,
    TaskState,
    additions,
    amended,
    attachments_of,
    before_objective,
    begin,
    compose_result,
    end_task,
    joined,
    nested_services,
    objective_message,
    read_added_messages,
)

# State of the lifecycle graph.


class Restored(TypedDict, total=False):
    """What was done of a run that another engine began."""

    phase: str
    """scheduling or executing: continue there; anything else begins at the beginning."""
    context: dict[str, list[str]]
    steps: list[dict[str, Any]]
    results: dict[str, str]
    calls: dict[str, list[dict[str, Any]]]


class LifecycleState(TaskState, total=False):
    """The graph's channels; a node returns those that it changes.

    RECEIVING, or PAUSED for a restored run, resets every channel that belongs to a task.
    """

    notes_taken: int
    """How many additions were read. RECEIVING, PAUSED, DECOMPOSING, COMPLETED."""
    phase: str
    """The engine's state. Every node that ends a phase names the next one."""
    context: dict[str, list[str]]
    """{rules, knowledge, tools}, texts. CONTEXT_FETCHING."""
    asked: int
    """How often the tasks were asked for. DECOMPOSING."""
    complaint: str
    """What is wrong with the tasks that were written; empty if nothing. DECOMPOSING."""
    steps: list[dict[str, Any]]
    """The tasks, as dicts of `SubTask`. DECOMPOSING, EXECUTING."""
    wave: list[str]
    """The ids of the tasks under way. EXECUTING."""
    outcomes: Records
    """One a task that was carried out: {step_id, answer, error, history, calls, unknown, usage, spawned}; `unknown` are
    lines about calls of unknown outcome. EXECUTE_SUBTASK."""
    folded: int
    """How many of the outcomes are in `steps` and `results` already. EXECUTING."""
    results: dict[str, str]
    """The results of the completed tasks. EXECUTING."""
    calls: dict[str, list[dict[str, Any]]]
    """Calls that a task made already: {name, arguments, result, ref}. PAUSED from a restored run, EXECUTING."""
    held: bool
    """Whether a pause was requested before the phase began its work. SCHEDULING, EXECUTING; PAUSED takes it back."""
    failure: dict[str, Any] | None
    """{error, phase}: why the run ends in ERROR. RECEIVING, CONTEXT_FETCHING, DECOMPOSING, SCHEDULING, EXECUTING."""


class SubTaskWork(TypedDict):
    """What one EXECUTE_SUBTASK is sent: all that a task sees, and nothing of the others."""

    task_id: str
    language: str
    started_at: float
    goal: str
    context: dict[str, list[str]]
    step: dict[str, Any]
    needed: list[dict[str, Any]]
    """The tasks that it depends on, as dicts of `SubTask` with their `answer`."""
    calls: list[dict[str, Any]]
    """Calls that it made already."""
    steps: NotRequired[list[dict[str, Any]]]
    """All tasks of the run; a task that was begun before has none."""
    attachments: NotRequired[list[dict[str, Any]]]
    """The files of the message; a task that was begun before has none."""
    earlier: NotRequired[list[AnyMessage]]
    """The messages of earlier turns; a task that was begun before has none."""
    place: int
    total: int
    completed: int
    """Tasks that were completed when it was sent out."""


LifecycleNode = Node[LifecycleState, LifecycleState]


# Events of the engine, and the tasks' form in the state.


def engine_event(task_id: str, kind: EngineEventType, details: Mapping[str, Any]) -> Lifecycle:
    """An event of the engine; `task_id` is the whole run's, a subtask's is in the details."""
    return Lifecycle(task_id=task_id, event_type=kind.value, details=dict(details))


def changed(task_id: str, old: str, new: EngineState) -> Lifecycle:
    """The engine's state changes."""
    return engine_event(
        task_id, EngineEventType.STATE_CHANGED, {"from": EngineState(old).value, "to": next_state(old, new).value}
    )


def unknown_calls(history: Iterable[Mapping[str, Any]], language: str) -> list[str]:
    """A line for each tool of which a call may or may not have taken effect."""
    unknown = (entry["action"] for entry in history if CallResult.of(entry["result"]).unknown)
    return [task_text("unknown_call", language, tool=tool) for tool in dict.fromkeys(unknown)]


def tasks_of(steps: Iterable[Mapping[str, Any]]) -> tuple[SubTask, ...]:
    """The state's tasks."""
    return tuple(SubTask(**step) for step in steps)


def as_steps(tasks: Iterable[SubTask]) -> list[dict[str, Any]]:
    """The tasks as the state keeps them."""
    return [task.model_dump(mode="json") for task in tasks]


def ended(tasks: Sequence[SubTask], outcomes: Iterable[Mapping[str, Any]]) -> tuple[SubTask, ...]:
    """The tasks once some were carried out: {step_id, answer, error, …} each."""
    return end_steps(tasks, [{"step_id": o["step_id"], "name": "", "result": _result(o)} for o in outcomes])


def _result(outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {"error": outcome["error"]} if outcome["error"] else {"success": outcome["answer"]}


def count_completed(tasks: Sequence[SubTask]) -> int:
    """How many of the tasks are completed."""
    return sum(task.status is Status.DONE for task in tasks)


# Routers of the lifecycle graph.

PAUSABLE = (EngineState.SCHEDULING, EngineState.EXECUTING)
"""Where a run can be paused, and continues."""


def route_start(restored: Restored | None) -> Callable[[LifecycleState], Literal["RECEIVING", "PAUSED"]]:
    """The router of a run that may continue what an earlier engine did."""

    def route(state: LifecycleState) -> Literal["RECEIVING", "PAUSED"]:
        """A restored run continues where it was paused; any other begins at the beginning."""
        return "PAUSED" if restored and restored["phase"] in PAUSABLE else "RECEIVING"

    return route


def after_receiving(state: LifecycleState) -> Literal["CONTEXT_FETCHING", "ERROR"]:
    """An input that holds nothing to do ends the run."""
    return "ERROR" if state["failure"] else "CONTEXT_FETCHING"


def after_context_fetching(state: LifecycleState) -> Literal["DECOMPOSING", "ERROR"]:
    """A coordinator that fails ends the run."""
    return "ERROR" if state["failure"] else "DECOMPOSING"


def after_decomposing(state: LifecycleState) -> Literal["SCHEDULING", "DECOMPOSING", "ERROR"]:
    """Tasks that cannot be carried out are asked for again, then the run ends."""
    if state["failure"]:
        return "ERROR"
    return "DECOMPOSING" if state["complaint"] else "SCHEDULING"


def after_scheduling(state: LifecycleState) -> Literal["EXECUTING", "PAUSED", "ERROR"]:
    """A pause that was requested meanwhile comes first."""
    if state["failure"]:
        return "ERROR"
    return "PAUSED" if state["held"] else "EXECUTING"


def after_paused(state: LifecycleState) -> Literal["SCHEDULING", "EXECUTING"]:
    """Back to where the run was paused."""
    return "SCHEDULING" if state["phase"] == EngineState.SCHEDULING else "EXECUTING"


def after_executing(state: LifecycleState) -> list[Send] | Literal["PAUSED", "COMPLETED", "ERROR"]:
    """Send the tasks out that begin, or end."""
    if state["failure"]:
        return "ERROR"
    if state["held"]:
        return "PAUSED"
    return [Send("EXECUTE_SUBTASK", _work(state, task_id)) for task_id in state["wave"]] or "COMPLETED"


def _work(state: LifecycleState, task_id: str) -> SubTaskWork:
    steps = {step["step_id"]: step for step in state["steps"]}
    step = steps[task_id]
    return {
        "task_id": state["task_id"],
        "language": state["language"],
        "started_at": state["started_at"],
        "goal": state["objective"],
        "context": state["context"],
        "step": step,
        "needed": [{**steps[need], "answer": state["results"].get(need, "")} for need in step["depends_on"]],
        "calls": state["calls"].get(task_id, []),
        "steps": state["steps"],
        "attachments": attachments_of(state["messages"]),
        "earlier": before_objective(state["messages"]),
        "place": list(steps).index(task_id) + 1,
        "total": len(steps),
        "completed": count_completed(tasks_of(state["steps"])),
    }


# A gate that lets a background graph advance only as far as its follower has come.

POLL_SECONDS = 0.1
"""Seconds between two looks at whether a pause was requested."""

AnyNode = TypeVar("AnyNode", bound=Callable[..., Awaitable[Any]])


class Gate:
    """Closed until the follower has seen every event of the engine and asks for the next."""

    def __init__(self) -> None:
        self._unseen = 0
        self._asked = False
        self._moved = asyncio.Event()

    def ask(self) -> None:
        """The follower wants the next event."""
        self._asked = True
        self._moved.set()

    def acknowledge(self) -> None:
        """The follower has one of the engine's events."""
        self._unseen -= 1
        self._asked = False
        self._moved.set()

    def expect(self, count: int) -> None:
        """So many events are on their way."""
        self._unseen += count

    async def wait(self, runtime: NodeRuntime) -> None:
        """Wait until more is asked for, or a pause."""
        while (self._unseen > 0 or not self._asked) and not runtime.drain_requested:
            self._moved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), POLL_SECONDS)


GATE: ContextVar[Gate | None] = ContextVar("segue_gate", default=None)


def stepwise(node: AnyNode, *, holds: bool = False) -> AnyNode:
    """A node that waits at the gate of its run, if there is one.

    A pause that is asked for there comes before the node, unless the node `holds` itself.
    """

    @wraps(node)
    async def step(state: Any, runtime: NodeRuntime) -> Any:
        gate = GATE.get()
        if gate is None:
            return await node(state, runtime)
        await gate.wait(runtime)
        if runtime.drain_requested and not holds:
            raise GraphDrained(runtime.drain_reason or "")
        update = await node(state, runtime)
        gate.expect(sum(event["type"] == Lifecycle.type for event in update.get("events", ())))
        return update

    return cast(AnyNode, step)


# RECEIVING: a new run begins.


def receiving(restored: Restored | None = None) -> LifecycleNode:
    """The node of a new run, or of a restored one."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Read the input; one without anything to do ends the run."""
        try:
            fresh = entered(state, runtime, restored)
        except InvalidMessage as error:
            return _refuse_message(state, node_context(runtime), error)
        task_id = fresh["task_id"]
        events = announce(
            changed(task_id, EngineState.IDLE, EngineState.RECEIVING),
            changed(task_id, EngineState.RECEIVING, EngineState.CONTEXT_FETCHING),
        )
        return {**fresh, "phase": EngineState.CONTEXT_FETCHING.value, "events": events}

    return node


def entered(state: LifecycleState, runtime: NodeRuntime, restored: Restored | None) -> LifecycleState:
    """The channels of a new run; what was under way in a restored one is to be done again."""
    return {
        **cast(LifecycleState, begin(state["messages"], state.get("assignment"), runtime)),
        **_reset(restored or {}),
        "notes_taken": len(additions(state["messages"])),
    }


def _reset(restored: Restored) -> LifecycleState:
    return {
        "context": restored.get("context") or {},
        "asked": 0,
        "complaint": "",
        "steps": as_steps(restart_steps(tasks_of(restored.get("steps") or ()))),
        "wave": [],
        "outcomes": cast(Any, Overwrite([])),
        "folded": 0,
        "results": restored.get("results") or {},
        "calls": restored.get("calls") or {},
        "held": False,
        "failure": None,
    }


def _refuse_message(state: LifecycleState, work: NodeContext, error: InvalidMessage) -> LifecycleState:
    given = (state.get("assignment") or work.services.part_of).get("task_id")
    task_id, language = given or work.services.ids.task(), work.agent.language or work.context.language or "en"
    return {
        **_reset({}),
        "assignment": None,
        "task_id": task_id,
        "nested": given is not None,
        "objective": "",
        "language": language,
        "started_at": work.services.clock(),
        "usage": {},
        "result": None,
        "notes_taken": 0,
        "phase": EngineState.RECEIVING.value,
        "failure": {"error": error_text(error, language), "phase": EngineState.RECEIVING.value},
        "events": announce(changed(task_id, EngineState.IDLE, EngineState.RECEIVING)),
    }


# CONTEXT_FETCHING: ask the coordinator for rules, knowledge and tools.

KINDS = ("rules", "knowledge", "tools")
MOST_CHARS = 2_000
"""Characters of one text of the context."""
SHARE = 8
"""Rules, knowledge and tools get one part in so many of a prompt's budget each."""
_TEXTS = ("text", "content", "description")


def context_fetching(coordinator: Coordinator | None) -> LifecycleNode:
    """The node over this coordinator; where it names no tools, they are the agent's."""

    async def fetch(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Keep the context's texts, and tell how many there are; a coordinator that fails ends the run."""
        work, task_id = node_context(runtime), state["task_id"]
        work.emit(Phase(task_id=task_id, content=task_text("lifecycle_context", state["language"])))
        try:
            given: Any = coordinator.get_context_async(state["objective"]) if coordinator else Context()
            given = await given if isawaitable(given) else given
            found = {kind: _items(given, kind) for kind in KINDS}
            found["tools"] = found["tools"] or [_tool_line(tool.spec["function"]) for tool in work.tools.values()]
        except Exception as error:  # noqa: BLE001 - a coordinator is anybody's code: the run ends and says why
            why = task_text("no_context", state["language"], why=str(error) or type(error).__name__)
            return {"failure": {"error": why, "phase": state["phase"]}}
        most = work.agent.budget.prompt_tokens // SHARE
        context = {kind: list(_within_budget(texts, most)) for kind, texts in found.items()}
        counts = {f"{kind}_count": len(found[kind]) for kind in KINDS}
        left_out = {kind: n for kind in KINDS if (n := len(found[kind]) - len(context[kind]))}
        details = {**counts, **context, **({"left_out": left_out} if left_out else {})}
        events = announce(
            engine_event(task_id, EngineEventType.CONTEXT_RECEIVED, details),
            changed(task_id, state["phase"], EngineState.DECOMPOSING),
        )
        return {"context": context, "phase": EngineState.DECOMPOSING.value, "events": events}

    return fetch


def _tool_line(function: Mapping[str, Any]) -> str:
    return f"{function['name']}: {' '.join(str(function.get('description', '')).split())}"


def _items(given: Any, kind: str) -> list[str]:
    items = given.get(kind) if isinstance(given, Mapping) else getattr(given, kind)
    return [_text(item) for item in items or ()]


def _text(item: Any) -> str:
    """What a rule, a passage or a tool says, whatever form the coordinator gives it."""
    if isinstance(item, Mapping):
        if isinstance(item.get("function"), Mapping):
            return _tool_line(item["function"])
        said = next((str(item[name]) for name in _TEXTS if item.get(name)), "")
        name = item.get("name") or item.get("title") or ""
        return ": ".join(part for part in (str(name), said) if part) or as_json(item)
    return str(item)


def _within_budget(texts: Iterable[str], room: int) -> Iterable[str]:
    for text in texts:
        shown = truncate(text.encode("utf-8", "replace").decode("utf-8"), MOST_CHARS)
        room -= tokens(shown)
        if room < 0:
            return
        yield shown


# DECOMPOSING: break the goal down into tasks; after a complaint they are requested again.

Decompose = Callable[[str], Awaitable[object]]
"""Breaks a goal down without a model: gives the list of tasks."""


_TEXT = {"type": "string"}
_TASK = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "description": _TEXT,
        "priority": {"type": "integer"},
        "dependencies": {"type": "array", "items": _TEXT},
        "type": _TEXT,
        "timeout": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["id", "description", "priority", "dependencies", "type", "timeout"],
    "additionalProperties": False,
}
TASKS_SCHEMA = {
    "type": "object",
    "properties": {"tasks": {"type": "array", "items": _TASK, "minItems": 1, "maxItems": MOST_STEPS}},
    "required": ["tasks"],
    "additionalProperties": False,
}


class Undecomposable(Exception):
    """Somebody's own way to break goals down failed; the message says how."""


def decomposing(decompose: Decompose | None) -> LifecycleNode:
    """The node that asks the agent's model, or `decompose` in its place."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Ask for the tasks, or keep those of a restored run; nothing of what was written is left out."""
        work = node_context(runtime)
        if state["steps"]:
            return _accepted(state, work, tasks_of(state["steps"]), ())
        added = cast(LifecycleState, await read_added_messages(state, work))
        state = amended(state, added)
        why, language = state["complaint"], state["language"]
        banner = task_text("lifecycle_again", language, why=why) if why else task_text("lifecycle_decompose", language)
        work.emit(Phase(task_id=state["task_id"], content=banner))
        update: LifecycleState = {"asked": state["asked"] + 1}
        also: list[Durable] = []
        try:
            tasks = await _from_function(decompose, state) if decompose else await _asked(state, work, update, also)
        except Undecomposable as error:
            update |= {"failure": {"error": str(error), "phase": state["phase"]}}
        except (InvalidPlan, UnreadableReply) as error:
            update |= _refuse_decomposition(state, catalogue.error_text(error, language), also)
        else:
            update |= _accepted(state, work, tasks, also)
        return joined(added, update)

    return node


async def _from_function(decompose: Decompose, state: LifecycleState) -> tuple[SubTask, ...]:
    text = "\n\n".join(part for part in (state["objective"], state["complaint"]) if part)
    try:
        given = await decompose(text)
    except Exception as error:  # anybody's code: the run ends and says why
        why = task_text("not_broken_down", state["language"], why=str(error) or type(error).__name__)
        raise Undecomposable(why) from error
    return read_tasks(given)


async def _asked(
    state: LifecycleState, work: NodeContext, update: LifecycleState, also: list[Durable]
) -> tuple[SubTask, ...]:
    ids = {"task_id": state["task_id"]}
    asked = await ask_model(work, partial(_request, state), Listener, state["usage"], ids, state["language"])
    update["usage"] = asked.usage
    also.append(asked.event)
    return read_tasks(_read(asked.reply))


def _request(state: LifecycleState, work: NodeContext) -> ModelRequest:
    """The request; after a complaint it says what is wrong with the tasks that were written before."""
    budget, language = work.agent.budget, state["language"]
    earlier = before_objective(state["messages"])
    past = conversation(window(earlier, budget.prompt_tokens // 4, budget.result_chars), budget.result_chars)
    known: dict[str, Any] = {"conversation": past} | {k: v for k, v in state["context"].items() if k != "tools"}
    if state["complaint"]:
        known["problem"] = state["complaint"]
    own = agent_prompt(work.agent, language, state["objective"])
    tools = "\n".join(f"- {line}" for line in state["context"].get("tools", ())) or described(work.tools, language)
    system = render("decompose", language, agent_prompt=own, tools=tools, current_state=as_json(known))
    return ModelRequest(
        purpose="plan",
        messages=[SystemMessage(system), objective_message(state)],
        schema=TASKS_SCHEMA,
        tools=[tool.spec for tool in work.tools.values()],
    )


def _read(reply: ModelReply) -> dict[str, Any]:
    refuse_unreadable(reply)
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit: write fewer tasks.")
    return read_object(reply.text, "tasks")


def _refuse_decomposition(state: LifecycleState, why: str, also: list[Durable]) -> LifecycleState:
    events = announce(*also, ErrorRaised(task_id=state["task_id"], message=why))
    if state["asked"] + 1 < MOST_ASKS:
        return {"complaint": why, "events": events}
    error = task_text("not_broken_down_after", state["language"], n=MOST_ASKS, why=why)
    return {"complaint": why, "failure": {"error": error, "phase": state["phase"]}, "events": events}


def _accepted(
    state: LifecycleState, work: NodeContext, tasks: tuple[SubTask, ...], also: list[Durable] | tuple[()]
) -> LifecycleState:
    task_id, steps = state["task_id"], as_steps(tasks)
    work.emit(Phase(task_id=task_id, content=task_text("lifecycle_schedule", state["language"], n=len(tasks))))
    details = {"task_count": len(tasks), "tasks": [task.public for task in tasks]}
    events = announce(
        *also,
        PlanUpdate(task_id=task_id, goal=state["objective"], steps=steps),
        engine_event(task_id, EngineEventType.TASK_DECOMPOSED, details),
        changed(task_id, state["phase"], EngineState.SCHEDULING),
    )
    return {"steps": steps, "complaint": "", "phase": EngineState.SCHEDULING.value, "events": events}


# SCHEDULING: put the tasks in order, by their dependencies and then by their priority.


async def scheduling(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """Say in which order the tasks will be carried out; tasks from elsewhere that cannot be end the run."""
    if runtime.drain_requested:
        return {"held": True}
    tasks, task_id = tasks_of(state["steps"]), state["task_id"]
    if found := problems(tasks, max_steps=MOST_TASKS):
        invalid = InvalidPlan("The tasks cannot be run: {why}.", why=together(found))
        return {"failure": {"error": catalogue.error_text(invalid, state["language"]), "phase": state["phase"]}}
    scheduled = [
        engine_event(task_id, EngineEventType.TASK_SCHEDULED, {"task_id": task.step_id, "priority": task.priority})
        for task in in_order(tasks)
    ]
    events = announce(*scheduled, changed(task_id, state["phase"], EngineState.EXECUTING))
    return {"phase": EngineState.EXECUTING.value, "events": events}


# EXECUTING: fold in what was carried out, then pick the tasks that begin next.


def executing(concurrency: int) -> LifecycleNode:
    """The node that has so many tasks carried out at once."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Skip tasks that need a failed one and start those that are ready; the run completes when none is left."""
        if runtime.drain_requested:
            return {"held": True}
        folded, task_id = _fold(state), state["task_id"]
        tasks, added = await add_spawned(folded_tasks(state), _new_outcomes(state), node_context(runtime), task_id)
        tasks, lost = _skip(tasks, state["language"])
        update: LifecycleState = {**folded, "steps": as_steps(tasks), "wave": []}
        events = spawned_events(task_id, state["objective"], added, tasks)
        events += [event for task in lost for event in _skipped_events(task_id, task, tasks)]
        begins = next_tasks(tasks)[:concurrency]
        if begins and (spent := _spent(state, runtime)):
            failure = {"error": spent, "phase": state["phase"], "limit": "seconds"}
            return {**update, "failure": failure, "events": announce(*events)}
        if not begins:
            events.append(changed(state["task_id"], state["phase"], EngineState.COMPLETED))
            return {**update, "phase": EngineState.COMPLETED.value, "events": announce(*events)}
        wave = [task.step_id for task in begins]
        tasks = begin_steps(tasks, wave)
        events += [event for task in _named(tasks, wave) for event in _begun_events(state["task_id"], task)]
        return {**update, "steps": as_steps(tasks), "wave": wave, "events": announce(*events)}

    return node


def _new_outcomes(state: LifecycleState) -> list[dict[str, Any]]:
    return state["outcomes"][state["folded"] :]


def folded_tasks(state: LifecycleState) -> tuple[SubTask, ...]:
    """The tasks with what was carried out since they were last looked at."""
    return ended(tasks_of(state["steps"]), _new_outcomes(state))


def _fold(state: LifecycleState) -> LifecycleState:
    fresh = _new_outcomes(state)
    return {
        "folded": len(state["outcomes"]),
        "results": state["results"] | {o["step_id"]: o["answer"] for o in fresh if not o["error"]},
        "calls": state["calls"] | {o["step_id"]: o["calls"] for o in fresh if o["calls"]},
        "usage": add_usages([state["usage"], *(outcome["usage"] for outcome in fresh)]),
    }


def _skip(tasks: tuple[SubTask, ...], language: str) -> tuple[tuple[SubTask, ...], list[SubTask]]:
    lost = unreachable_tasks(tasks)
    notes = {name: task_text("lifecycle_needs", language, tasks=", ".join(needs)) for name, needs in lost.items()}
    tasks = skip_steps(tasks, notes)
    return tasks, _named(tasks, lost)


def _named(tasks: Sequence[SubTask], names: Iterable[str]) -> list[SubTask]:
    """The tasks of these ids, in the ids' order."""
    by_id = {task.step_id: task for task in tasks}
    return [by_id[name] for name in names]


def _skipped_events(task_id: str, task: SubTask, tasks: Sequence[SubTask]) -> list[Durable]:
    progress = count_completed(tasks) / len(tasks)
    details = {"task_id": task.step_id, "error": task.note, "progress": progress, "skipped": True}
    return [step_event(task, {"task_id": task_id}), engine_event(task_id, EngineEventType.TASK_FAILED, details)]


def _begun_events(task_id: str, task: SubTask) -> list[Durable]:
    details = {"task_id": task.step_id, "description": task.description}
    return [step_event(task, {"task_id": task_id}), engine_event(task_id, EngineEventType.TASK_STARTED, details)]


def _spent(state: LifecycleState, runtime: NodeRuntime) -> str:
    work = node_context(runtime)
    if work.seconds_since(state["started_at"]) <= work.agent.budget.seconds:
        return ""
    return task_text("spent_seconds", state["language"], n=f"{work.agent.budget.seconds:g}")


# EXECUTE_SUBTASK: one subtask, in a context of its own, by the react graph.

ReactGraph = CompiledStateGraph[Any, Any, Any, Any]

SHOWN = ("messages", "result", "events")
"""What streams show of a subtask's nodes; `events` is never a part of the output."""


class Failed(Exception):
    """The subtask could not be carried out; the message says why."""


def execute_subtask(graph: ReactGraph) -> Node[SubTaskWork, LifecycleState]:
    """The node over this react graph."""

    async def node(state: SubTaskWork, runtime: NodeRuntime) -> LifecycleState:
        """Work on one task; a failure is the task's own, and the others continue."""
        work, task = node_context(runtime), SubTask(**state["step"])
        about = {"i": state["place"], "n": state["total"], "description": task.description}
        banner = task_text("lifecycle_task", state["language"], **about)
        work.emit(Phase(task_id=state["task_id"], step_id=task.step_id, content=banner))
        spawner = Spawner(work, state["task_id"], task.step_id, state.get("steps", [state["step"]]))
        SPAWNING.set(spawner)
        try:
            out = await _in_time(graph, state, task, work)
        except Failed as failed:
            return _update(state, task, {"answer": "", "error": str(failed), SPAWNED: await spawner.added([])}, [])
        result, own = out["result"], out["messages"][len(_earlier(state, work)) :]
        fresh = [message for message in own if not message.additional_kwargs.get("brief")]
        made = [message.model_copy(update={"id": None}) for message in fresh if _is_call(message)]
        error = _failure(result, state["language"])
        unknown = unknown_calls(result["history"], state["language"])
        answer = "\n\n".join([result["answer"], *unknown])
        outcome = {"answer": answer, "error": error, "history": result["history"], "unknown": unknown}
        outcome |= {SPAWNED: await spawner.added(made), "usage": result["usage"]}
        return _update(state, task, outcome, made)

    return node


async def _in_time(graph: ReactGraph, state: SubTaskWork, task: SubTask, work: NodeContext) -> dict[str, Any]:
    """What the react graph returns.

    Where the others would fail as well, the run stops with the error and can be resumed; any other one is Failed.
    """
    ledger = NestedLedger(work.services.ledger) if work.services.ledger else None
    knowledge = state["context"].get("knowledge", ())
    services = nested_services(work.services, ledger, state, step_id=task.step_id, read=knowledge)
    context = AppContext.carrying(services, **work.context.model_dump())
    try:
        async with asyncio.timeout(task.timeout) as limit:
            given = brief(state, task, work)
            out: dict[str, Any] = await graph.ainvoke(given, context=context, output_keys=SHOWN)
            return out
    except (GraphBubbleUp, ModelUnreachable, StorageError):
        raise
    except Exception as error:  # whatever one task raises becomes its failure; the others continue
        if not (isinstance(error, TimeoutError) and limit.expired()):
            raise Failed(sentence_of(error, state["language"])) from error
    why = task_text("lifecycle_late", state["language"], n=f"{task.timeout:g}")
    if ledger:
        await ledger.cancel(work.tools, why, state["language"])
    raise Failed(why)


def _failure(result: Mapping[str, Any], language: str) -> str:
    """Why the task is not done: the react graph failed, or its answer says why there is none."""
    if not result["success"]:
        return str(result.get("error") or task_text("nothing_found", language))
    return str(result["answer"]).partition("\n")[0].rstrip(" :：") if result.get("refused") else ""


def _is_call(message: AnyMessage) -> bool:
    return isinstance(message, ToolMessage) or (isinstance(message, AIMessage) and bool(message.tool_calls))


def _update(
    state: SubTaskWork, task: SubTask, outcome: Mapping[str, Any], messages: list[AnyMessage]
) -> LifecycleState:
    task_id, error, added = state["task_id"], outcome["error"], len(outcome[SPAWNED])
    total = state["total"] + added
    details: dict[str, Any] = {"task_id": task.step_id, **({"added": added} if added else {})}
    if error:
        details |= {"error": error, "result": outcome["answer"], "progress": state["completed"] / total}
        event = engine_event(task_id, EngineEventType.TASK_FAILED, {**details, "skipped": False})
    else:
        details |= {"result": outcome["answer"], "progress": (state["completed"] + 1) / total}
        event = engine_event(task_id, EngineEventType.TASK_COMPLETED, details)
    kept = {"step_id": task.step_id, "history": [], "calls": [], "unknown": [], "usage": {}, **outcome}
    (done,) = ended([task], [kept])
    return {"messages": messages, "outcomes": [kept], "events": announce(step_event(done, {"task_id": task_id}), event)}


def brief(state: SubTaskWork, task: SubTask, work: NodeContext) -> dict[str, Any]:
    """The react graph's input."""
    assignment: Assignment = {
        "task_id": state["task_id"],
        "language": state["language"],
        "started_at": state["started_at"],
        "done": list(state["calls"]),
    }
    messages = [*_earlier(state, work), *_before(state, task, work), _instructions(state, task, work)]
    return {"messages": [*messages, *_made(state, task)], "assignment": assignment}


def _earlier(state: SubTaskWork, work: NodeContext) -> list[AnyMessage]:
    """The conversation before the goal, as far as the prompts of the react graph show it."""
    return window(state.get("earlier", []), work.agent.budget.prompt_tokens // 4, work.agent.budget.result_chars)


def _instructions(state: SubTaskWork, task: SubTask, work: NodeContext) -> HumanMessage:
    kept = {**_BRIEF, **naming(state.get("attachments", []))}
    return HumanMessage(_task_text(task, work.tools), additional_kwargs=kept)


def _task_text(task: SubTask, tools: Mapping[str, Tool]) -> str:
    """The description, followed by the call of a task that names a tool with everything that the tool requires."""
    tool = tools.get(task.action)
    if tool is None or any(name not in task.params for name in tool.spec["function"]["parameters"].get("required", ())):
        return task.description
    return f"{task.description}: {task.action}({as_json(task.params)})"


_BRIEF = {NOT_SAID: True}
"""Marks a subtask's instructions, which are not part of the thread's history."""


def _before(state: SubTaskWork, task: SubTask, work: NodeContext) -> list[AnyMessage]:
    """The message before the task itself; none where it would say nothing."""
    rules, knowledge = (state["context"].get(kind, []) for kind in ("rules", "knowledge"))
    if not (rules or knowledge or state["needed"]) and state["goal"] == task.description:
        return []
    language, budget = state["language"], work.agent.budget
    nothing = task_text("none_given", language)
    entries = [
        {"task": _task_text(SubTask(**need), work.tools), "result": {"success": need["answer"]}}
        for need in state["needed"]
    ]
    shown = truncate_together(entries, budget.result_chars, budget.prompt_tokens // 4)
    results = [f"{entry['task']}: {as_text(entry['result']['success'])}" for entry in shown]
    parts = {"rules": rules, "knowledge": knowledge, "results": results}
    texts = {name: "\n".join(f"- {item}" for item in items) or nothing for name, items in parts.items()}
    goal = truncate(state["goal"], budget.prompt_tokens // 4)
    return [HumanMessage(render("subtask", language, goal=goal, **texts), additional_kwargs=_BRIEF)]


def _made(state: SubTaskWork, task: SubTask) -> list[AnyMessage]:
    """The calls that the task made before it was interrupted, as its history."""
    calls = [
        Settled(f"{task.step_id}-{place}", call["name"], call["arguments"], call["result"])
        for place, call in enumerate(state["calls"])
    ]
    return exchange("", calls) if calls else []


# PAUSED: a paused run continues where it was paused.


def paused(restored: Restored | None = None) -> LifecycleNode:
    """The node of a run that may begin with what an earlier engine did."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Take over what was done before if the run begins here."""
        if not restored or not state.get("assignment"):
            return {"held": False}
        return {**entered(state, runtime, restored), "phase": EngineState(restored["phase"]).value}

    return node


# The answer and the result of a run, for COMPLETED and ERROR.

MODE = "lifecycle"


def lifecycle_result(state: LifecycleState, answer: str, error: str = "", limit: str = "") -> dict[str, Any]:
    """The task's result."""
    tasks = tasks_of(state["steps"])
    return compose_result(
        MODE,
        answer,
        history=[{**entry, "step": o["step_id"]} for o in state["outcomes"] for entry in o["history"]],
        reasoning="\n".join(f"[{task.step_id}] {task.description}" for task in tasks),
        plan=state["steps"],
        usage=state["usage"],
        error=error,
        limit=limit,
    )


def whole_answer(state: LifecycleState) -> str:
    """The result of the task that all others lead to, or each under its task; then what is in doubt or undone."""
    tasks, results = tasks_of(state["steps"]), state["results"]
    last = _conclusion(tasks)
    answer = results[last.step_id] if last and last.step_id in results else done_so_far(state)
    if not answer and len(tasks) == 1:
        answer = "\n\n".join(outcome["answer"] for outcome in state["outcomes"])
    undone = [f"- {task.description}: {task.note}" for task in tasks if task.status is not Status.DONE]
    left = task_text("lifecycle_left", state["language"], tasks="\n".join(undone)) if undone and len(tasks) > 1 else ""
    doubtful = dict.fromkeys(line for outcome in state["outcomes"] for line in outcome.get("unknown", ()))
    return "\n\n".join(part for part in (answer, *(line for line in doubtful if line not in answer), left) if part)


def done_so_far(state: LifecycleState) -> str:
    """The results of the completed tasks, each under its description; one alone has none."""
    tasks, results = tasks_of(state["steps"]), state["results"]
    done = [task for task in tasks if results.get(task.step_id)]
    if len(done) == 1:
        return results[done[0].step_id]
    return "\n\n".join(f"### {task.description}\n\n{results[task.step_id]}" for task in done)


def _conclusion(tasks: Sequence[SubTask]) -> SubTask | None:
    """The one task that every other leads to."""
    needed = {need for task in tasks for need in task.depends_on}
    last = [task for task in tasks if task.step_id not in needed]
    return last[0] if len(last) == 1 else None


# COMPLETED: nothing is left to do; the results make up the answer.


async def completed(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """Write the result, an error where a task failed; subtasks that were sent too late to begin are skipped."""
    work = node_context(runtime)
    added = cast(LifecycleState, await read_added_messages(state, work))
    task_id = state["task_id"]
    tasks, late = await add_spawned(tasks_of(state["steps"]), (), work, task_id)
    tasks = skip_steps(tasks, {task.step_id: task_text("lifecycle_ending", state["language"]) for task in late})
    state = {**state, "steps": as_steps(tasks)}
    skipped = spawned_events(task_id, state["objective"], late, tasks)
    for task in tasks[len(tasks) - len(late) :]:
        skipped += _skipped_events(task_id, task, tasks)
    answer = whole_answer(state)
    work.emit(Token(task_id=task_id, content=answer))
    undone = [task for task in tasks if task.status is not Status.DONE]
    why = undone_line("task_undone", undone, state["language"])
    result = lifecycle_result(state, answer, why)
    details = {
        "total_tasks": len(tasks),
        "completed_tasks": len(tasks) - len(undone),
        "failed_tasks": sum(task.status is Status.ERROR for task in undone),
        "skipped_tasks": sum(task.status is Status.SKIPPED for task in undone),
        "answer": answer,
        "usage": state["usage"],
    }
    finished = engine_event(task_id, EngineEventType.ENGINE_COMPLETED, details)
    update: LifecycleState = {
        "messages": [*added.get("messages", ()), AIMessage(answer)],
        "steps": state["steps"],
        "result": result,
        "events": announce(*skipped, finished, *end_task(state, result)),
    }
    return joined(added, update)


# ERROR: the run failed; say why, with what was done so far.


async def error(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """End the task as an error that keeps what was found."""
    failure, language, task_id = state["failure"] or {}, state["language"], state["task_id"]
    why = str(failure.get("error", ""))
    found = done_so_far(state) or task_text("nothing_found", language)
    text = task_text("unfinished", language, why=why.rstrip(".。"), found=found)
    node_context(runtime).emit(Token(task_id=task_id, content=text))
    result = lifecycle_result(state, text, why, str(failure.get("limit", "")))
    events = announce(
        changed(task_id, state["phase"], EngineState.ERROR),
        engine_event(task_id, EngineEventType.ENGINE_ERROR, failure),
        *end_task(state, result, failure=why),
    )
    return {
        "messages": [AIMessage(text)],
        "phase": EngineState.ERROR.value,
        "result": result,
        "events": events,
    }
