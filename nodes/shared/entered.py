"""What entered a session before a call was decided: a person's words, prompts, descriptions of tools, and results."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from segue.core.agents import Agent
from segue.core.attachments import Attachment
from segue.core.call_terms import CallTerms
from segue.core.calls import SECRET, SOURCES, CallResult
from segue.core.context import Said, descriptions_of
from segue.core.errors import FileUnavailable
from segue.core.plan import Step
from segue.core.provenance import Known, Labelled, Source
from segue.core.records import Call
from segue.core.tools import RECALL, CallKey, Tool
from segue.passages import text_of

from .approval import all_arguments
from .context import NodeContext
from .tool_messages import recall_ref


async def known_now(
    work: NodeContext, task_id: str, tools: Mapping[str, Tool], memory: str = "", together: Collection[str] = ()
) -> Known | None:
    """What entered the session until now; None where nothing remembers it.

    `memory` is what was read of its files. Calls of the scopes `together` were decided at once, none of them by what
    the others returned.
    """
    ledger = work.services.ledger
    said = await work.services.said()
    if ledger is None or said is None:
        return None
    finished = await ledger.finished()
    entered = [*_of_calls(finished, task_id, tools, together, work.services.entered)]
    own = descriptions_of({**work.tools, **tools}.values())
    for message in [*said, *(each for each in own if each not in said)]:
        entered += await _of_message(message, work)
    if memory:
        entered.append(Labelled(memory, (Source("memory"),)))
    return Known((message.text for message in said if message.trusted), work.agent.prompt, entered)


def terms_of(tool: Tool, agent: Agent) -> CallTerms:
    """What is said of a tool's calls: the first word of its name, which "do" is none of, its keywords, and rules."""
    first = tool.name.partition("_")[0]
    words = [
        *([first] if len(first) > 2 or not first.isascii() else ()),
        *tool.spec.get("segue", {}).get("keywords", ()),
    ]
    allowed = [rule for rule in agent.allow if rule.tool == tool.name]
    secret = tool.name if tool.secret else ""
    defaults = {} if tool.foreign_text else all_arguments({}, tool)
    return CallTerms(words, tool.content, defaults, secret, allowed, _choices(tool))


def _choices(tool: Tool) -> dict[str, Sequence[Any]]:
    """The values of the arguments that the tool's schema gives a closed list of."""
    schema = tool.spec["function"].get("parameters", {})
    named = {f"#/$defs/{name}": each for name, each in schema.get("$defs", {}).items()}
    found = {name: named.get(each.get("$ref", ""), each) for name, each in schema.get("properties", {}).items()}
    return {name: each["enum"] for name, each in found.items() if "enum" in each}


def _of_calls(
    finished: Iterable[Call],
    task_id: str,
    tools: Mapping[str, Tool],
    together: Collection[str],
    read: dict[object, Labelled],
) -> Iterable[Labelled]:
    """The results of calls, each numbered in its task; 0 in another one. Those that were `read` are not read again."""
    for _, calls in groupby(finished, key=lambda call: call.task_id):
        for number, call in enumerate(calls, start=1):
            if call.name != RECALL and not (call.task_id == task_id and call.scope in together):
                own, secret = _labels(call, number if call.task_id == task_id else 0, tools.get(call.name))
                key = (call.task_id, call.scope, call.idx, own, secret)
                if key not in read:
                    result = CallResult.of(call.outcome or {})
                    ref = recall_ref(CallKey(call.task_id, call.scope, call.idx))
                    read[key] = Labelled(result.content, result.sources or (own,), secret, result.hidden is True, ref)
                yield read[key]


def _labels(call: Call, number: int, tool: Tool | None) -> tuple[Source, Source | None]:
    """The call as a source, and as one of a secret, if its result is one."""
    outcome = call.outcome or {}
    kind = tool.source_kind if tool else "tool"
    own = Source(kind, call.name, number, trusted=SOURCES in outcome)
    is_secret = bool(outcome.get(SECRET)) or (tool is not None and tool.secret)
    return own, replace(own, trusted=False) if is_secret else None


async def _of_message(message: Said, work: NodeContext) -> list[Labelled]:
    """The files of a message, and its text where it is not the person's own."""
    found = []
    if not message.trusted:
        text = (message.kind, message.name, message.text)
        if text not in work.services.entered:
            work.services.entered[text] = Labelled(message.text, (Source(message.kind, message.name),))
        found.append(work.services.entered[text])
    for file in message.files:
        key = ("file", file.digest, file.name)
        if key not in work.services.entered:
            work.services.entered[key] = Labelled(await _content(file, work), (Source("file", file.name),))
        found.append(work.services.entered[key])
    return found


async def _content(file: Attachment, work: NodeContext) -> str:
    """The text of a file; of any other, and of one that is lost, its name."""
    if file.kind != "text" or file.url:
        return file.name
    try:
        return text_of(await work.services.files(file.digest))
    except FileUnavailable:
        return file.name


async def vetted_steps(
    work: NodeContext, task_id: str, steps: Iterable[Step], before: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The steps that untrusted text has no part in, as {action, params}: all of a plan from before any was read.

    Of a later plan they are those of `before`.
    """
    tools = work.tools
    if not any(tool.approve == "untrusted" for tool in tools.values()):
        return []
    known = await known_now(work, task_id, tools)
    if known is None or known.untrusted:
        return [dict(step) for step in before]
    return [{"action": step.action, "params": step.params} for step in steps if step.uses_tool]
