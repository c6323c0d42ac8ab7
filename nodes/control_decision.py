"""A controller's decision: the state of a flow, its memory, its plan, its branches, and what came of it."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from inspect import isawaitable
from typing import Any, cast, get_type_hints

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph.state import CompiledStateGraph
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict, is_typeddict

from segue.core.calls import CallResult, PendingCall, Tool
from segue.core.context import AppContext, MemoryEntry
from segue.core.decision import StepStatusUpdate, call_name, check_storable, read_object, read_steps
from segue.core.errors import (
    ConfigurationError,
    IllegalTransition,
    InvalidPlan,
    MemoryUnavailable,
    UnreadableReply,
    listed,
)
from segue.core.events import (
    AttemptRestarted,
    BranchEnd,
    BranchStart,
    Durable,
    ErrorRaised,
    NotesTaken,
    Phase,
    PlanUpdate,
    RestartReason,
    RoundStart,
    StepUpdate,
    Thought,
)
from segue.core.flows import (
    BUILT_INS,
    BranchConfig,
    BranchInput,
    ControllerDecision,
    EarlyExit,
    FlowConfig,
    OnReachMaxRound,
    early_exit,
)
from segue.core.json import NOISE, object_schema, plain_schema
from segue.core.message import naming
from segue.core.models import ModelReply, ModelRequest, tokens
from segue.core.plan import Plan, Status, Step, keep_finished, validate
from segue.prompts import catalogue
from segue.prompts.catalogue import agent_prompt, error_text, render, task_text
from segue.tools.builtin import BUILTIN

from .calls import (
    begin_steps,
    call_events,
    claim_steps,
    show_choice,
    show_outcome,
    show_problem,
    step_events,
    steps_of_calls,
)
from .context import (
    Node,
    NodeContext,
    NodeRuntime,
    announce,
    as_json,
    as_text,
    is_hidden,
    node_context,
    or_references,
    truncate,
    truncate_result,
)
from .model_call import (
    MOST_ASKS,
    CompletedCall,
    JsonStrings,
    Listener,
    LiveReply,
    ask_model,
    cut_answer,
    refuse_quotation,
    refuse_unreadable,
    size_of,
)
from .repeated_failures import repeated_failure
from .task import Assignment, Events, Records, joined, nested_services

# State of the controller–executor graph.


class FlowInput(TypedDict, total=False):
    """What the graph is invoked with; INIT takes it in and clears it."""

    plan: Any
    """A text, or steps: [{"step_id", "description", "status"?}]."""
    memory_files: dict[str, str]
    """The paths of memory files by their names."""
    goal: str
    logs: str
    """What was done before."""
    assignment: Assignment | None


class FlowOutput(TypedDict):
    """What the graph returns."""

    result: Any
    """For the caller's controller."""
    summary: str
    """For the caller's logs."""
    status: str
    """finished or unfinished."""


class FlowState(FlowInput, total=False):
    """INIT resets every channel that belongs to a task."""

    task_id: str
    language: str
    started_at: float
    objective: str
    """The goal, and what was added to it. INIT, CONTROLLER."""
    attachments: list[dict[str, Any]]
    """The files of the message that the goal comes from. INIT."""
    added: list[str]
    """What a person added to the task. CONTROLLER."""
    branch: str
    """The flow's name, or the branches that lead to it, joined by dots. INIT."""
    files: dict[str, str]
    """The memory files. INIT."""
    needed: list[str]
    """Those that the caller names and the flow does not write: they have to be there. INIT."""
    before: str
    """The caller's logs. INIT."""
    steps: list[dict[str, Any]]
    """The plan. INIT, PLAN, EXECUTOR, FINISH."""
    round: int
    trace_id: str
    """MEMORY_READING, as `round`."""
    memory: str
    """What was read of the memory files. MEMORY_READING."""
    memory_error: str
    """Why a memory file cannot be read or written; empty if none. MEMORY_READING, MEMORY_WRITING."""
    asked: int
    """Replies of this round that could not be read. CONTROLLER; 0 again by MEMORY_READING."""
    complaint: str
    """What is wrong with the last one. CONTROLLER, MEMORY_READING."""
    branch_node: str
    """The node of the chosen branch; empty while none is chosen. CONTROLLER."""
    call: dict[str, Any] | None
    """The branch under way, as `PendingCall.json`. CONTROLLER, EXECUTOR."""
    outcome: dict[str, Any] | None
    """The outcome: {branch, kind, arguments, result, summary}, `said` of an answer, `approved` by a person.

    The branches."""
    records: Records
    """The outcome of every round, with its `round` and `trace_id`. MEMORY_WRITING."""
    tool_calls: int
    """How many tools ran. EXECUTOR."""
    early_exit: dict[str, Any] | None
    """{EARLY_EXIT, result, summary, status, by_user} once the flow has to end, with what was `streamed` of its result,
    and whether that was `truncated`. Any node; looked at after every node."""
    usage: dict[str, Any]
    """CONTROLLER, the branches."""
    result: Any
    summary: str
    status: str
    """FINISH, as the two above."""
    events: Events


FlowUpdate = FlowState
"""What a node returns: the channels that it changes."""
FlowNode = Node[FlowState, FlowUpdate]


# The branches of a controller: tools, graphs, and the built-in ones; and the node context of a flow.

_TEXT = {"type": "string"}
_STEP = object_schema("step_id", "description", step_id=_TEXT, description=_TEXT)
_UPDATE = object_schema("step_id", "status", step_id=_TEXT, status={"enum": [status.value for status in Status]})
PARAMETERS: Mapping[str, dict[str, Any]] = {
    "ask_user": object_schema("question", question=_TEXT, choices={"type": "array", "items": _TEXT}),
    "re_plan": object_schema("plan", plan={"type": "array", "items": _STEP, "minItems": 1}, reason=_TEXT),
    "update_plan": object_schema("updates", updates={"type": "array", "items": _UPDATE, "minItems": 1}),
    "intermediate_answer": object_schema("answer", answer=_TEXT),
    "final_answer": object_schema("answer", answer=_TEXT),
    "finish": object_schema("summary", summary=_TEXT, result={}),
    "manual_finish": object_schema(),
}
_NODES = {"ask_user": "ASK_USER", "re_plan": "PLAN", "update_plan": "PLAN", "intermediate_answer": "ANSWER"}
_GOAL = object_schema("goal", goal=_TEXT)
Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class Branch:
    """A branch as the controller sees it; `node` is where it runs."""

    name: str
    kind: str
    node: str
    description: str
    parameters: Mapping[str, Any]
    needs_approval: bool = False


def branches_of(config: FlowConfig, work: NodeContext, language: str = "en") -> dict[str, Branch]:
    """Every branch by its name: tools first, then graphs, flows and agents, then the built-in ones."""
    executor, tools = config.subflows_config.executor, tools_of(config, work)
    taken = {*executor.built_ins, *executor.branches}
    if twice := [name for name in tools if name in taken]:
        raise ConfigurationError(
            "The tool {tool} has the name of another branch of the flow {flow}: rename it, name the flow's "
            "`tools`, or leave the built-in branch out of its `built_ins`.",
            tool=twice[0],
            flow=config.name,
        )
    refer = is_hidden(tools.values())
    found = [_of_tool(tool, refer) for tool in tools.values()]
    found += [_of_graph(name, branch) for name, branch in executor.branches.items()]
    found += [_built_in(name, language) for name in executor.built_ins]
    return {branch.name: branch for branch in found}


def tools_of(config: FlowConfig, work: NodeContext) -> Mapping[str, Tool]:
    """The tools that are branches."""
    given = config.subflows_config.executor.tools
    if given is None:
        return work.tools
    named = {name: work.tools[name] for name in given if isinstance(name, str) and name in work.tools}
    return {**named, **_resolved(tuple(tool for tool in given if not (isinstance(tool, str) and tool in named)))}


@cache
def _resolved(given: tuple[Any, ...]) -> Mapping[str, Tool]:
    return BUILTIN.resolve(given)


def _of_tool(tool: Tool, refer: bool) -> Branch:
    """The branch of a tool; `refer`: its arguments may be references to results."""
    function = tool.spec["function"]
    about = " ".join(str(function.get("description", "")).split())
    schema = plain_schema(function["parameters"], (*NOISE, "title"))
    parameters = or_references(schema) if refer else schema
    return Branch(tool.name, "tool", "EXECUTOR", about, parameters, tool.needs_approval)


def _of_graph(name: str, branch: BranchConfig) -> Branch:
    kind = "agent" if branch.agent else "flow" if branch.flow else "graph"
    described = branch.description or (branch.flow.description if isinstance(branch.flow, FlowConfig) else "")
    return Branch(name, kind, name, described, branch.parameters or _GOAL)


def input_names(graph: Graph) -> Collection[str]:
    """The fields of a graph's input."""
    return graph.builder.schemas[graph.builder.input_schema]


def parameters_of(name: str, graph: Graph) -> dict[str, Any]:
    """The JSON schema of what a branch's graph is given: a goal for one with messages, else what its input declares."""
    if {"messages", "goal"} & {*input_names(graph)}:
        return _GOAL
    try:
        schema: dict[str, Any] = plain_schema(_input_schema(graph.builder.input_schema, graph), (*NOISE, "title"))
        return schema
    except (PydanticUserError, NameError) as error:
        raise ConfigurationError(
            "The input of the graph of the branch '{name}' has no JSON schema ({error}): give the branch `parameters`.",
            name=name,
            error=str(error).partition("\n")[0],
        ) from error


def _input_schema(kind: type, graph: Graph) -> dict[str, Any]:
    """The schema of the input; of a `typing.TypedDict` too, which pydantic does not take before Python 3.12."""
    if not is_typeddict(kind):
        return graph.get_input_jsonschema()
    hints, required = get_type_hints(kind, include_extras=True), getattr(kind, "__required_keys__", ())
    fields = {name: _field_schema(hint) for name, hint in hints.items()}
    return object_schema(*(name for name in fields if name in required), **fields)


def _field_schema(hint: Any) -> dict[str, Any]:
    """The schema of a field; anything where its type has none."""
    try:
        return TypeAdapter(hint).json_schema()
    except PydanticUserError:
        return {}


def _built_in(name: str, language: str) -> Branch:
    return Branch(name, "built_in", _NODES.get(name, ""), task_text(f"branch_{name}", language), PARAMETERS[name])


def flow_context(runtime: NodeRuntime, config: FlowConfig) -> NodeContext:
    """What a node works with: the agent is the controller's."""
    work, name = node_context(runtime), config.subflows_config.controller.agent
    return replace(work, agent=work.services.agent(name)) if name else work


def branch_context(state: FlowState, work: NodeContext, name: str, agent_id: str) -> AppContext:
    """The context of a branch's graph, which works on the task: its events name the round that it belongs to."""
    agent = work.services.agent(agent_id or work.agent.agent_id)
    read = [state["memory"]] if state.get("memory") else []
    branch, ledger = f"{state['branch']}.{name}", work.services.ledger
    services = nested_services(work.services, ledger, state, branch=branch, parent_id=state["trace_id"], read=read)
    own = {"agent": agent.agent_id, "model": "" if agent_id and agent.model is not None else work.context.model}
    return AppContext.carrying(services, **{**work.context.model_dump(), **own})


def ids_of(state: FlowState) -> dict[str, Any]:
    """What every event of this round carries."""
    return {"task_id": state["task_id"], "trace_id": state["trace_id"], "iteration": state["round"]}


# The hooks of a flow: the defaults, and calls of those that its configuration names.


async def finish_or_continue(
    config: FlowConfig, decision: ControllerDecision, state: FlowState
) -> EarlyExit | BranchInput:
    """What the flow's `detect_finish_or_continue` says; the default one ignores built-in branches that are left out."""
    left_out = {*BUILT_INS} - {*config.subflows_config.executor.built_ins}
    if config.finish_detector is None and decision.command in left_out:
        return BranchInput(decision.command, decision.command_args)
    hook = config.finish_detector or detect_finish_or_continue
    given = hook(decision, cast(Mapping[str, Any], state))
    found = await given if isawaitable(given) else given
    if isinstance(found, BranchInput):
        return found
    if isinstance(found, Mapping) and not found.get("EARLY_EXIT"):
        raise ConfigurationError(
            "The hook detect_finish_or_continue of the flow {flow} returned {found}: return a BranchInput, an "
            "EarlyExit, or a mapping with EARLY_EXIT.",
            flow=config.name,
            found=repr(found),
        )
    return early_exit(cast(EarlyExit, found))


async def at_max_round(config: FlowConfig, state: FlowState) -> EarlyExit:
    """What the flow's `on_reach_max_round` says, which is always unfinished."""
    hook: OnReachMaxRound = config.on_reach_max_round or on_reach_max_round
    given = hook(cast(Mapping[str, Any], state))
    end = early_exit(await given if isawaitable(given) else given)
    return replace(end, status="unfinished")  # the goal was not met, whatever the hook says


def detect_finish_or_continue(decision: ControllerDecision, state: Mapping[str, Any]) -> EarlyExit | BranchInput:
    """End the flow on the three commands that end it; any other is a branch."""
    args = decision.command_args
    match decision.command:
        case "final_answer":
            answer = str(args.get("answer", ""))
            return EarlyExit(answer, task_text("flow_answered", state["language"], answer=answer))
        case "finish":
            summary = str(args.get("summary", ""))
            return EarlyExit(args.get("result") or summary, summary)
        case "manual_finish":
            return manual_finish(state)
        case _:
            return BranchInput(decision.command, args)


def manual_finish(state: Mapping[str, Any]) -> EarlyExit:
    """The flow was ended by the person."""
    return replace(unfinished(state, task_text("flow_terminated", state["language"])), by_user=True)


def on_reach_max_round(state: Mapping[str, Any]) -> EarlyExit:
    """The flow was ended by its limit."""
    return unfinished(state, task_text("flow_max_round", state["language"], n=state["round"]))


def unfinished(state: Mapping[str, Any], why: str) -> EarlyExit:
    """An end before the goal was met, with what was done."""
    done = [f"- {record['summary']}" for record in state["records"][-_SHOWN:]]
    left_out = len(state["records"]) - len(done)
    shown = [*([f"- … ({left_out})"] if left_out > 0 else []), *done]
    nothing = task_text("nothing_found", state["language"])
    text = task_text("flow_unfinished", state["language"], why=why, done="\n".join(shown) or nothing)
    return EarlyExit(text, text, "unfinished")


_SHOWN = 20
"""Rounds that the summary of an unfinished flow lists."""


def exit_of(end: EarlyExit) -> dict[str, Any]:
    """The form in the state."""
    return {"EARLY_EXIT": True, **asdict(end)}


# CONTROLLER: one model call chooses the branch of the round, or ends the flow.


def controller(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Ask for a decision; a reply that cannot be read is asked for again with a hint on its form."""
        work = flow_context(runtime, config)
        added = await _add_steering(state, work)
        state = {**state, **added}
        branches = branches_of(config, work, state["language"])
        current = state
        asked = await ask_model(
            work,
            lambda within: request(config, current, within, branches),
            LiveDecision,
            state["usage"],
            ids_of(state),
            state["language"],
        )
        update: FlowUpdate = {"usage": asked.usage}
        cut = cut_answer(work, asked, state["language"])
        try:
            if cut:
                decision = ControllerDecision("final_answer", {"answer": cut})
            else:
                decision = _read_decision(asked.reply, state, work)
        except UnreadableReply as error:
            if asked.streamed:
                work.emit(AttemptRestarted(attempt=1, reason=RestartReason.UNREADABLE.value, **ids_of(state)))
            why = catalogue.error_text(error, state["language"])
            show_problem(why, work, state["language"], **ids_of(state))
            update |= _unreadable(why, asked, state)
            return joined(added, update)
        chosen = await finish_or_continue(config, decision, state)
        update |= _chosen(chosen, decision, asked, state, branches)
        branch = branches.get(chosen.branch) if isinstance(chosen, BranchInput) else None
        if isinstance(chosen, BranchInput) and branch and branch.kind != "tool":
            ids = {**ids_of(state), "language": state["language"]}
            show_choice("branch", branch.name, chosen.arguments, work, **ids)
        return joined(added, update)

    return node


async def _add_steering(state: FlowState, work: NodeContext) -> FlowUpdate:
    """What a person added to the task since the last look."""
    fresh = [*(await work.services.notes(state["task_id"]))][len(state["added"]) :]
    if not fresh:
        return {}
    added = [*state["added"], *fresh]
    events = announce(NotesTaken(count=len(added), **ids_of(state)))
    return {"added": added, "objective": "\n".join([state["objective"], *fresh]), "events": events}


def _read_decision(reply: ModelReply, state: FlowState, work: NodeContext) -> ControllerDecision:
    """The decision in a reply."""
    refuse_unreadable(reply)
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit: write a shorter one.")
    refuse_quotation(reply.text, (record["result"] for record in state["records"]), work.services.renderings)
    envelope = read_object(reply.text, "decision", "command")
    inner = envelope.get("decision")
    given: dict[str, Any] = inner if isinstance(inner, dict) else envelope
    command = given.get("command")
    if not isinstance(command, str) or not command.strip():
        raise UnreadableReply('The reply has no "command": write the name of one branch.')
    thought, step_id = (str(envelope.get(name) or "") for name in ("thought", "step_id"))
    return ControllerDecision(call_name(command), _arguments(given.get("command_args")), thought, step_id)


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str) and given.strip():
        given = read_object(given)
        check_storable(given)
    if given in (None, ""):
        return {}
    if not isinstance(given, dict):
        raise UnreadableReply('"command_args" is not a JSON object.')
    return given


def _unreadable(why: str, asked: CompletedCall, state: FlowState) -> FlowUpdate:
    """The hint for the next try; after the last one the flow ends unfinished."""
    tries, error = state["asked"] + 1, ErrorRaised(message=why, **ids_of(state))
    update: FlowUpdate = {"asked": tries, "complaint": why, "events": announce(asked.event, error)}
    if tries < MOST_ASKS:
        return update
    reason = task_text("spent_unreadable", state["language"], n=tries, error=why.rstrip(" .。"))
    return {**update, "early_exit": exit_of(unfinished(state, reason))}


def _chosen(
    chosen: EarlyExit | BranchInput,
    decision: ControllerDecision,
    asked: CompletedCall,
    state: FlowState,
    branches: dict[str, Branch],
) -> FlowUpdate:
    ids = ids_of(state)
    events: list[Durable] = [asked.event]
    if decision.thought:
        events.append(Thought(text=decision.thought, **ids))
    if isinstance(chosen, EarlyExit):
        start = BranchStart(branch=decision.command, kind="built_in", arguments={**decision.command_args}, **ids)
        end = exit_of(chosen) | {"streamed": asked.streamed, "truncated": asked.reply.finish_reason == "length"}
        return {"early_exit": end, "events": announce(*events, start)}
    branch = branches.get(chosen.branch)
    built_in = branch is not None and branch.kind == "built_in"
    old = tuple(Step(**step) for step in state["steps"])
    call = _call(chosen, old, "" if built_in else decision.step_id, state)
    steps = old if built_in else begin_steps(old, [call.step_id])
    events += step_events(old, steps, ids)
    if branch is None or branch.kind == "tool":
        events += call_events([call], branch is not None and branch.needs_approval, ids)
    else:
        start = BranchStart(branch=branch.name, kind=branch.kind, arguments=call.arguments, step_id=call.step_id, **ids)
        events.append(start)
    return {
        "branch_node": (branch and branch.node) or "EXECUTOR",
        "call": call.json(),
        "complaint": "",
        "steps": [step.model_dump(mode="json") for step in steps],
        "events": announce(*events),
    }


def _call(chosen: BranchInput, steps: tuple[Step, ...], named: str, state: FlowState) -> PendingCall:
    """The branch as a call, with the step of the plan that it works on."""
    arguments, trace_id = {**chosen.arguments}, state["trace_id"]
    (step_id,) = steps_of_calls([(chosen.branch, arguments)], steps, named)
    return PendingCall(
        index=0, name=chosen.branch, arguments=arguments, scope=trace_id, origin=f"{trace_id}/0", step_id=step_id
    )


def branch_under_way(state: FlowState) -> PendingCall:
    """The branch that was chosen."""
    call = state["call"]
    assert call is not None
    return PendingCall.of(call)


_COMMANDS = {("command",), ("decision", "command")}
_ANSWERS = {("command_args", "answer"), ("decision", "command_args", "answer")}


class LiveDecision(Listener):
    """Streams the thought of a decision, and the answer of one that answers."""

    def __init__(self, live: LiveReply) -> None:
        super().__init__(live)
        self.restart()

    def restart(self) -> None:
        self._strings = JsonStrings()
        self._command = ""

    def text(self, piece: str) -> None:
        for path, added in self._strings.feed(piece):
            if path == ("thought",):
                self._live.thinking(added)
            elif path in _COMMANDS:
                self._command += added
            elif path in _ANSWERS and self._command in ("final_answer", "intermediate_answer"):
                self._live.token(added)


LEAST_CHARS = 60
"""A description or a result is not made shorter than this."""


def request(config: FlowConfig, state: FlowState, work: NodeContext, branches: Mapping[str, Branch]) -> ModelRequest:
    """[0] the system prompt with the state, [1] the goal."""
    most = work.agent.budget.prompt_tokens
    bare = _system(config, state, work, branches, "", "")
    files = state.get("attachments", [])
    asked = tokens(state["objective"]) + size_of(files, work)
    room = max(most // 8, most - tokens(bare) - asked - _MARGIN)
    memory = newest_part(_memory(state), room // 2)
    shown = _state(config, state, work, room - tokens(memory))
    return ModelRequest(
        purpose="decide",
        messages=[
            SystemMessage(_system(config, state, work, branches, memory, shown)),
            HumanMessage(state["objective"], additional_kwargs=naming(files)),
        ],
        schema=decision_schema(branches),
        tools=[tool.spec for tool in tools_of(config, work).values()],
    )


_MARGIN = 20


def _memory(state: FlowState) -> str:
    """What was read of the memory files; where they cannot be read, the logs of this flow."""
    read = state["memory"] or "\n".join(f"- {record['summary']}" for record in state["records"])
    return "\n\n".join(part for part in (state["before"], read) if part)


def newest_part(text: str, most: int) -> str:
    """The end of a text, at most so many tokens of it, from the beginning of a line on."""
    lines = text.splitlines()
    used, first = 0, len(lines)
    while first and (used := used + tokens(lines[first - 1]) + 1) <= most:
        first -= 1
    return "\n".join(lines[first:])


def _state(config: FlowConfig, state: FlowState, work: NodeContext, room: int) -> str:
    """The live state as JSON: round, plan, results, and what is wrong."""
    fixed: dict[str, Any] = {"conversation": [], "round": state["round"], "max_round": config.max_round}
    wrong = {"problem": state["complaint"], "memory_error": state["memory_error"]}
    fixed |= {name: text[: room // 2] for name, text in wrong.items() if text}
    fixed["plan"] = _plan(state["steps"], room // 3)
    left = room - tokens(as_json(fixed))
    records = state["records"][-1:] if config.controller_entry.reset else state["records"]
    results = _results(records, work.agent.budget.result_chars, left, state["objective"])
    return as_json(_describe_state(config, {**fixed, "results": results}))


def _describe_state(config: FlowConfig, known: dict[str, Any]) -> Mapping[str, Any]:
    """What the controller's `input_interface` makes of the state."""
    interface = config.controller_entry.input_interface
    shown = interface(known) if interface else known
    if not isinstance(shown, Mapping):
        raise ConfigurationError(
            "The input_interface of the flow {flow} returned {found}: return the state to show, a mapping.",
            flow=config.name,
            found=repr(shown),
        )
    return shown


def _plan(steps: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """The steps, their descriptions shortened until all of them fit; what does not fit then is left out."""
    chars = 1_000
    while True:
        shown = [_step(step, chars) for step in steps]
        if chars <= LEAST_CHARS or tokens(as_json(shown)) <= most:
            break
        chars //= 2
    while shown and tokens(as_json(shown)) > most:
        shown.pop()
    return shown


def _step(step: Mapping[str, Any], chars: int) -> dict[str, Any]:
    names = ("step_id", "description", "status", "note", "action", "params")
    kept = {name: step[name] for name in names if step.get(name)}
    return {name: value[:chars] if isinstance(value, str) else value for name, value in kept.items()}


def _results(records: Sequence[Mapping[str, Any]], most_chars: int, most: int, request: str) -> list[dict[str, Any]]:
    """The results of the latest rounds, oldest first: as many as fit, the last one at any rate."""
    shown: list[dict[str, Any]] = []
    for record in reversed(records):
        chars = most_chars
        while True:
            entry = _entry(record, chars, request)
            fits = tokens(as_json([entry, *shown])) <= most
            if fits or shown or chars <= LEAST_CHARS:
                break
            chars //= 2
        if not fits:
            return shown
        shown.insert(0, entry)
    return shown


def _entry(record: Mapping[str, Any], chars: int, request: str) -> dict[str, Any]:
    arguments = record["arguments"]
    if len(text := as_json(arguments)) > chars:
        arguments = {"…": text[:chars]}
    about = {"round": record["round"], "name": record["branch"], "arguments": arguments}
    return {**about, "result": truncate_result(record["result"], chars, request=request)}


def _system(
    config: FlowConfig, state: FlowState, work: NodeContext, branches: Mapping[str, Branch], memory: str, shown: str
) -> str:
    language = state["language"]
    listed = "\n".join(_line(branch) for branch in branches.values())
    own = agent_prompt(work.agent, language, state["objective"], current_state=shown, tools=listed)
    return render("controller", language, agent_prompt=own, branches=listed, memory=memory, current_state=shown)


def _line(branch: Branch) -> str:
    properties = branch.parameters.get("properties", {})
    required = branch.parameters.get("required", [])
    return f"- `{branch.name}` {as_json(properties)} required: {as_json(required)}: {branch.description}"


def decision_schema(branches: Mapping[str, Branch]) -> dict[str, Any]:
    """The JSON schema of a decision: one arm a branch."""
    arms = [
        object_schema("command", "command_args", command={"const": b.name}, command_args={**b.parameters})
        for b in branches.values()
    ]
    return object_schema("thought", "step_id", "decision", thought=_TEXT, step_id=_TEXT, decision={"anyOf": arms})


# The outcome of a branch, for the controller and for the logs.

ARGUMENT_CHARS = 300
RESULT_CHARS = 700
"""Characters of arguments and of a result in a summary."""
MOST_INLINE = 100
"""Characters of arguments or a result that stay on a line of the log."""


def outcome_of(
    branch: str,
    kind: str,
    arguments: Mapping[str, Any],
    result: Mapping[str, Any],
    state: FlowState,
    summary: str = "",
) -> dict[str, Any]:
    """{branch, kind, arguments, result, summary}; the summary is written here where the branch has none."""
    text = summary or summary_of(branch, arguments, result, state["language"])
    return {"branch": branch, "kind": kind, "arguments": {**arguments}, "result": {**result}, "summary": text}


def rounds_of(state: FlowState) -> list[list[dict[str, Any]]]:
    """The outcome of each round as those of a call, oldest first."""
    return [[{**record, "name": record["branch"]}] for record in state["records"]]


def summary_of(branch: str, arguments: Mapping[str, Any], result: Mapping[str, Any], language: str) -> str:
    """A line on what was done and what came of it."""
    shown = truncate(as_text(CallResult.of(result).content), RESULT_CHARS)
    given = truncate(as_json(arguments), ARGUMENT_CHARS)
    return task_text(_text_of(result), language, branch=branch, arguments=given, result=shown)


def log_of(outcome: Mapping[str, Any], language: str) -> str:
    """What a round leaves in its memory file: of a tool, the arguments and the result as people read them."""
    if outcome["kind"] != "tool":
        return str(outcome["summary"])
    result = _render_value(CallResult.of(outcome["result"]).content, RESULT_CHARS)
    parts = {"arguments": _render_value(outcome["arguments"], ARGUMENT_CHARS), "result": result}
    line = task_text(
        _text_of(outcome["result"]), language, branch=outcome["branch"], arguments="{arguments}", result="{result}"
    )
    return re.sub(r"( ?)\{(\w+)\}( ?)", lambda slot: _placed(parts[slot[2]], slot[1], slot[3]), line).strip()


def _text_of(result: Mapping[str, Any]) -> str:
    return "flow_success" if CallResult.of(result).success else "flow_error"


def _placed(text: str, before: str, after: str) -> str:
    """A text of several lines is a paragraph of its own."""
    return f"\n\n{text}\n\n" if "\n" in text else f"{before}{text}{after}"


def _render_value(value: Any, most: int) -> str:
    """A short value as it is; else a list of its fields, with texts of several lines as they are."""
    text = as_text(value)
    if not isinstance(value, Mapping) or (len(text) <= MOST_INLINE and "\\n" not in text):
        return _fenced(truncate(text, most)) if "\n" in text else truncate(text, most)
    return "\n".join(_field(name, each, most) for name, each in value.items()).strip()


def _field(name: str, value: Any, most: int) -> str:
    text = truncate(as_text(value), most)
    return f"- {name}:\n\n{_fenced(text)}\n" if "\n" in text.strip() else f"- {name}: {text.strip()}"


def _fenced(text: str) -> str:
    """The text between fences that are longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`{3,}", text)), default=0))
    body = text.strip("\n")
    return f"{fence}\n{body}\n{fence}"


# MEMORY_READING: a round begins with what the memory files say, if a round is left.


def memory_reading(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Number the round and read what is recent and relevant; at the last round the flow's hook ends it."""
        work = flow_context(runtime, config)
        if config.max_round is not None and state["round"] >= config.max_round:
            return {"early_exit": exit_of(await at_max_round(config, state))}
        if work.seconds_since(state["started_at"]) > work.agent.budget.seconds:
            why = task_text("spent_seconds", state["language"], n=f"{work.agent.budget.seconds:g}")
            return {"early_exit": exit_of(unfinished(state, why))}
        if why := repeated_failure(rounds_of(state), branches_of(config, work), state["language"]):
            return {"early_exit": exit_of(unfinished(state, why))}
        begun: FlowUpdate = {
            "round": state["round"] + 1,
            "trace_id": work.services.ids.trace(),
            "asked": 0,
            "complaint": "",
            "branch_node": "",
            "call": None,
            "outcome": None,
        }
        ids = ids_of({**state, **begun})
        about = {"flow": config.name, "i": begun["round"], "n": config.max_round or "∞"}
        work.emit(Phase(task_id=state["task_id"], content=task_text("flow_round", state["language"], **about)))
        memory, error = await _read_memory(config, state, work)
        start = RoundStart(flow=config.name, max_round=config.max_round or 0, **ids)
        failed = [ErrorRaised(message=error, **ids)] if error else []
        begun["memory"] = memory
        begun["memory_error"] = error or state["memory_error"]
        return {**begun, "events": announce(start, *failed)}

    return node


async def _read_memory(config: FlowConfig, state: FlowState, work: NodeContext) -> tuple[str, str]:
    """What the files say within the budget, or why they cannot be read."""
    if not config.reads_memory:
        return "", ""
    reading = config.subflows_config.memory_reading
    names = state["files"] if reading.files is None else reading.files
    most = reading.tokens or work.agent.budget.prompt_tokens // 4
    memory, paths, needed = work.services.memory, [state["files"][name] for name in names], state.get("needed", ())
    try:
        missing = await memory.missing(needed) if needed else ()
        text = await memory.read(paths, state["objective"], most)
    except MemoryUnavailable as error:
        return "", error_text(error, state["language"])
    return text, task_text("memory_missing", state["language"], names=listed(missing)) if missing else ""


# MEMORY_WRITING: the round's summary goes into the logs and into the memory file.


def memory_writing(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Write once, also after a crash: the entry's key is the round's. The controller sees an error."""
        outcome = state["outcome"] or {}
        record = {**outcome, "round": state["round"], "trace_id": state["trace_id"]}
        branch, text = outcome["branch"], log_of(outcome, state["language"])
        work, ids = node_context(runtime), {**ids_of(state), "language": state["language"]}
        if outcome["kind"] != "tool":
            show_outcome("branch", branch, CallResult.of(outcome["result"]), work, **ids)
        if error := await append_entry(config, state, work, branch, text, state["trace_id"]):
            show_problem(error, work, **ids)
        failed = announce(ErrorRaised(message=error, **ids_of(state))) if error else []
        return {"records": [record], "outcome": None, "memory_error": error, "events": failed}

    return node


async def append_entry(
    config: FlowConfig, state: FlowState, work: NodeContext, branch: str, text: str, key: str
) -> str:
    """Append an entry to the flow's memory file; returns why it could not be written."""
    if not config.writes_memory:
        return ""
    path = state["files"][config.subflows_config.memory_writing.name]
    about: dict[str, Any] = {"task_id": state["task_id"], "round": state["round"], "created_at": work.services.clock()}
    try:
        await work.services.memory.append(path, MemoryEntry(key=key, branch=branch, text=text, **about))
    except MemoryUnavailable as error:
        return error_text(error, state["language"])
    return ""


# PLAN: rewrite the plan or mark its steps; the text of a step that stays is never the model's copy of it.

Steps = tuple[Step, ...]


class Refused(Exception):
    """The plan stays as it is; the message says why."""


async def plan(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
    """Carry out `re_plan` or `update_plan`; what does not fit is the controller's error."""
    call = branch_under_way(state)
    old = tuple(Step(**step) for step in state["steps"])
    try:
        new = (
            _re_planned(old, call.arguments, state)
            if call.name == "re_plan"
            else _updated(old, call.arguments, state["language"])
        )
        result: dict[str, Any] = {"success": [f"{step.step_id} {step.status}: {step.description}" for step in new]}
    except Refused as why:
        new, result = old, {"error": str(why)}
    outcome = outcome_of(call.name, "built_in", call.arguments, result, state)
    about = {name: outcome[name] for name in ("branch", "kind", "result", "summary")}
    return {
        "call": None,
        "steps": [step.model_dump(mode="json") for step in new],
        "outcome": outcome,
        "events": announce(*_moves(call.name, old, new, state), BranchEnd(**about, **ids_of(state))),
    }


def _re_planned(old: Steps, arguments: Mapping[str, Any], state: FlowState) -> Steps:
    """The new plan behind what is finished of the old one."""
    try:
        drafted = tuple(
            step.model_copy(update={"status": Status.PENDING}) for step in read_steps(arguments.get("plan"))
        )
        merged = keep_finished(old, drafted)
        validate(Plan(goal=state["objective"], steps=merged))
    except (UnreadableReply, InvalidPlan) as error:
        raise Refused(error_text(error, state["language"])) from error
    return merged


def _updated(old: Steps, arguments: Mapping[str, Any], language: str) -> Steps:
    """The plan with new statuses; ids and texts stay."""
    given = arguments.get("updates")
    if not isinstance(given, list) or not given:
        raise Refused(task_text("updates_needed", language, form='"updates": [{"step_id", "status"}]'))
    ids = [step.step_id for step in old]
    try:
        claims = [StepStatusUpdate.model_validate(item) for item in given]
        if unknown := [claim.step_id for claim in claims if claim.step_id not in ids]:
            raise Refused(task_text("no_such_step", language, step=repr(unknown[0]), known=listed(ids)))
        return claim_steps(old, claims)
    except ValidationError as error:
        raise Refused(task_text("status_not_changed", language, error=error)) from error
    except IllegalTransition as error:
        raise Refused(task_text("status_not_changed", language, error=error_text(error, language))) from error


def _moves(command: str, old: Steps, new: Steps, state: FlowState) -> list[PlanUpdate | StepUpdate]:
    ids = ids_of(state)
    if new == old:
        return []
    if command == "re_plan":
        steps = [step.model_dump(mode="json") for step in new]
        return [PlanUpdate(goal=state["objective"], steps=steps, **ids)]
    return [*step_events(old, new, ids)]
