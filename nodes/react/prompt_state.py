"""The live state in a round's prompt, the tools that the model may call, and the results that `recall` opens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from segue.core.calls import HIDDEN, CallResult
from segue.core.records import Call
from segue.core.tools import RECALL, CallKey, Ledger, Tool
from segue.prompts.catalogue import phrase
from segue.tools.builtin import recall_tool

from ..shared.context import NodeContext
from ..shared.hidden_results import seen_outcome
from ..shared.history_window import left_out_results
from ..shared.prompt_budget import KEPT_CHARS, as_json, as_text, ref_of, tokens, truncate
from ..shared.tool_messages import recall_ref
from .state import ReactState

LINE_CHARS = 160
MEMORY_SHARE = 8
"""One part in so many of the prompt's budget goes to lines of what no longer fits whole."""


def current_state(
    state: ReactState, work: NodeContext, memory: Iterable[str], conversation: Sequence[Any]
) -> dict[str, Any]:
    """The snapshot.

    `memory` gives a line for each round that no longer fits whole, newest first; `conversation` has the earlier turns.
    """
    budget = work.agent.budget
    return {
        "global": {
            "task_id": state["task_id"],
            "iteration": state["iteration"],
            "max_iteration": work.agent.max_iteration,
            "status": "running",
        },
        "current_recursion": {"trace_id": state["trace_id"]},
        "context": {
            "objective": state["objective"],
            "constraints": {"tool_calls_left": budget.tool_calls - state["tool_calls"]},
            "plan": [_step(step) for step in state["plan"]],
            "memory": _newest(memory, budget.prompt_tokens // MEMORY_SHARE),
            "conversation": list(conversation),
        },
        "last_recursion": _last(state, budget.result_chars),
    }


def _newest(lines: Iterable[str], most_tokens: int) -> list[str]:
    """The lines that fit, oldest first."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += tokens(line)
        if used > most_tokens:
            break
        kept.append(line)
    return kept[::-1]


def _step(step: dict[str, Any]) -> dict[str, Any]:
    shown = ("step_id", "description", "status", "note", "action", "params")
    return {name: step[name] for name in shown if step.get(name)}


def _last(state: ReactState, result_chars: int) -> dict[str, Any]:
    if not state["records"]:
        return {"failed": False, "note": phrase("first_round", state["language"])}
    record = state["records"][-1]
    kept = {name: record[name] for name in ("trace_id", "iteration", "action_type")}
    edited = [o for o in record["results"] if "original" in o]
    if edited:
        kept["edited_by_user"] = [
            {"name": o["name"], "original_arguments": truncate(as_json(o["original"]), result_chars)} for o in edited
        ]
    if not record.get("error"):
        return {**kept, "failed": False}
    return {**kept, "failed": True, "error_log": truncate(record["error"], result_chars)}


def line_of(record: dict[str, Any]) -> str:
    """A record in one line, with the refs of its results."""
    outcome = "error" if record.get("error") else "ok"
    results = record.get("results", ())
    names = ", ".join(o["name"] for o in results)
    line = f"#{record['iteration']} {record['action_type']} {names} {outcome}: {record.get('thought', '')}"
    return with_refs(truncate(line, LINE_CHARS), [o["ref"] for o in results])


def with_refs(line: str, refs: Sequence[str]) -> str:
    """A line of memory that says how its results are opened."""
    return f"{line} [recall: {', '.join(refs)}]" if refs else line


def available_tools(state: ReactState, work: NodeContext) -> Mapping[str, Tool]:
    """The agent's tools and `recall`, which a prompt offers once it does not hold every result whole."""
    if RECALL in work.tools:
        return work.tools

    async def look_up(ref: str) -> str | None:
        earlier = await earlier_results(state, work.services.ledger)
        if not ref:
            return "\n".join(result.line for result in earlier.values())
        return await _whole(earlier[ref], work) if ref in earlier else None

    return {**work.tools, RECALL: recall_tool(look_up, work.agent.budget.result_chars // 2)}


def offered(tools: Mapping[str, Tool], work: NodeContext) -> Mapping[str, Tool]:
    """The tools that a prompt offers: those that the client's choice leaves."""
    options, clients = work.services.reply_options, work.services.client_tools
    if options.tool_choice == "none":
        return {name: tool for name, tool in tools.items() if name not in clients}
    return {name: tool for name, tool in tools.items() if name == options.required_tool} or tools


def has_truncated(messages: Sequence[AnyMessage], result_chars: int) -> bool:
    """Whether results in a window of messages are truncated in the prompt, or others were left out of it."""
    most = min(result_chars, KEPT_CHARS)
    return left_out_results(messages) or any(ref_of(message) and len(message.text) > most for message in messages)


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
    return as_text(CallResult.of(outcome).content)


async def earlier_results(state: ReactState, ledger: Ledger | None) -> dict[str, EarlierResult]:
    """All results by ref, oldest first; those of `recall` itself aside."""
    finished = await ledger.finished() if ledger else ()
    found = [*map(_of_call, finished), *_of_messages(state), *_of_records(state)]
    return {result.ref: result for result in found if result.name != RECALL}


def _of_call(call: Call) -> EarlierResult:
    key, outcome = CallKey(call.task_id, call.scope, call.idx), call.outcome or {}
    arguments = {} if outcome.get(HIDDEN) else call.arguments
    return EarlierResult(recall_ref(key), call.name, arguments, key, seen_outcome(outcome, key, "en"))


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


async def _whole(result: EarlierResult, work: NodeContext) -> str:
    """The result as the ledger has it, or as the state kept it; of a hidden one, what the model was shown."""
    stored: Mapping[str, Any] | None = await work.services.ledger.read(result.key) if work.services.ledger else None
    outcome = (stored or {}).get("outcome") or result.outcome
    return text_of(result.outcome if outcome.get(HIDDEN) else outcome)
