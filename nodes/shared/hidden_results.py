"""Hidden results: what the model sees in their place, and the values that its calls take by reference."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.calls import HIDDEN, CallResult, PendingCall
from segue.core.errors import ModelError
from segue.core.events import ModelCalled
from segue.core.models import ModelRequest
from segue.core.provenance import Hiding
from segue.core.tools import CallKey, Ledger, Tool
from segue.core.usage import Usage
from segue.prompts.catalogue import phrase
from segue.prompts.load import render
from segue.tools.calls.run import argument_error

from .context import NodeContext
from .live_reply import Listener
from .model_call import ask_model, refused_call
from .prompt_budget import as_text, truncate
from .references import REF, DanglingReference, follow, references, resolve_arguments
from .tool_messages import recall_ref

SUMMARY_CHARS: Final = 500
"""Characters of a summary."""
_CALLS: Final = "calls."
_RESULT: Final = ".result"


def reference_to(ref: str) -> str:
    """The reference by which a call takes the result with this ref."""
    return f"{_CALLS}{ref}{_RESULT}"


def is_to_call(reference: str) -> bool:
    """Whether a reference is to the result of a call, not to that of a step."""
    return reference.startswith(_CALLS)


def is_hidden(tools: Iterable[Tool]) -> bool:
    """Whether results of one of the tools are hidden, so that calls may refer to them."""
    return any(tool.hidden for tool in tools)


def hiding_of(call: PendingCall, tool: Tool | None) -> Hiding:
    """How far the result of a call is hidden: as its tool says, and all of it if the call takes a hidden value.

    Of a value that the model knows a summary of, the tool may give one, too.
    """
    own, taken = tool.hidden if tool else False, call.get("hidden", False)
    return True if taken is True else own or bool(taken)


def _most(hidings: Collection[Hiding]) -> Hiding:
    return True if True in hidings else "summary" if "summary" in hidings else False


async def with_values(calls: Sequence[PendingCall], ledger: Ledger | None, language: str) -> Sequence[PendingCall]:
    """The calls with the results that their arguments refer to; `given` is what the model wrote.

    One that refers to nothing has the error in `dangling`, and must not run.
    """
    if ledger is None or not any(map(_is_unresolved, calls)):
        return calls
    outcomes = {
        recall_ref(CallKey(call.task_id, call.scope, call.idx)): call.outcome or {} for call in await ledger.finished()
    }
    return [_resolved(call, outcomes, language) if _is_unresolved(call) else call for call in calls]


def _is_unresolved(call: PendingCall) -> bool:
    return not ("given" in call or "dangling" in call) and any(map(is_to_call, references(call["arguments"])))


def _resolved(call: PendingCall, outcomes: Mapping[str, Mapping[str, Any]], language: str) -> PendingCall:
    given = call["arguments"]
    try:
        arguments = resolve_arguments(given, lambda reference: _look_up(reference, outcomes))
    except DanglingReference as error:
        return {**call, "dangling": phrase("not_filled", language, error=error)}
    taken = [ref for refs in taken_refs({**call, "given": given}).values() for ref in refs]
    hidden = _most([outcomes[ref].get(HIDDEN, False) for ref in taken])
    return {**call, "arguments": arguments, "given": given, "hidden": hidden}


def _look_up(reference: str, outcomes: Mapping[str, Mapping[str, Any]]) -> Any:
    """The part of a result that a reference leads to.

    Raises:
        DanglingReference: it leads nowhere; of a hidden result the message says nothing.
    """
    ref, path = _parts(reference)
    result = CallResult.of(outcomes.get(ref, {"error": ""}))
    if not result.success:
        raise DanglingReference(f"{reference!r}: there is no such result")
    try:
        return follow(result.value, path, reference)
    except DanglingReference as error:
        if result.hidden:
            raise DanglingReference(f"{reference!r} leads to no part of the hidden result") from error
        raise


def _parts(reference: str) -> tuple[str, list[str]]:
    """The ref of a reference, and the path behind it."""
    ref, _, path = reference.removeprefix(_CALLS).partition(_RESULT)
    return ref, path.removeprefix(".").split(".") if path else []


def taken_refs(call: PendingCall) -> dict[str, list[str]]:
    """The refs of the results that each argument of a call takes a value of."""
    given = call.get("given", {})
    found = {name: [_parts(each)[0] for each in references(value) if is_to_call(each)] for name, value in given.items()}
    return {name: refs for name, refs in found.items() if refs}


def as_seen(call: PendingCall) -> PendingCall:
    """A call as its model may see it: with references in place of the values, also after a person's edit."""
    if "given" not in call:
        return call
    seen: PendingCall = {**call}
    given, taken = seen.pop("given"), taken_refs(call)
    seen["arguments"] = {name: given[name] if name in taken else value for name, value in call["arguments"].items()}
    if "original" in call:
        seen["original"] = given
    return seen


@dataclass(frozen=True)
class Summary:
    """What the model sees of a hidden value, and the event and usage of the call that wrote it."""

    text: str
    event: ModelCalled
    usage: Usage = field(default_factory=dict)


async def summarized(work: NodeContext, value: Any, ids: Mapping[str, Any], language: str) -> Summary | None:
    """A summary by the agent's model, which has no tools and sees nothing else; None if the model is none of language.

    Where the model refuses, it is empty.
    """
    if not work.model.is_language_model:
        return None
    data = truncate(as_text(value), work.agent.budget.result_chars)
    system = render("summary", language, words=str(SUMMARY_CHARS // 10))
    request = ModelRequest(purpose="summary", messages=[SystemMessage(system), HumanMessage(data)])
    try:
        asked = await ask_model(work, request, Listener, {}, ids, language)
    except ModelError as error:
        return Summary("", await refused_call(work, request, error, ids))
    return Summary(" ".join(asked.reply.text.split())[:SUMMARY_CHARS], asked.event, asked.usage)


def seen_result(result: CallResult, ref: str, language: str, summary: str = "") -> dict[str, Any]:
    """What the model sees of a hidden result: the reference to it, its type, and a summary."""
    bare = replace(result, stack="", sources=None, secret=False)
    if not result.success:
        return replace(bare, error=phrase("hidden_error", language)).json()
    reference = reference_to(ref)
    shown: dict[str, Any] = {REF: reference, "type": _type_of(result.value)}
    if isinstance(result.value, list):
        shown["length"] = len(result.value)
    if summary:
        shown["untrusted_summary"] = summary
    part = f"{reference}.0" if isinstance(result.value, list) else f"{reference}.<field>"
    return replace(bare, value={**shown, "note": phrase("hidden_result", language, reference=part)}).json()


def seen_outcome(outcome: Mapping[str, Any], key: CallKey, language: str) -> Mapping[str, Any]:
    """A stored outcome as the model may see it."""
    return seen_result(CallResult.of(outcome), recall_ref(key), language) if outcome.get(HIDDEN) else outcome


def is_callers_error(result: CallResult, call: PendingCall, tool: Tool | None) -> bool:
    """Whether a call failed because of the arguments that the model itself wrote, so that it may see the error."""
    return not result.success and "given" not in call and bool(argument_error(tool, call["arguments"]))


_TYPES: Final = ((bool, "boolean"), (int | float, "number"), (str, "string"), (list, "array"), (Mapping, "object"))


def _type_of(value: Any) -> str:
    """The type of a JSON value."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")
