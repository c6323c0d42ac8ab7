"""CONTROLLER: one model call chooses the branch of the round, or ends the flow."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.attachments import naming
from segue.core.calls import PendingCall
from segue.core.decision import call_name, check_storable, read_object
from segue.core.errors import ConfigurationError, UnreadableReply
from segue.core.events import AttemptRestarted, BranchStart, Durable, ErrorRaised, NotesTaken, RestartReason, Thought
from segue.core.flows import BranchInput, ControllerDecision, EarlyExit, FlowConfig
from segue.core.json_schema import object_schema
from segue.core.models import ModelReply, ModelRequest
from segue.core.plan import Step
from segue.core.prompt_size import tokens
from segue.prompts import errors
from segue.prompts.catalogue import phrase
from segue.prompts.load import agent_prompt, render

from ..shared.attached_files import size_of
from ..shared.call_runner import call_events
from ..shared.context import NodeContext, NodeRuntime, announce
from ..shared.live_reply import JsonStrings, Listener, LiveReply
from ..shared.model_call import CompletedCall, ask_model, refuse_quotation
from ..shared.plan_progress import begin_steps, step_events, steps_of_calls
from ..shared.prompt_budget import as_json, truncate_result
from ..shared.task import joined
from .branches import Branch, branches_of, flow_context, ids_of, tools_of
from .hooks import exit_of, finish_or_continue, unfinished
from .state import FlowNode, FlowState, FlowUpdate

MOST_ASKED = 3
"""How often a round's decision is asked for: once, and twice more with what is wrong with the reply."""


def controller(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Ask for a decision; a reply that cannot be read is asked for again with a hint on its form."""
        work = flow_context(runtime, config)
        added = await _add_steering(state, work)
        state = {**state, **added}
        branches = branches_of(config, work, state["language"])
        asking = request(config, state, work, branches)
        asked = await ask_model(work, asking, LiveDecision, state["usage"], ids_of(state), state["language"])
        update: FlowUpdate = {"usage": asked.usage}
        try:
            decision = _read(asked.reply, state, work)
        except UnreadableReply as error:
            if asked.streamed:
                work.emit(AttemptRestarted(attempt=1, reason=RestartReason.UNREADABLE.value, **ids_of(state)))
            update |= _unreadable(errors.render(error, state["language"]), asked, state)
            return joined(added, update)
        chosen = await finish_or_continue(config, decision, state)
        update |= _chosen(chosen, decision, asked, state, branches)
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


def _read(reply: ModelReply, state: FlowState, work: NodeContext) -> ControllerDecision:
    """The decision in a reply.

    Raises:
        UnreadableReply: it is none, it was truncated, or it quotes a result.
    """
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
    if tries < MOST_ASKED:
        return update
    reason = phrase("spent_unreadable", state["language"], n=tries)
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
        end = exit_of(chosen) | {"streamed": asked.streamed}
        return {"early_exit": end, "events": announce(*events, start)}
    branch = branches.get(chosen.branch)
    built_in = branch is not None and branch.kind == "built_in"
    old = tuple(Step(**step) for step in state["steps"])
    call = _call(chosen, old, "" if built_in else decision.step_id, state)
    steps = old if built_in else begin_steps(old, [call["step_id"]])
    events += step_events(old, steps, ids)
    if branch is None or branch.kind == "tool":
        events += call_events([call], branch is not None and branch.needs_approval, ids)
    else:
        start = BranchStart(
            branch=branch.name, kind=branch.kind, arguments=call["arguments"], step_id=call["step_id"], **ids
        )
        events.append(start)
    return {
        "branch_node": (branch and branch.node) or "EXECUTOR",
        "call": call,
        "complaint": "",
        "steps": [step.model_dump(mode="json") for step in steps],
        "events": announce(*events),
    }


def _call(chosen: BranchInput, steps: tuple[Step, ...], named: str, state: FlowState) -> PendingCall:
    """The branch as a call, with the step of the plan that it works on."""
    arguments, trace_id = {**chosen.arguments}, state["trace_id"]
    (step_id,) = steps_of_calls([(chosen.branch, arguments)], steps, named)
    return {
        "index": 0,
        "name": chosen.branch,
        "arguments": arguments,
        "scope": trace_id,
        "origin": f"{trace_id}/0",
        "step_id": step_id,
    }


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


_TEXT = {"type": "string"}
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
    return as_json(_shown(config, {**fixed, "results": _results(records, work.agent.budget.result_chars, left)}))


def _shown(config: FlowConfig, known: dict[str, Any]) -> Mapping[str, Any]:
    """What the controller's `input_interface` makes of the state.

    Raises:
        ConfigurationError: it returned something else than a mapping.
    """
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


def _results(records: Sequence[Mapping[str, Any]], most_chars: int, most: int) -> list[dict[str, Any]]:
    """The results of the latest rounds, oldest first: as many as fit, the last one at any rate."""
    shown: list[dict[str, Any]] = []
    for record in reversed(records):
        chars = most_chars
        while True:
            entry = _entry(record, chars)
            fits = tokens(as_json([entry, *shown])) <= most
            if fits or shown or chars <= LEAST_CHARS:
                break
            chars //= 2
        if not fits:
            return shown
        shown.insert(0, entry)
    return shown


def _entry(record: Mapping[str, Any], chars: int) -> dict[str, Any]:
    arguments = record["arguments"]
    if len(text := as_json(arguments)) > chars:
        arguments = {"…": text[:chars]}
    about = {"round": record["round"], "name": record["branch"], "arguments": arguments}
    return {**about, "result": truncate_result(record["result"], chars)}


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
