"""The native protocol: a static system message, the thread's own messages, and last what they do not say of the state.

The messages before the state only grow, so that a prompt begins as the one before it did and providers' caches hit.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import TypeAdapter, ValidationError

from segue.core.decision import (
    ActionType,
    Decision,
    RequestedCall,
    StepStatusUpdate,
    call_name,
    check_storable,
    read_steps,
)
from segue.core.errors import UnreadableReply
from segue.core.models import ModelReply, ModelRequest, RawCall
from segue.core.tools import Tool
from segue.prompts.load import agent_prompt, render

from ..shared.attached_files import size_of
from ..shared.context import NodeContext
from ..shared.history_window import Exchange, latest, shown_text, split
from ..shared.prompt_budget import as_json, ref_of, tokens
from ..shared.task import attachments_of
from ..shared.tool_schemas import CONTROL_TOOLS, specs_of
from .prompt_state import LINE_CHARS, available_tools, current_state, has_truncated, offered, with_refs
from .state import ReactState

FEW = 3
"""The state mentions the remaining rounds or calls from this number down."""


def request(state: ReactState, work: NodeContext) -> ModelRequest:
    """The prompt and the bound tools; where there is something to say of the state, it comes last."""
    budget, tools = work.agent.budget, offered(available_tools(state, work), work)
    system = render(
        "native", state["language"], agent_prompt=agent_prompt(work.agent, state["language"], state["objective"])
    )
    specs = _specs(tools, state, work)
    fixed = tokens(system) + tokens(as_json(specs)) + size_of(attachments_of(state["messages"]), work)
    most = max(budget.prompt_tokens // 4, budget.prompt_tokens * 3 // 4 - fixed)
    left_out, kept = split(state["messages"], most, budget.result_chars, files=False)
    shown = latest(left_out, kept)
    live = _live(state, work, map(_line, reversed(left_out)))
    if not left_out and not has_truncated(shown, budget.result_chars):
        specs = _specs(offered(work.tools, work), state, work)
    messages: list[BaseMessage] = [
        SystemMessage(system),
        *(_shown(message, budget.result_chars) for message in shown),
        *([HumanMessage(render("native_state", state["language"], current_state=as_json(live)))] if live else []),
    ]
    choice = work.services.reply_options.required_tool
    return ModelRequest(purpose="decide", messages=messages, tools=specs, native=True, tool_choice=choice)


def _specs(tools: Mapping[str, Tool], state: ReactState, work: NodeContext) -> list[Mapping[str, Any]]:
    """The tools and what of `plan` and `remend` makes sense now: both go with every request."""
    own = specs_of(tools)
    if not work.tools or work.services.reply_options.required_tool:
        return own
    failed = any(record["error"] for record in state["records"])
    begins = not any(record["results"] for record in state["records"])
    names = [*(["plan"] if state["plan"] or failed or begins else []), *(["remend"] if failed else [])]
    return [*own, *(CONTROL_TOOLS[name] for name in names)]


def _live(state: ReactState, work: NodeContext, memory: Iterable[str]) -> dict[str, Any]:
    """What of the snapshot the messages do not say; empty where they say everything."""
    snapshot = current_state(state, work, memory, ())
    counted, context, last = snapshot["global"], snapshot["context"], snapshot["last_recursion"]
    limits = {name: counted[name] for name in ("iteration", "max_iteration")}
    shown = {name: context[name] for name in ("plan", "memory") if context[name]}
    if context["constraints"]["tool_calls_left"] <= FEW:
        shown["constraints"] = context["constraints"]
    live = {"context": shown} if shown else {}
    if last["failed"] or "edited_by_user" in last:
        live["last_recursion"] = {name: value for name, value in last.items() if name != "trace_id"}
    near = limits["max_iteration"] - limits["iteration"] < FEW
    return {"global": limits, **live} if live or near else {}


def _shown(message: AnyMessage, result_chars: int) -> AnyMessage:
    shown = shown_text(message, result_chars) if message.type == "tool" else message.content
    return message if shown == message.content else message.model_copy(update={"content": shown})


def _line(unit: Exchange) -> str:
    first = unit[0]
    if isinstance(first, AIMessage) and first.tool_calls:
        names = ", ".join(call["name"] for call in first.tool_calls)
        line = f"called {names}: {' | '.join(m.text for m in unit[1:])}"[:LINE_CHARS]
        return with_refs(line, [ref_of(m) for m in unit[1:] if ref_of(m)])
    return f"{'user' if first.type == 'human' else 'assistant'}: {first.text}"[:LINE_CHARS]


def read(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision:
    """Tool calls are CALL_TOOL, the control tools PLAN and REMEND, text beside calls the thought, mere text ANSWER.

    Raises:
        UnreadableReply: the reply is empty or truncated, a call has no name, or its arguments are not a JSON object;
            nothing is run.
    """
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit and nothing was run: write a shorter one.")
    calls = [replace(call, name=call_name(call.name)) for call in reply.tool_calls]
    if not calls:
        if not reply.text.strip():
            raise UnreadableReply("The reply is empty: call a tool, or answer.")
        return Decision(action_type=ActionType.ANSWER, answer=reply.text)
    control = [call for call in calls if call.name in CONTROL_TOOLS]
    if not control:
        requested = tuple(_requested(call) for call in calls)
        return Decision(thought=reply.text, action_type=ActionType.CALL_TOOL, tool_calls=requested)
    if len(calls) > 1:
        raise UnreadableReply("Call {name} alone: nothing of this reply was run.", name=control[0].name)
    return _control(reply.text, control[0])


def _arguments(call: RawCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
        check_storable(arguments)
    except (ValueError, RecursionError) as error:
        raise UnreadableReply(
            "The arguments of {name} are not valid JSON, so nothing was run: {error}.", name=call.name, error=error
        ) from error
    if not isinstance(arguments, dict):
        raise UnreadableReply("The arguments of {name} are not a JSON object, so nothing was run.", name=call.name)
    return arguments


def _requested(call: RawCall) -> RequestedCall:
    return RequestedCall(name=call.name, arguments=_arguments(call), call_id=call.id)


def _control(thought: str, call: RawCall) -> Decision:
    arguments = _arguments(call)
    steps = read_steps(arguments["plan"]) if arguments.get("plan") else ()
    if call.name == "plan":
        updates = _updates(arguments.get("step_status_update") or ())
        return Decision(
            thought=thought,
            action_type=ActionType.PLAN,
            plan=steps or (() if updates else read_steps(None)),
            notes=str(arguments.get("notes") or ""),
            step_status_update=updates,
            control_id=call.id,
        )
    return Decision(
        thought=thought,
        action_type=ActionType.REMEND,
        diagnosis=str(arguments.get("diagnosis") or ""),
        tool_calls=_repairs(arguments.get("tool_calls") or []),
        plan=steps,
        step_id=str(arguments.get("step_id") or ""),
        control_id=call.id,
    )


def _updates(given: object) -> tuple[StepStatusUpdate, ...]:
    try:
        return TypeAdapter(tuple[StepStatusUpdate, ...]).validate_python(given)
    except ValidationError as error:
        raise UnreadableReply(
            "The step_status_update needs the form {form}.", form='[{"step_id", "status"}]'
        ) from error


def _repairs(given: object) -> tuple[RequestedCall, ...]:
    if not isinstance(given, list) or not all(_is_call(item) for item in given):
        raise UnreadableReply("The tool_calls of remend need the form {form}.", form='[{"name", "arguments": {…}}]')
    found = [(call_name(item["name"]), item.get("arguments") or {}) for item in given]
    return tuple(
        RequestedCall(name=name, arguments=_arguments(RawCall("", name, a)) if isinstance(a, str) else a)
        for name, a in found
    )


def _is_call(item: object) -> bool:
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
        return False
    return isinstance(item.get("arguments") or {}, dict | str)
