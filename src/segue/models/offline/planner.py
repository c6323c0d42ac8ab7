"""The embedded default model: a deterministic planner in the place of a language model."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...core.errors import ModelRefused
from ...core.models import CallDelta, ModelPiece, ModelReply, ModelRequest, RawCall, TextDelta
from ...prompts.language import Language, language_of
from ...prompts.offline import sentence
from ..transcript import Made, Transcript, read_transcript
from . import answers
from .card import Card, read_card
from .intent import Call, Intent, Turn, interpret
from .text import CJK

_READ = 2_000
"""Characters of a message that are searched for keywords and values."""
_PIECES = re.compile(rf"\s*[^\s{CJK}]{{1,16}}|\s*[{CJK}]{{1,3}}|\s+")
_RECAP = re.compile(
    r"总结|概括|回顾|刚才|之前|上面|前面|再说一遍|结果"
    r"|\b(?:summar\w+|recap|repeat|earlier|previous|so far|above|results?)\b",
    re.IGNORECASE,
)
_BRIEF = re.compile(r"\A.*^#+ [^\n]+\n", re.DOTALL | re.MULTILINE)
_CALL_LINE = re.compile(r"^- (.+?): \w+\(\{.*?\}\): ", re.MULTILINE)


class OfflinePlanner:
    """Decides, plans and answers by rules from the request alone: its messages, its tools and the requested schema."""

    name = "offline"
    is_language_model = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the reply in pieces.

        Raises:
            ModelRefused: the requested object is neither a decision nor a plan.
        """
        reply = _reply(Task.of(request), request)
        for call in reply.tool_calls:
            yield CallDelta(call.name)
        for piece in _PIECES.findall(reply.text):
            yield TextDelta(piece)
            await asyncio.sleep(0)
        yield reply


@dataclass(frozen=True)
class Task:
    """What a call of the planner is about."""

    cards: tuple[Card, ...]
    language: Language
    objective: str
    transcript: Transcript

    @classmethod
    def of(cls, request: ModelRequest) -> "Task":
        transcript = read_transcript(request)
        language = language_of(transcript.instructions or transcript.objective)
        cards = tuple(read_card(spec) for spec in request.tools if "segue" in spec)  # a protocol's own tools have none
        return cls(cards, language, _readable(transcript.objective), transcript)

    @cached_property
    def small_talk(self) -> str:
        return answers.small_talk(self.objective, self.cards, self.language)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The earlier messages of the user, each with the results that it led to."""
        turns: list[Turn] = []
        for message in self.transcript.conversation:
            if message["role"] == "user":
                turns.append(Turn(_readable(message["content"])))
            elif turns and message["role"] == "tool":
                turns[-1] = replace(turns[-1], results=(*turns[-1].results, message["content"]))
        return tuple(turns)

    @cached_property
    def intent(self) -> Intent:
        """What is asked for, with the reader's language for every argument that may be it."""
        found = Intent() if self.small_talk else interpret(self.cards, self.objective, self.turns)
        unread = (sentence("unread", self.language, n=_READ),) if len(self.transcript.objective) > _READ else ()
        calls = tuple(self._in_language(call) for call in found.calls)
        return replace(found, calls=calls, unused=found.unused + unread)

    def _in_language(self, call: Call) -> Call:
        tongues = [
            p.name
            for p in call.card.parameters
            if p.kind == "language" and self.language in (p.values or (self.language,))
        ]
        return Call(call.card, {**call.arguments, **dict.fromkeys(tongues, self.language)})

    @cached_property
    def outcomes(self) -> Mapping[int, Made]:
        """By the place of an intended call what came of it.

        One that a person edited, or whose result is no longer in the prompt, is known by its tool's name.
        """
        calls, found = self.intent.calls, dict[int, Made]()
        left: list[Made] = []
        for made in (*self.transcript.made, *(Made(name, {}) for name in self.transcript.forgotten)):
            place = next((n for n, call in enumerate(calls) if call.matches(made.name, made.arguments)), None)
            if place is None:
                left.append(made)
            else:
                found[place] = made
        for made in left:
            place = next((n for n, call in enumerate(calls) if call.card.name == made.name and n not in found), None)
            if place is not None:
                found[place] = made
        return found

    @property
    def pending(self) -> list[Call]:
        """The calls of the next round: all that only read, else the next one."""
        waiting = [call for place, call in enumerate(self.intent.calls) if place not in self.outcomes]
        return [call for call in waiting if call.card.read_only] or waiting[:1]

    @property
    def answer(self) -> str:
        """The answer in Markdown, with the notice that no language model wrote it."""
        made = _last_of_each(self.transcript.made)
        parts = [answers.results_text(made, self.cards, self.language)] if made else [self._without_results()]
        if made:
            parts += answers.shortcomings(self._rest_of_intent(made), self.language)
        error = self.transcript.error
        if error and not any(call.error and call.error[:80] in error for call in made):
            parts.append(sentence("error", self.language, error=answers.short_error(error)))
        if gone := set(self.transcript.forgotten) - {call.name for call in made}:
            parts.append(sentence("forgotten", self.language, tools=", ".join(sorted(gone))))
        return "\n\n".join([*parts, sentence("notice", self.language)])

    def _rest_of_intent(self, made: Sequence[Made]) -> Intent:
        """The intent without what the calls cover: the request for a plan's answer does not show the conversation."""
        names = {call.name for call in made}
        told = "\n".join(f"{call.title} {call.arguments}" for call in made)
        asks = () if any(call.title for call in made) else self.intent.asks
        held = tuple(card for card in self.intent.held if card.name not in names)
        return Intent(self.intent.calls, asks, held, tuple(part for part in self.intent.unused if part not in told))

    def _without_results(self) -> str:
        told = answers.shortcomings(self.intent, self.language)
        if self.intent.calls:
            told = [answers.not_run(self.intent.calls, self.language), *told]
        if self.small_talk or told:
            return self.small_talk or "\n\n".join(told)
        if _RECAP.search(self.objective) and (results := self._earlier()):
            rest = self.objective.removeprefix(sentence("conclude", self.language)).strip()
            return answers.recap(results, rest if rest != self.objective else "", self.language)
        return answers.no_fit(self.cards, self.language)

    def _earlier(self) -> Sequence[str]:
        """The results of the latest turn that has any, or those that a subtask's brief ends with."""
        if found := next((turn.results for turn in reversed(self.turns) if turn.results), ()):
            return found
        briefs = [
            m["content"] for m in self.transcript.conversation if m["role"] == "user" and _BRIEF.search(m["content"])
        ]
        return [_CALL_LINE.sub(r"### \1\n\n", _BRIEF.sub("", text)) for text in briefs[-1:]]


def _readable(text: str) -> str:
    """The part of a message that is read, with one kind of apostrophe."""
    return text[:_READ].replace("’", "'")


def _last_of_each(made: Sequence[Made]) -> list[Made]:
    """Of a call that was made more than once, the last."""
    return list({json.dumps([m.name, m.title, m.arguments], sort_keys=True, default=str): m for m in made}.values())


def _reply(task: Task, request: ModelRequest) -> ModelReply:
    if request.native and (pending := task.pending):
        calls = tuple(RawCall("", call.card.name, json.dumps(call.arguments, ensure_ascii=False)) for call in pending)
        return ModelReply(_thought(task, pending), "tool_calls", tool_calls=calls)
    if request.native or request.schema is None:
        return ModelReply(task.answer)
    fields = request.schema.get("properties", {})
    if "action" in fields:
        written = _decision(task, task.pending if '"CALL_TOOL"' in json.dumps(request.schema) else [])
    elif "decision" in fields:
        written = _choice(task, task.pending[:1])
    elif "steps" in fields:
        written = _plan(task)
    elif "tasks" in fields:
        written = _tasks(task)
    else:
        kind = request.schema.get("title", "JSON object")
        raise ModelRefused("A {kind} needs a language model to write it: give the agent a model.", kind=kind)
    return ModelReply(json.dumps(written, ensure_ascii=False))


def _thought(task: Task, pending: Sequence[Call]) -> str:
    calls = (answers.call_text(call.card.name, call.arguments, task.cards, task.language) for call in pending)
    return sentence("think_call" if pending else "think_answer", task.language, calls=", ".join(calls))


def _decision(task: Task, pending: Sequence[Call]) -> dict[str, Any]:
    """The envelope: calls that were not made yet, else the answer."""
    calls = [{"function": {"name": call.card.name, "arguments": call.arguments}} for call in pending]
    made = len(task.transcript.made)
    result = {
        "action_type": "CALL_TOOL" if calls else "ANSWER",
        "output": {"tool_calls": calls} if calls else {"answer": task.answer},
    }
    return {
        "observe": sentence("saw" if made else "first_round", task.language, n=made),
        "thought": _thought(task, pending),
        "action": {"result": result},
    }


def _choice(task: Task, pending: Sequence[Call]) -> dict[str, Any]:
    """A controller's decision: the next call, else the answer."""
    command, arguments = ("final_answer", {"answer": task.answer})
    if pending:
        command, arguments = pending[0].card.name, dict(pending[0].arguments)
    return {"thought": _thought(task, pending), "decision": {"command": command, "command_args": arguments}}


def _plan(task: Task) -> dict[str, Any]:
    """A step for each call and one that writes the answer; numbers stay the same when a plan is made again."""
    steps: list[dict[str, Any]] = []
    for number, call in enumerate(task.intent.calls, start=1):
        if number - 1 in task.outcomes and task.outcomes[number - 1].error:
            continue
        needs = [] if call.card.read_only else [step["step"] for step in steps]
        text = answers.call_text(call.card.name, call.arguments, task.cards, task.language)
        common = {"step": number, "description": text, "phase": "execution", "depends_on": needs}
        steps.append({**common, "action": call.card.name, "params": call.arguments})
    needs = [step["step"] for step in steps]
    last = {"step": len(task.intent.calls) + 1, "phase": "generation", "depends_on": needs}
    steps.append({**last, "action": "none", "params": {}, "description": _conclusion(task)})
    return {"goal": sentence("goal", task.language, objective=task.objective), "steps": steps}


def _conclusion(task: Task) -> str:
    """What the last step does: it writes the answer, and says what is missing or was not used."""
    told = " ".join(" ".join(answers.shortcomings(task.intent, task.language)).split())
    if task.intent.calls or not told:
        return f"{sentence('conclude', task.language)} {told}".strip()
    return told


def _tasks(task: Task) -> dict[str, Any]:
    """A task for each call, written out so that it can be carried out by itself, and one that concludes."""
    texts = [answers.written_out(call, task.language) for call in task.intent.calls]
    needs = [
        [] if call.card.read_only else [str(before + 1) for before in range(place)]
        for place, call in enumerate(task.intent.calls)
    ]
    texts.append(_conclusion(task) if texts else task.objective)
    needs.append([str(place + 1) for place in range(len(needs))])
    fixed = {"type": "task", "timeout": None}
    return {
        "tasks": [
            {"id": str(number), "description": text, "priority": number, "dependencies": needed, **fixed}
            for number, (text, needed) in enumerate(zip(texts, needs, strict=True), start=1)
        ]
    }
