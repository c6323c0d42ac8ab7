"""The results of tool calls that `recall` opens: those of all turns of the session, and of this task's rounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage

from segue.core.calls import CallResult
from segue.core.records import Call
from segue.core.tools import CallKey, Ledger

from ..shared.prompt_budget import as_json, ref_of, truncate
from ..shared.tool_messages import recall_ref
from .state import ReactState

ARGUMENT_CHARS = 120


@dataclass(frozen=True)
class EarlierResult:
    """One call's result as the state kept it; `key` is its place in the ledger, which has the whole."""

    ref: str
    name: str
    arguments: Mapping[str, Any]
    key: CallKey
    outcome: Mapping[str, Any]

    @property
    def line(self) -> str:
        """How the list of results shows it."""
        state = "ok" if CallResult.of(self.outcome).success else "error"
        arguments = truncate(as_json(self.arguments), ARGUMENT_CHARS)
        return f"{self.ref} {self.name} {arguments} {state}, {len(text_of(self.outcome))} characters"


def text_of(outcome: Mapping[str, Any]) -> str:
    """A result's text, or its value as JSON."""
    result = CallResult.of(outcome)
    value = result.value if result.success else result.error
    return value if isinstance(value, str) else as_json(value)


async def earlier_results(state: ReactState, ledger: Ledger | None) -> dict[str, EarlierResult]:
    """All results by ref, oldest first; those of `recall` itself aside."""
    finished = await ledger.finished() if ledger else ()
    found = [*map(_of_call, finished), *_of_messages(state), *_of_records(state)]
    return {result.ref: result for result in found if result.name != "recall"}


def _of_call(call: Call) -> EarlierResult:
    key = CallKey(call.task_id, call.scope, call.idx)
    return EarlierResult(recall_ref(key), call.name, call.arguments, key, call.outcome or {})


def _of_messages(state: ReactState) -> list[EarlierResult]:
    calls: dict[str | None, Any] = {}
    found = []
    for message in state["messages"]:
        if isinstance(message, AIMessage):
            calls = {call["id"]: call for call in message.tool_calls}
        elif message.type == "tool" and (ref := ref_of(message)):
            call = calls.get(message.tool_call_id, {})
            outcome = {"error" if message.status == "error" else "success": message.text}
            key = CallKey(**message.additional_kwargs["key"])
            found.append(EarlierResult(ref, call.get("name", ""), call.get("args", {}), key, outcome))
    return found


def _of_records(state: ReactState) -> list[EarlierResult]:
    """A repair's calls are in the records alone."""
    return [
        EarlierResult(
            outcome["ref"],
            outcome["name"],
            outcome["arguments"],
            CallKey(state["task_id"], record["trace_id"], outcome["index"]),
            outcome["result"],
        )
        for record in state["records"]
        if record["trace_id"]  # what another mode did has its messages
        for outcome in record["results"]
    ]
