"""A round's tool calls and their results, as the thread's history keeps them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from segue.core.calls import UNKNOWN_OUTCOME, CallResult
from segue.core.tools import CallKey, Ledger

from .prompt_budget import KEPT_CHARS, as_text, ref_of, truncate_result


@dataclass(frozen=True)
class Settled:
    """A call that has its result; `key` is its place in the ledger, None for a control tool's."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    key: CallKey | None = None


def recall_ref(key: CallKey) -> str:
    """The name of a call's result for `recall`."""
    return f"{key.task_id[:8]}.{_short(key.scope)}.{key.index}"


def _short(scope: str) -> str:
    """The beginning of a recursion's uuid; a step's name whole."""
    return scope if "#" in scope else scope[:8]


def kept(result: dict[str, Any], key: CallKey, ledger: Ledger | None) -> dict[str, Any]:
    """What the state and the history keep of a result: all of it, unless the ledger has a very large one."""
    return result if ledger is None else truncate_result(result, KEPT_CHARS, recall_ref(key))


def exchange(thought: str, calls: Sequence[Settled]) -> list[AnyMessage]:
    """One assistant message with all the calls, then one tool message a call."""
    made = [
        {"id": call.call_id, "name": call.name, "args": dict(call.arguments), "type": "tool_call"} for call in calls
    ]
    return [AIMessage(thought, tool_calls=made), *(_result(call) for call in calls)]


def _result(call: Settled) -> ToolMessage:
    result = CallResult.of(call.result)
    about: dict[str, Any] = {"ref": recall_ref(call.key), "key": asdict(call.key)} if call.key else {}
    if result.unknown:
        about[UNKNOWN_OUTCOME] = True
    text = as_text(result.content)
    return ToolMessage(
        f"{text}\n\n{result.note}" if result.note else text,
        tool_call_id=call.call_id,
        status="success" if result.success else "error",
        additional_kwargs=about,
    )


def calls_in(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """The calls that messages hold, with their results: {name, arguments, result, ref}."""
    made = [(call["name"], call["args"]) for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return [
        {
            "name": name,
            "arguments": arguments,
            "result": {"error" if message.status == "error" else "success": message.text},
            "ref": ref_of(message),
        }
        for (name, arguments), message in zip(made, results, strict=False)
    ]
