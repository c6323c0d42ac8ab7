"""The prompts of the react graph: its state, its records, and the json and native protocols.

The messages before the state only grow, so that a prompt begins as the one before it did and providers' caches hit.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import TypeAdapter, ValidationError

from segue.core.agents import Agent
from segue.core.calls import ASK_USER, HIDDEN, RECALL, CallKey, CallResult, CallStatus, Ledger, PendingCall, Tool
from segue.core.context import RunContext, Services
from segue.core.decision import (
    ActionType,
    Decision,
    RequestedCall,
    StepStatusUpdate,
    call_name,
    decode,
    holds_object,
    offered_name,
    read_arguments,
    read_clarification,
    read_steps,
)
from segue.core.errors import UnreadableReply
from segue.core.events import ToolCall
from segue.core.models import ModelReply, ModelRequest, PromptSize, RawCall, SentPrompts, tokens
from segue.core.plan import Step
from segue.core.records import Call
from segue.prompts.catalogue import agent_prompt, has_slot, render, task_text, template
from segue.tools.adapters.agents import LocalAgentTool

from .calls import CallRunner, call_events, steps_of_calls
from .context import (
    CONTROL_TOOLS,
    KEPT_CHARS,
    REJECTED,
    NodeContext,
    Settled,
    as_json,
    as_text,
    conversation,
    described,
    envelope_schema,
    exchange,
    is_digest,
    is_lookup,
    recall_ref,
    recall_tool,
    ref_of,
    specs_of,
    truncate,
    truncate_result,
)
from .digest import Digest, Entry, digest_in, merge, of_call, of_text
from .history import Exchange, compact, kept_beside_digest, left_out_results, shown_text, turn_text, window
from .model_call import (
    MOST_ASKS,
    TRUNCATED_CALL,
    Listener,
    LiveCalls,
    LiveEnvelope,
    LiveReply,
    refuse_quotation,
    refuse_unreadable,
    size_of,
    whole_answer,
)
from .permission import seen_outcome
from .repeated_failures import UNREADABLE, failed_round, refused_repeat
from .task import Records, TaskState, attachments_of, before_objective, compose_result, objective_message, objective_of

# State of the react graph: message history and records as logs, the rest a snapshot of the task.


class ReactState(TaskState, total=False):
    """Channels are thread-scoped: INIT resets every one that belongs to a task."""

    notes_taken: int
    """How many additions it holds. INIT, CALL_LLM."""
    iteration: int
    """1…max_iteration. INPUT."""
    trace_id: str
    """Of the recursion. INPUT."""
    spent: str
    """Which budget is spent, in a sentence; empty while there is some left. INPUT."""
    plan: list[dict[str, Any]]
    """Steps. INIT, CALL_LLM, CALL_TOOL, PLAN, ANSWER."""
    vetted: list[dict[str, Any]]
    """Its steps that untrusted text has no part in: {action, params}. INIT, PLAN."""
    records: Records
    """One a finished recursion: decision and result or error. CALL_LLM, CALL_TOOL, PLAN, REMEND."""
    decision: dict[str, Any] | None
    """The decision under way; None after an unreadable reply. CALL_LLM."""
    calls: list[dict[str, Any]]
    """Those still to run, as `PendingCall.json`. CALL_LLM and REMEND fix them, CALL_TOOL decides and runs them."""
    outcomes: list[dict[str, Any]]
    """Calls of this recursion that are done: {name, arguments, ref, result, …}, as `PendingCall.json`. CALL_TOOL."""
    tool_calls: int
    """How many ran in this task. CALL_TOOL."""
    repairs: int
    """REMENDs in a row. CALL_TOOL, REMEND."""


ReactUpdate = ReactState
"""What a node returns: the channels that it changes."""


# Limits of a task: calls that are refused before they run, and replies that cannot be read.

MOST_SUCCESSES = 2
"""In how many rounds in a row the same call may have the same result; a further one gets it without being run."""

SAME_ROUNDS = 3
"""Rounds alike in a row after which a model that takes a schema can only answer."""


def refusal(call: PendingCall, state: ReactState, most_calls: int) -> CallResult | None:
    """The result of a call that is not run, or None.

    A rejected call frees no place in the budget for those behind it, about which no one was asked.
    """
    rejected = sum(_status(outcome) is CallStatus.REJECTED for outcome in state["outcomes"])
    if state["tool_calls"] + call.index - len(state["outcomes"]) + rejected >= most_calls:
        why = task_text("no_calls_left", state["language"], n=most_calls)
        return CallResult(status=CallStatus.OVER_BUDGET, error=why)
    return refused_repeat(call, rounds_of(state), state["task_id"], state["language"]) or _stored(call, state)


def rounds_of(state: ReactState) -> list[list[dict[str, Any]]]:
    """The outcomes of each round that made calls, oldest first."""
    return [record["results"] for record in state["records"] if record["results"]]


def all_rounds(state: ReactState) -> list[Sequence[Mapping[str, Any]]]:
    """The outcomes of each round that made calls, failed, or only thought; oldest first."""
    rounds: list[Sequence[Mapping[str, Any]]] = []
    for record in state["records"]:
        idle = task_text("only_thought", state["language"]) if record["action_type"] == ActionType.REFLECT else ""
        if record["results"]:
            rounds.append(record["results"])
        elif error := record["error"] or idle:
            rounds.append(failed_round(record["action_type"], record["output"], error))
    return rounds


def _stored(call: PendingCall, state: ReactState) -> CallResult | None:
    """The result that a call had in each of the last rounds, with a request to answer; None where they differ."""
    rounds = rounds_of(state)[: -MOST_SUCCESSES - 1 : -1]
    made = (call.name, call.arguments)
    same = [
        [CallResult.of(o["result"]) for o in outcomes if (o["name"], o["arguments"]) == made] for outcomes in rounds
    ]
    if len(same) < MOST_SUCCESSES or not all(same):
        return None
    last = [results[-1] for results in same]
    if any(not result.success or result.value != last[0].value for result in last):
        return None
    request = task_text("repeated_call", state["language"], n=MOST_SUCCESSES)
    return CallResult(status=CallStatus.REPEATED, value=last[0].value, note=request)


def is_repeating(state: ReactState) -> bool:
    """Whether the last rounds made the same calls with the same results: nothing new will come of them."""
    last = [_made(record) for record in state["records"][-SAME_ROUNDS:]]
    return len(last) == SAME_ROUNDS and bool(last[0]) and all(made == last[0] for made in last)


def _made(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(o["name"], o["arguments"], o["result"] | {"repeated": ""}) for o in record["results"]]


def only_over_budget(state: ReactState) -> bool:
    """Whether the last round was spent on calls beyond the budget."""
    results = state["records"][-1]["results"] if state["records"] else []
    return bool(results) and all(_status(outcome) is CallStatus.OVER_BUDGET for outcome in results)


def limit_reached(state: ReactState, work: NodeContext) -> str:
    """Which budget of the agent is spent: iterations, tool_calls or seconds; empty while none is."""
    if state["iteration"] >= work.agent.max_iteration:
        return "iterations"
    if only_over_budget(state):
        return "tool_calls"
    return "seconds" if work.seconds_since(state["started_at"]) > work.agent.budget.seconds else ""


def _status(outcome: dict[str, Any]) -> CallStatus:
    return CallResult.of(outcome["result"]).status


def unreadable_in_a_row(state: ReactState) -> int:
    """How many of the latest rounds had a reply that could not be read."""
    count = 0
    for record in reversed(state["records"]):
        if record["action_type"] != UNREADABLE:
            break
        count += 1
    return count


def prose_answer(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision | None:
    """The last unreadable reply's text as the answer, if it is plain text."""
    if unreadable_in_a_row(state) + 1 < MOST_ASKS or reply.tool_calls or reply.unreadable or not reply.text.strip():
        return None
    if work.services.reply_options.required_tool:
        return None
    if work.agent.protocol == "json" and holds_object(reply.text):
        return None
    return Decision(action_type=ActionType.ANSWER, answer=whole_answer(work, reply, state["language"]), malformed=True)


# The live state in a round's prompt, the tools that the model may call, and the results that `recall` opens.

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
            "constraints": {"tool_calls_left": max(budget.tool_calls - state["tool_calls"], 0)},
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
        return {"failed": False, "note": task_text("first_round", state["language"])}
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
    said = record.get("thought", "")
    if ANSWERED in record:
        said = f"{record['output']['question']} → {record[ANSWERED]}"
    line = f"#{record['iteration']} {record['action_type']} {names} {outcome}: {said}"
    return with_refs(truncate(line, LINE_CHARS), [o["ref"] for o in results])


def with_refs(line: str, refs: Sequence[str]) -> str:
    """A line of memory that says how its results are opened."""
    return f"{line} [recall: {', '.join(refs)}]" if refs else line


def available_tools(state: ReactState, work: NodeContext) -> Mapping[str, Tool]:
    """The agent's tools and `recall`, which a prompt offers once it does not hold every result whole."""
    if RECALL in work.tools:
        return work.tools

    async def look_up(ref: str) -> str | None:
        if turn := _TURN.fullmatch(ref):
            return turn_text(work.services.earlier or state["messages"], int(turn[1]))
        earlier = await earlier_results(state, work.services.ledger)
        if not ref:
            return "\n".join(result.line for result in earlier.values())
        return await _whole(earlier[ref], work) if ref in earlier else None

    return {**work.tools, RECALL: recall_tool(look_up, work.agent.budget.result_chars // 2)}


_TURN = re.compile(r"turn-(\d{1,9})")


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
ANSWERED = "answered"
"""In a record: what the user answered to its question."""


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
    made = [call for call in finished if not is_lookup(call.scope)]
    found = [*map(_of_call, made), *_of_messages(state), *_of_records(state)]
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


# The json protocol: the user's request, the system prompt with the live state, and a record for each past round.


def json_request(state: ReactState, work: NodeContext) -> ModelRequest:
    """[0] the user's request, [1] the system prompt, [2…] the records.

    Agents with `state="last"` get a static system prompt first and the state in a closing user message.
    """
    budget, tools = work.agent.budget, offered(available_tools(state, work), work)
    past = window(before_objective(state["messages"]), budget.prompt_tokens // 4, budget.result_chars)
    spoken = conversation(past, budget.result_chars)
    rendered, records = work.services.renderings.each, state["records"]
    request = objective_of(state["messages"])
    sizes, room = rendered(_size, records, budget.result_chars, request), _room(state, work, tools, spoken)
    first = kept_beside_digest(sizes, room, budget.prompt_tokens // MEMORY_SHARE)
    if first:
        spoken = conversation(_with_rounds(past, records[:first], state, work), budget.result_chars)
    texts = rendered(record_text, records[first:], budget.result_chars, request)
    if not first and not has_truncated(past, budget.result_chars) and not any(_TRUNCATED in text for text in texts):
        tools = offered(work.tools, work)
    memory = map(line_of, reversed(records[:first]))
    return ModelRequest(
        purpose="decide",
        messages=_ordered(state, work, tools, (memory, spoken), [AIMessage(text) for text in texts]),
        schema=envelope_schema(tools, _offered(state, work), planned=bool(state["plan"])),
        tools=[tool.spec for tool in tools.values()],
        nudge=template("nudge", state["language"]) if texts and not work.state_last else "",
    )


def _with_rounds(
    past: Sequence[AnyMessage], left_out: Sequence[dict[str, Any]], state: ReactState, work: NodeContext
) -> list[AnyMessage]:
    """The earlier turns, with the rounds of this task that are left out in the digest before them."""
    digest, rest = Digest(language=state["language"]), [*past]
    if past and is_digest(past[0]):
        digest, rest = digest_in(past[0]), [*past[1:]]
    found = chain.from_iterable(work.services.renderings.each(_entries, left_out, digest.language))
    standing = merge(digest, found, work.agent.budget.prompt_tokens // MEMORY_SHARE).message()
    return [standing, *rest] if standing else rest


def _entries(record: dict[str, Any], language: str) -> list[Entry]:
    """What the digest says of a round: the user's answer to its question, and its calls."""
    found = of_text(record[ANSWERED], record["trace_id"]) if ANSWERED in record else []
    for outcome in record["results"]:
        result = CallResult.of(outcome["result"])
        status = REJECTED if result.status is CallStatus.REJECTED else "success" if result.success else "error"
        found += of_call(
            outcome["name"], outcome["arguments"], as_text(result.content), status, outcome["ref"], language
        )
    return found


_TRUNCATED = " more characters: recall(ref="
"""In the text of a record whose result is truncated."""


def _size(record: dict[str, Any], result_chars: int, request: str) -> int:
    return tokens(record_text(record, result_chars, request))


def _offered(state: ReactState, work: NodeContext) -> tuple[str, ...]:
    """The actions that make sense now: no plan after a plan, no repair where nothing failed, no endless repeats.

    Where the client requires a call there is nothing else.
    """
    last = state["records"][-1] if state["records"] else {"action_type": "", "error": ""}
    if work.services.reply_options.required_tool:
        return ("CALL_TOOL", *(("REMEND",) if last["error"] else ()))
    if is_repeating(state):
        return ("ANSWER",)
    plan = () if last["action_type"] == "PLAN" and not last["error"] else ("PLAN",)
    ask = ("CLARIFY",) if work.asks_user else ()
    return ("CALL_TOOL", *plan, *(("REMEND",) if last["error"] else ()), *ask, "ANSWER")


def _room(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], spoken: Sequence[Any]) -> int:
    """Tokens that are left for records beside the request, its files, the system prompt and the memory's share."""
    most = work.agent.budget.prompt_tokens
    bare = _system(state, work, tools, as_json(current_state(state, work, (), spoken)))
    asked = tokens(state["objective"]) + size_of(attachments_of(state["messages"]), work)
    return max(most // 8, most - most // MEMORY_SHARE - tokens(bare) - asked)


def read_json(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision:
    """Read the envelope."""
    refuse_unreadable(reply)
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit: write a shorter one.")
    if reply.has_reasoning and not reply.text.strip():
        raise UnreadableReply(_ONLY_THOUGHT)
    results = (outcome["result"] for record in state["records"] for outcome in record["results"])
    refuse_quotation(reply.text, results, work.services.renderings)
    decision, known = decode(reply.text), {*work.tools, RECALL}
    if decision.action_type is ActionType.CLARIFY and not work.asks_user:
        raise UnreadableReply("This agent asks the user no questions: decide by what is known, or answer.")
    named = [call.model_copy(update={"name": offered_name(call.name, known)}) for call in decision.tool_calls]
    return decision.model_copy(update={"tool_calls": tuple(named)})


def record_text(record: dict[str, Any], result_chars: int, request: str) -> str:
    """A record as the assistant message that represents it, its results bounded to what the request needs of them."""
    shown: dict[str, Any] = {
        "observe": record.get("observe", ""),
        "thought": record.get("thought", ""),
        "action": {"result": {"action_type": record["action_type"], "output": record.get("output", {})}},
    }
    if ANSWERED in record:
        shown["result"] = {"answer": truncate(record[ANSWERED], result_chars)}
    if record.get("results"):
        shown["result"] = [
            {
                "function": {
                    **{k: o[k] for k in ("name", "original", "arguments") if k in o},
                    "result": truncate_result(o["result"], result_chars, o["ref"], request),
                }
            }
            for o in record["results"]
        ]
    if record.get("error"):
        shown["error_log"] = truncate(record["error"], result_chars)
    return as_json(shown)


def _ordered(
    state: ReactState,
    work: NodeContext,
    tools: Mapping[str, Tool],
    earlier: tuple[Iterable[str], Sequence[Any]],
    records: Sequence[AIMessage],
) -> list[BaseMessage]:
    """The messages; `earlier` are the lines of rounds that no longer fit, newest first, and the earlier turns."""
    memory, spoken = earlier
    user, nudge = objective_message(state), template("nudge", state["language"])
    if work.state_last:
        snapshot = as_json(current_state(state, work, memory, ()))
        live = render("native_state", state["language"], current_state=snapshot)
        closing = HumanMessage(f"{live}\n\n{nudge}" if records else live)
        return [SystemMessage(_static_system(state, work, tools, spoken)), user, *records, closing]
    system = SystemMessage(_system(state, work, tools, as_json(current_state(state, work, memory, spoken))))
    return [user, system, *records]


def _system(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], snapshot: str) -> str:
    text = _instructions(state, work, tools, snapshot)
    if has_slot(work.agent.prompt, "current_state"):
        return text
    return f"{text}\n\n{render('state', state['language'], current_state=snapshot)}"


def _static_system(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], spoken: Sequence[Any]) -> str:
    """The system prompt without the state: the same in every round of a task."""
    text = _instructions(state, work, tools, task_text("state_last", state["language"]))
    return f"{text}\n\n{as_json({'conversation': list(spoken)})}" if spoken else text


def _instructions(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], snapshot: str) -> str:
    language = state["language"]
    shown = described(tools, language, work.services.renderings)
    own = agent_prompt(work.agent, language, state["objective"], current_state=snapshot, tools=shown)
    endings = task_text("react_endings_asking" if work.asks_user else "react_endings", language)
    return render("react", language, agent_prompt=own, tools=shown, endings=endings)


# The native protocol: a static system message, the thread's own messages, and last what they do not say of the state.

FEW = 3
"""The state mentions the remaining rounds or calls from this number down."""


def native_request(state: ReactState, work: NodeContext) -> ModelRequest:
    """The prompt and the bound tools; where there is something to say of the state, it comes last."""
    budget, tools = work.agent.budget, offered(available_tools(state, work), work)
    system = render(
        "native", state["language"], agent_prompt=agent_prompt(work.agent, state["language"], state["objective"])
    )
    specs = _specs(tools, state, work)
    fixed = tokens(system) + tokens(as_json(specs)) + size_of(attachments_of(state["messages"]), work)
    most = max(budget.prompt_tokens // 4, budget.prompt_tokens * 3 // 4 - fixed)
    found = compact(state["messages"], most, budget.result_chars, files=False)
    shown, left_out = found.shown, found.left_out
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
    ask = [ASK_USER] if work.asks_user else []
    names = [*ask, *(["plan"] if state["plan"] or failed or begins else []), *(["remend"] if failed else [])]
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


_ONLY_THOUGHT = (
    "The reply is only reasoning, without an answer: call a tool, or answer. A larger max_tokens on the agent leaves "
    "room for both."
)


def read_native(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision:
    """Tool calls are CALL_TOOL, the control tools PLAN and REMEND, text beside calls the thought, mere text ANSWER.

    Of a reply with one call that cannot be read, nothing is run.
    """
    refuse_unreadable(reply)
    if reply.finish_reason == "length":
        raise UnreadableReply(TRUNCATED_CALL)
    calls = [replace(call, name=call_name(call.name)) for call in reply.tool_calls]
    if not calls:
        if not reply.text.strip():
            raise UnreadableReply(
                _ONLY_THOUGHT if reply.has_reasoning else "The reply is empty: call a tool, or answer."
            )
        return Decision(action_type=ActionType.ANSWER, answer=reply.text)
    control = [call for call in calls if call.name in CONTROL_TOOLS and (call.name != ASK_USER or work.asks_user)]
    if not control:
        requested = tuple(
            RequestedCall(name=call.name, arguments=read_arguments(call.name, call.arguments), call_id=call.id)
            for call in calls
        )
        return Decision(thought=reply.text, action_type=ActionType.CALL_TOOL, tool_calls=requested)
    if len(calls) > 1:
        raise UnreadableReply("Call {name} alone: nothing of this reply was run.", name=control[0].name)
    return _control(reply.text, control[0])


def _control(thought: str, call: RawCall) -> Decision:
    arguments = read_arguments(call.name, call.arguments)
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
    if call.name == ASK_USER:
        asked = read_clarification(arguments)
        return Decision(thought=thought, action_type=ActionType.CLARIFY, control_id=call.id, **asked)
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
    found = [(call_name(item["name"]), item.get("arguments")) for item in given]
    return tuple(RequestedCall(name=name, arguments=read_arguments(name, arguments)) for name, arguments in found)


def _is_call(item: object) -> bool:
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
        return False
    return isinstance(item.get("arguments") or {}, dict | str)


# The two ways in which a model says what to do; both give one `Decision`.


@dataclass(frozen=True)
class DecisionProtocol:
    """How a round's prompt is made, its reply streamed and read."""

    request: Callable[[ReactState, NodeContext], ModelRequest]
    listen: Callable[[LiveReply], Listener]
    read: Callable[[ModelReply, ReactState, NodeContext], Decision]


_JSON = DecisionProtocol(json_request, LiveEnvelope, read_json)
_NATIVE = DecisionProtocol(native_request, LiveCalls, read_native)


def protocol_of(work: NodeContext) -> DecisionProtocol:
    """The agent's protocol."""
    return _NATIVE if work.agent.protocol == "native" else _JSON


# The record of a recursion, its calls and the ids of its events, and the result that a task's records make.


def ids_of(state: ReactState) -> dict[str, Any]:
    """What every event of this recursion carries."""
    return {"task_id": state["task_id"], "trace_id": state["trace_id"], "iteration": state["iteration"]}


def record_of(
    state: ReactState,
    action_type: str,
    decision: Decision | None = None,
    results: list[dict[str, Any]] | None = None,
    error: str = "",
) -> dict[str, Any]:
    """One finished recursion: {iteration, trace_id, action_type, observe, thought, output, results, error, said?}."""
    return {
        "iteration": state["iteration"],
        "trace_id": state["trace_id"],
        "action_type": action_type,
        "observe": decision.observe if decision else "",
        "thought": decision.thought if decision else "",
        "output": decision.output if decision else {},
        "results": results or [],
        "error": error,
        **({"said": decision.said} if decision and decision.said else {}),
    }


def calls_of(state: ReactState, decision: Decision) -> list[PendingCall]:
    """The decision's calls.

    The place is what the ledger knows a call by; the id is the provider's where it gave one, unless it repeats in the
    reply.
    """
    given = [call.call_id for call in decision.tool_calls]
    plan, trace_id = [Step(**step) for step in state["plan"]], state["trace_id"]
    made = [(call.name, call.arguments) for call in decision.tool_calls]
    steps = steps_of_calls(made, plan, decision.step_id, _repaired(state, decision))
    calls = []
    for index, (call, step_id) in enumerate(zip(decision.tool_calls, steps, strict=True)):
        is_unique = bool(call.call_id) and given.count(call.call_id) == 1
        calls.append(
            PendingCall(
                index=index,
                name=call.name,
                arguments=call.arguments,
                scope=trace_id,
                origin=f"{trace_id}/{index}",
                call_id=call.call_id if is_unique else f"{trace_id}-{index}",
                step_id=step_id,
            )
        )
    return calls


def _repaired(state: ReactState, decision: Decision) -> str:
    """The step whose call failed last, if this is its repair."""
    if decision.action_type is not ActionType.REMEND or not state["records"]:
        return ""
    results = state["records"][-1]["results"]
    return next((o.get("step_id", "") for o in results if not CallResult.of(o["result"]).success), "")


def runner_of(state: ReactState, work: NodeContext) -> CallRunner:
    """What runs the calls of this recursion."""
    recalls = any(call["name"] == RECALL for call in state["calls"])
    tools = available_tools(state, work) if recalls else work.tools
    language, n = state["language"], state["iteration"]
    joins = _places_of_joins([*state["outcomes"], *state["calls"]], state, work)
    places = [call["index"] for call in state["calls"] if call["index"] not in joins]
    return CallRunner(
        work,
        tools,
        state["task_id"],
        language,
        ids_of(state),
        lambda call: refusal(call, state, work.agent.budget.tool_calls),
        planned=lambda call: {"action": call.name, "params": call.arguments} in state.get("vetted", ()),
        own=tools.keys() - work.tools.keys(),
        later=True,
        joins=joins,
        behind=[key_of(state, place) for place in places],
        headings=()
        if state["outcomes"]
        else (task_text("react_plan", language), task_text("react_step", language, n=n)),
    )


def agents_under_way(state: ReactState, work: NodeContext) -> dict[str, str]:
    """The tasks of agents in the background whose results have not arrived, each with the name of its tool."""
    found: dict[str, str] = {}
    agents = {name: tool for name, tool in work.tools.items() if isinstance(tool, LocalAgentTool)}
    if not agents:
        return found
    for outcome in (outcome for record in state["records"] for outcome in record["results"]):
        if tool := agents.get(outcome["name"]):
            found.pop(tool.joins(outcome["arguments"]), None)
            if task_id := tool.begun(outcome["arguments"], CallResult.of(outcome["result"]).value):
                found[task_id] = tool.name
    return found


def _places_of_joins(calls: Iterable[Mapping[str, Any]], state: ReactState, work: NodeContext) -> set[int]:
    """The places of a reply's calls that have the result of an agent in the background: of each agent the first."""
    under_way, found = agents_under_way(state, work), dict[str, int]()
    for call in calls:
        tool = work.tools.get(call["name"])
        task_id = tool.joins(call["arguments"]) if isinstance(tool, LocalAgentTool) else ""
        if under_way.get(task_id) == call["name"]:
            found.setdefault(task_id, call["index"])
    return {*found.values()}


def announced_calls(state: ReactState, calls: Sequence[PendingCall], work: NodeContext) -> list[ToolCall]:
    """One event a call; they wait together where one of them needs a person's approval."""
    joins = _places_of_joins([call.json() for call in calls], state, work)
    runner = CallRunner(work, work.tools, state["task_id"], state["language"], ids_of(state), joins=joins)
    return call_events(calls, any(map(runner.is_undecided, calls)), ids_of(state))


_CONTROLS = {ActionType.PLAN: "plan", ActionType.REMEND: "remend", ActionType.CLARIFY: ASK_USER}


def control_exchange(decision: Decision, result: Mapping[str, Any]) -> list[AnyMessage]:
    """The call of a control tool and what came of it, where the decision came as one."""
    if not decision.control_id:
        return []
    name = _CONTROLS[decision.action_type]
    settled = Settled(decision.control_id, name, decision.output, result)
    return exchange(decision.thought, [settled], decision.kept)


def key_of(state: ReactState, index: int) -> CallKey:
    """What the ledger knows a call of this recursion by."""
    return CallKey(state["task_id"], state["trace_id"], index)


def decision_of(state: ReactState) -> Decision:
    """The decision under way."""
    return Decision.model_validate(state["decision"])


def history_entries(state: ReactState, result_chars: int) -> list[dict[str, Any]]:
    """One entry a tool call."""
    return [
        {
            "step": record["iteration"],
            "phase": "execution",
            "action": outcome["name"],
            "result": truncate_result(outcome["result"], result_chars),
            "description": record["thought"],
        }
        for record in state["records"]
        for outcome in record["results"]
    ]


def react_result(
    state: ReactState, text: str, result_chars: int, thought: str = "", error: str = "", limit: str = ""
) -> dict[str, Any]:
    """The task's result; `thought` is that of the round which answers, `limit` the budget that was spent.

    The answer is `text`, behind what earlier rounds said before their calls.
    """
    preamble = "".join(f"{record['said']}\n\n" for record in state["records"] if record.get("said"))
    thoughts = [*((r["iteration"], r["thought"]) for r in state["records"]), (state["iteration"], thought)]
    return compose_result(
        "react",
        preamble + text,
        preamble=preamble,
        history=history_entries(state, result_chars),
        reasoning="\n".join(f"[{iteration}] {text}" for iteration, text in thoughts if text),
        plan=state["plan"],
        usage=state["usage"],
        error=error,
        limit=limit,
    )


# What the prompts of a task cost an agent in each protocol.

CALLS, RESULT_CHARS = 20, 1000
"""The task that is measured: so many calls, one a round, each with a result of so many characters."""

PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "json": {"protocol": "json", "state": "inline"},
    'json, state="last"': {"protocol": "json", "state": "last"},
    "native": {"protocol": "native"},
}


def prompt_costs(agent: Agent, services: Services, language: str) -> dict[str, PromptSize]:
    """The characters of all requests of the task by protocol, and those that a request shares with the one before."""
    return {
        name: _cost(NodeContext(services, RunContext(), agent.model_copy(update=dict(fields))), language)
        for name, fields in PROTOCOLS.items()
    }


def _cost(work: NodeContext, language: str) -> PromptSize:
    state, sent, sizes = _begun(work, language), SentPrompts(), []
    protocol = protocol_of(work)
    tool = next(iter(work.tools), "look_up")
    for number in range(CALLS + 1):
        state["iteration"] = number + 1
        sizes.append(sent.add(protocol.request(state, work)))
        call = RequestedCall(name=tool, arguments={"number": number}, call_id=f"call_{number}")
        _record_call(state, call, Decision(action_type=ActionType.CALL_TOOL, tool_calls=(call,)))
    return PromptSize(sum(size.chars for size in sizes), sum(size.prefix_chars for size in sizes))


def _begun(work: NodeContext, language: str) -> ReactState:
    objective = "?" * 100
    messages: list[AnyMessage] = [HumanMessage(objective)]
    return {
        "messages": messages,
        "task_id": work.services.ids.task(),
        "trace_id": work.services.ids.trace(),
        "objective": objective,
        "language": language,
        "plan": [],
        "records": [],
        "calls": [],
        "outcomes": [],
        "tool_calls": 0,
        "repairs": 0,
    }


def _record_call(state: ReactState, call: RequestedCall, decision: Decision) -> None:
    """Add the round of a call to the state."""
    result: dict[str, Any] = {"success": "x" * RESULT_CHARS}
    outcome = {"index": 0, "ref": f"{ids_of(state)['task_id'][:8]}.{state['iteration']}", "result": result}
    record = record_of(state, "CALL_TOOL", decision, [{"name": call.name, "arguments": call.arguments, **outcome}])
    state["records"] = [*state["records"], record]
    settled = Settled(call.call_id, call.name, call.arguments, result, key_of(state, state["iteration"]))
    state["messages"] = [*state["messages"], *exchange("", [settled])]
    state["tool_calls"] += 1
