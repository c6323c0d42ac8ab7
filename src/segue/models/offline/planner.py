"""The embedded default model: a deterministic planner in the place of a language model."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...core.errors import ModelRefused
from ...core.ports import CallDelta, ModelPiece, ModelReply, ModelRequest, RawCall, TextDelta
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
    r"总结|概括|回顾|刚才|之前|上面|前面|再说一遍|整理结果|结果"
    r"|\b(?:summar\w+|recap|repeat|say that again|earlier|previous|so far|above|results?)\b",
    re.IGNORECASE,
)
_BRIEF = re.compile(r"\A.*^#+ [^\n]+\n", re.DOTALL | re.MULTILINE)
_CALL_LINE = re.compile(r"^- (.+?)[：:] ?\w+\(\{.*?\}\): ", re.MULTILINE)


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


def _reply(task: "Task", request: ModelRequest) -> ModelReply:
    if request.native:
        return _native(task)
    fields = (request.schema or {}).get("properties", {})
    if request.schema is None:
        return ModelReply(task.answer)
    if "action" in fields:
        written: Mapping[str, Any] = _decision(task, can_call='"CALL_TOOL"' in json.dumps(request.schema))
    elif "steps" in fields:
        written = _plan(task)
    elif "tasks" in fields:
        written = _tasks(task)
    else:
        kind = request.schema.get("title", "JSON object")
        raise ModelRefused(f"A {kind} needs a language model to write it: give the agent a model.")
    return ModelReply(json.dumps(written, ensure_ascii=False))


@dataclass(frozen=True)
class Task:
    """What a call of the planner is about."""

    cards: tuple[Card, ...]
    language: Language
    transcript: Transcript

    @classmethod
    def of(cls, request: ModelRequest) -> "Task":
        transcript = read_transcript(request)
        language = language_of(transcript.instructions or transcript.objective)
        return cls(tuple(read_card(spec) for spec in request.tools), language, transcript)

    @property
    def objective(self) -> str:
        return _readable(self.transcript.objective)

    @property
    def small_talk(self) -> str:
        return answers.small_talk(self.objective, self.cards, self.language)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The earlier messages of the user, each with the results that it led to."""
        turns: list[Turn] = []
        for message in self.transcript.conversation:
            content = str(message.get("content") or "")
            if message.get("role") == "user":
                turns.append(Turn(_readable(content)))
            elif turns and message.get("role") == "tool":
                turns[-1] = Turn(turns[-1].text, (*turns[-1].results, content))
        return tuple(turns)

    @cached_property
    def intent(self) -> Intent:
        if self.small_talk:
            return Intent()
        found = interpret(self.cards, self.objective, self.turns)
        return Intent(tuple(self._in_language(call) for call in found.calls), found.asks, found.held, found.unused)

    def _in_language(self, call: Call) -> Call:
        """The call with the reader's language for every argument that may be it."""
        tongues = [
            p for p in call.card.parameters if p.kind == "language" and self.language in (p.values or [self.language])
        ]
        return Call(call.card, {**call.arguments, **dict.fromkeys((p.name for p in tongues), self.language)})

    @cached_property
    def made(self) -> Mapping[int, Made | None]:
        """By the place of an intended call what was made of it.

        One that was edited before it ran, or whose result is no longer in the prompt, is known by its tool's name.
        """
        left, found = list(self.transcript.made), dict[int, Made | None]()
        for place, call in enumerate(self.intent.calls):
            hit = next((made for made in reversed(left) if call.matches(made.name, made.arguments)), None)
            if hit is not None:
                found[place] = hit
                left = [made for made in left if not call.matches(made.name, made.arguments)]
        names = [*self.transcript.forgotten, *(made.name for made in left)]
        for place, call in enumerate(self.intent.calls):
            if place not in found and call.card.name in names:
                names.remove(call.card.name)
                found[place] = None
        return found

    @property
    def pending(self) -> list[Call]:
        """The calls of the next round: all that only read, else the next one."""
        waiting = [call for place, call in enumerate(self.intent.calls) if place not in self.made]
        return [call for call in waiting if call.card.read_only] or waiting[:1]

    @property
    def answer(self) -> str:
        """The answer in Markdown, with the notice that no language model wrote it."""
        made, language = _last_of_each(self.transcript.made), self.language
        parts = [answers.results_text(made, self.cards, language)] if made else [self._without_results()]
        if made:
            parts += answers.shortcomings(self._intent_of(made), language)
        error = self.transcript.error
        if error and not any(call.error and call.error[:80] in error for call in made):
            parts.append(sentence("error", language, error=answers.short_error(error)))
        if gone := [name for name in self.transcript.forgotten if name not in {call.name for call in made}]:
            parts.append(sentence("forgotten", language, tools=", ".join(dict.fromkeys(gone))))
        return "\n\n".join([*parts, sentence("notice", language)])

    def _intent_of(self, made: Sequence[Made]) -> Intent:
        """The intent without what the calls that were made cover: a plan's answer does not see the conversation."""
        covered = "\n".join(f"{call.title} {call.arguments}" for call in made)
        asks = tuple(ask for ask in self.intent.asks if ask.card.name not in {call.name for call in made})
        held = tuple(card for card in self.intent.held if card.name not in {call.name for call in made})
        unused = tuple(part for part in self.intent.unused if part not in covered)
        return Intent(self.intent.calls, asks, held, unused)

    def _without_results(self) -> str:
        if self.small_talk:
            return self.small_talk
        told = answers.shortcomings(self.intent, self.language)
        if self.intent.calls:
            return "\n\n".join([answers.not_run(self.intent.calls, self.language), *told])
        if told:
            return "\n\n".join(told)
        if _RECAP.search(self.objective) and (results := self._earlier()):
            return answers.recap(results, self.language)
        return answers.no_fit(self.cards, self.language)

    def _earlier(self) -> Sequence[str]:
        """The results of the latest turn that has any, or those that a subtask's brief ends with."""
        if found := next((turn.results for turn in reversed(self.turns) if turn.results), ()):
            return found
        briefs = [str(m.get("content")) for m in self.transcript.conversation if m.get("role") == "user"]
        return [_CALL_LINE.sub(r"### \1\n\n", _BRIEF.sub("", text)) for text in briefs[-1:] if _BRIEF.search(text)]


def _readable(text: str) -> str:
    """The part of a message that is read, with one kind of apostrophe."""
    return text[:_READ].replace("’", "'")


def _last_of_each(made: Sequence[Made]) -> list[Made]:
    """Of a call that was made more than once, the last."""
    keys = [json.dumps([call.name, call.title, call.arguments], sort_keys=True, default=str) for call in made]
    return list(dict(zip(keys, made, strict=True)).values())


def _native(task: Task) -> ModelReply:
    """Function calls beside the thought, or the answer as text."""
    if not (pending := task.pending):
        return ModelReply(task.answer)
    calls = tuple(RawCall("", call.card.name, json.dumps(call.arguments, ensure_ascii=False)) for call in pending)
    return ModelReply(answers.thought(pending, task.cards, task.language), "tool_calls", tool_calls=calls)


def _decision(task: Task, *, can_call: bool) -> dict[str, Any]:
    """The envelope: calls that were not made yet, else the answer."""
    pending = task.pending if can_call else []
    calls = [{"function": {"name": call.card.name, "arguments": call.arguments}} for call in pending]
    return {
        "observe": answers.observed(_last_of_each(task.transcript.made), task.cards, task.language),
        "thought": answers.thought(pending, task.cards, task.language),
        "action": {
            "result": {
                "action_type": "CALL_TOOL" if calls else "ANSWER",
                "output": {"tool_calls": calls} if calls else {"answer": task.answer},
                "step_status_update": _steps_done(task),
            }
        },
    }


def _steps_done(task: Task) -> list[dict[str, str]]:
    """The open steps of a given plan whose call was made."""
    made = [call for call in task.transcript.made if not call.error]
    return [
        {"step_id": str(step["step_id"]), "status": "done"}
        for step in task.transcript.plan
        if step.get("status") in ("pending", "running")
        and any(call.name == step.get("action") and call.arguments == (step.get("params") or {}) for call in made)
    ]


def _plan(task: Task) -> dict[str, Any]:
    """A step for each call and one that writes the answer; numbers stay the same when a plan is made again."""
    steps: list[dict[str, Any]] = []
    for number, call in enumerate(task.intent.calls, start=1):
        made = task.made.get(number - 1)
        if made is not None and made.error:
            continue
        before = [] if call.card.read_only else [step["step"] for step in steps]
        text = answers.call_text(call.card.name, call.arguments, task.cards, task.language)
        steps.append(_step(number, text, "execution", before, call.card.name, call.arguments))
    needs = [step["step"] for step in steps]
    steps.append(_step(len(task.intent.calls) + 1, _conclusion(task), "generation", needs))
    return {"goal": sentence("goal", task.language, objective=task.objective), "steps": steps}


def _step(
    number: int, text: str, phase: str, needs: list[int], action: str = "none", params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "step": number,
        "action": action,
        "params": params or {},
        "description": text,
        "phase": phase,
        "depends_on": needs,
    }


def _conclusion(task: Task) -> str:
    """What the last step does: it writes the answer, or says why there is nothing to write it from."""
    if task.intent.calls or task.small_talk:
        return sentence("conclude", task.language)
    told = answers.shortcomings(task.intent, task.language) or [sentence("no_fit", task.language)]
    return " ".join(" ".join(told).split())


def _tasks(task: Task) -> dict[str, Any]:
    """A task for each call, written out so that it can be carried out by itself, and one that concludes."""
    calls = task.intent.calls
    if not calls:
        return {"tasks": [_task(1, task.objective, [])]}
    title = "{}：{}" if task.language == "zh" else "{}: {}"
    told = [title.format(answers.in_language(c.card.title, task.language), answers.written_out(c)) for c in calls]
    tasks: list[dict[str, Any]] = []
    for number, (call, text) in enumerate(zip(calls, told, strict=True), start=1):
        tasks.append(_task(number, text, [] if call.card.read_only else [task["id"] for task in tasks]))
    needs = [task["id"] for task in tasks]
    return {"tasks": [*tasks, _task(len(calls) + 1, sentence("conclude", task.language), needs)]}


def _task(number: int, text: str, needs: list[str]) -> dict[str, Any]:
    return {
        "id": str(number),
        "description": text,
        "priority": number,
        "dependencies": needs,
        "type": "task",
        "timeout": None,
    }
