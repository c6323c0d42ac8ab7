"""The embedded default model: a deterministic planner in the place of a language model, and its answers."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from ...core.errors import ModelRefused
from ...core.models import REFUSAL, CallDelta, ModelPiece, ModelReply, ModelRequest, RawCall, TextDelta
from ...prompts.catalogue import Language, Texts, comma, enumerated, joined, language_of, with_more
from ..transcript import PastCall, Transcript, read_transcript
from .understanding import CJK, Call, Card, Intent, Parameter, interpret, read_card

# The offline planner's answers: results as Markdown, questions, and what could not be done.

offline_text = Texts("offline")
MOST_ROWS = 20
_SAMPLES = 3
_GREETING = re.compile(
    r"(?:你好|您好|嗨|哈喽|在吗|早上好|上午好|下午好|晚上好|大家好|你是谁|你能做什么|你会什么|帮助|[啊呀哦呢吗]|\W"
    r"|hello|hi|hey|good (?:morning|afternoon|evening|day)|there|everyone|who are you|what can you do|help)+",
    re.IGNORECASE,
)
_THANKS = re.compile(r"(?:谢谢|多谢|感谢|thanks?|thank you|a lot|very much|so much|[你您啊啦]|\W)+", re.IGNORECASE)
_TRUNCATED = re.compile(r"… \[\d+ more characters")


def small_talk(text: str, cards: Sequence[Card], language: Language) -> str:
    """The reply to a message that is nothing but a greeting or thanks; empty for any other."""
    if not re.search(r"\w", text):
        return ""
    if _GREETING.fullmatch(text.strip()):
        name = "greeting" if cards else "greeting_alone"
        return offline_text(name, language, tools=introduced(cards, language))
    return offline_text("welcome", language) if _THANKS.fullmatch(text.strip()) else ""


def title(card: Card, language: Language) -> str:
    """The tool's title; of a title in both languages, `标题 · Title`, the reader's half."""
    halves = card.title.split(" · ")
    return next(iter(_in_language(halves, language)), halves[0])


def _in_language(texts: Iterable[str], language: Language) -> list[str]:
    return [text for text in texts if bool(re.search(f"[{CJK}]", text)) == (language == "zh")]


def introduced(cards: Iterable[Card], language: Language) -> str:
    """One line a tool; a tool without a title is introduced by the first line of its description."""
    return "\n".join(
        f"- {title(card, language) if card.title != card.name else (card.description or card.name).splitlines()[0]}"
        for card in cards
    )


def listed(texts: Iterable[str], language: Language) -> str:
    return joined(dict.fromkeys(texts), language)


def call_text(name: str, arguments: Mapping[str, Any], cards: Sequence[Card], language: Language) -> str:
    """A call as a person reads it: title and arguments, without the reader's language."""
    card = next((card for card in cards if card.name == name), None)
    known = {parameter.name: parameter for parameter in card.parameters} if card else {}
    given = comma(language).join(
        _argument_text(key, value, known.get(key), language)
        for key, value in arguments.items()
        if key not in known or known[key].kind != "language"
    )
    named = title(card, language) if card else name
    if not given:
        return named
    return with_more(named, given, language)


def _argument_text(name: str, value: Any, parameter: Parameter | None, language: Language) -> str:
    """A text alone, a number before its unit where the parameter is named for one, anything else behind its name."""
    if isinstance(value, str | list):
        return _inline(value, language)
    units = _in_language(parameter.keywords, language) if parameter and name in parameter.keywords else []
    if units and parameter and parameter.is_number:
        return f"{value} {units[0] if value == 1 or language == 'zh' else units[-1]}"
    return f"{name.replace('_', ' ')}{'：' if language == 'zh' else ': '}{_inline(value, language)}"


def shortcomings(intent: Intent, language: Language) -> list[str]:
    """What is still needed, what was not run, and what of the message was not used."""
    parts = []
    if intent.asks:
        tools = listed((title(ask.card, language) for ask in intent.asks), language)
        missing = {p.name: p for ask in intent.asks for p in ask.missing}
        lines = (_asked(parameter, language) for parameter in missing.values())
        parts.append("\n".join([offline_text("ask", language, tools=tools), "", *lines, *_quoting(intent, language)]))
    if intent.held:
        form = json.dumps({p.name: "…" for p in intent.held[0].required}, ensure_ascii=False)
        tools = listed((title(card, language) for card in intent.held), language)
        parts.append(offline_text("held", language, tools=tools, form=f"`{intent.held[0].name}({form})`"))
    if intent.effects:
        names = [f"`{card.name}`" for card in intent.effects]
        parts.append(offline_text("effects", language, tools=listed(names, language)))
    if intent.unclear:
        tools = listed((title(fit.card, language) for fit in intent.unclear), language)
        parts.append(offline_text("unclear", language, tools=tools, parts=listed(intent.unused, language)))
    elif intent.unused and not intent.is_empty:
        parts.append(offline_text("unused", language, parts=listed(intent.unused, language)))
    return parts


def _quoting(intent: Intent, language: Language) -> list[str]:
    """How to write a text that is missing, with the words that were not used as an example."""
    for ask in intent.asks:
        if free := [p for p in ask.missing if p.is_free and not p.values]:
            values = [*intent.unused[:1], *["…"] * len(free)][: len(free)]
            form = " ".join([ask.card.spoken, *(f'"{value}"' for value in values)])
            return ["", offline_text("quote", language, form=f"`{form}`")]
    return []


def _asked(parameter: Parameter, language: Language) -> str:
    values = [str(value) for value in parameter.values]
    own = _in_language(values, language)
    line = f"- **{parameter.label.rstrip('.。')}** (`{parameter.name}`)"
    samples = listed((own or values)[:_SAMPLES], language)
    return f"{line} — {offline_text('sample', language, samples=samples)}" if samples else line


def result_text(result: str, language: Language) -> str:
    """An earlier result, without the planner's notice."""
    for notice in (offline_text("notice", "zh"), offline_text("notice", "en")):
        result = "\n\n".join(map(str.strip, result.split(notice)))
    return rendered(result.strip(), language)


def results_text(made: Sequence[PastCall], cards: Sequence[Card], language: Language) -> str:
    """The results one under the other, then what failed."""
    parts, failures = list[str](), list[str]()
    for call in made:
        heading = call.title or call_text(call.name, call.arguments, cards, language)
        if call.error:
            name = "unknown" if call.unknown else "failed"
            failures.append(f"- {offline_text(name, language, call=heading, error=short_error(call.error))}")
        else:
            body = rendered(call.value, language)
            parts.append(body if sum(not each.error for each in made) == 1 else f"### {heading}\n\n{body}")
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


def _begun_json(text: str) -> Any:
    """The value that a text is the JSON of; of one that is truncated as far as its beginning goes."""
    try:
        return from_json(text)
    except ValueError:
        mark = _TRUNCATED.search(text)
        return from_json(text[: mark.start()] if mark else text, allow_partial="trailing-strings")


def short_error(error: str) -> str:
    """The line of an error that says what went wrong: the last of a stack trace, else the first."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] or [error]
    return (lines[-1] if "Traceback" in error else lines[0])[:300]


def rendered(value: Any, language: Language) -> str:
    """A result's `summary` where it has one, else its values, a line each; a truncated one as far as it goes."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = _begun_json(value)
        except ValueError:
            return str(value)
    if isinstance(value, Mapping):
        if isinstance(summary := value.get("summary"), str) and summary.strip():
            return summary.strip()
        return "\n".join(f"- **{name}**: {_inline(inner, language)}" for name, inner in value.items())
    if isinstance(value, list):
        more = [f"- {offline_text('more', language, n=len(value) - MOST_ROWS)}"] if len(value) > MOST_ROWS else []
        return "\n".join([*(f"- {_inline(item, language)}" for item in value[:MOST_ROWS]), *more])
    return _inline(value, language)


def _inline(value: Any, language: Language) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_inline(inner, language)}" for name, inner in value.items())
    if isinstance(value, list):
        return joined((_inline(item, language) for item in value), language)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# The embedded default model: a deterministic planner in the place of a language model.

_READ = 2_000
"""Characters of a message that are searched for keywords and values."""
_PIECES = re.compile(rf"\s*[^\s{CJK}]{{1,16}}|\s*[{CJK}]{{1,3}}|\s+")
_RECAP = re.compile(r"总结|概括|回顾|结果|\b(?:summar\w+|recap|repeat|results?)\b", re.IGNORECASE)
_BRIEF = re.compile(r"\A.*^#+ [^\n]+\n", re.DOTALL | re.MULTILINE)
_CALL_LINE = re.compile(r"^- (?>(.+?): \w+\(\{).*?\}\): ", re.MULTILINE)


class OfflinePlanner:
    """Decides, plans and answers by rules from the request alone: its messages, its tools and the requested schema."""

    name = "offline"
    is_language_model = False
    endpoint = ""

    def __init__(self, pace: int = 0) -> None:
        """`pace` is how many characters it writes a second; 0 is no limit."""
        self._pace = pace

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the reply in pieces."""
        reply = _reply(Task.of(request), request)
        for call in reply.tool_calls:
            yield CallDelta(call.name)
        for piece in _PIECES.findall(reply.text):
            yield TextDelta(piece)
            await asyncio.sleep(len(piece) / self._pace if self._pace else 0)
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

    def say(self, name: str, **slots: object) -> str:
        return offline_text(name, self.language, **slots)

    @cached_property
    def small_talk(self) -> str:
        return small_talk(self.objective, self.cards, self.language)

    @cached_property
    def intent(self) -> Intent:
        """What is asked for, with the reader's language for every argument that may be it."""
        turns = [_readable(m["content"]) for m in self.transcript.conversation if m["role"] == "user"]
        replies = [m["content"] for m in self.transcript.conversation if m["role"] == "assistant"]
        reply = _readable(replies[-1]) if replies else ""
        asks_nothing = self.small_talk or self._concludes
        found = Intent() if asks_nothing else interpret(self.cards, self.objective, turns, reply)
        unread = (self.say("unread", n=_READ),) if len(self.transcript.objective) > _READ else ()
        calls = tuple(self._in_language(call) for call in found.calls)
        return replace(found, calls=calls, unused=found.unused + unread)

    def _in_language(self, call: Call) -> Call:
        named = [p.name for p in call.card.parameters if p.kind == "language" and self.language in (p.values or "zhen")]
        return replace(call, arguments={**call.arguments, **dict.fromkeys(named, self.language)})

    @cached_property
    def outcomes(self) -> Mapping[int, PastCall]:
        """By the place of an intended call what came of it.

        One that a person edited, or whose result is no longer in the prompt, is known by its tool's name.
        """
        calls, found, left = self.intent.calls, dict[int, PastCall](), list[PastCall]()
        for made in (*self.transcript.made, *(PastCall(name, {}) for name in self.transcript.forgotten)):
            same = [place for place, call in enumerate(calls) if call.matches(made.name, made.arguments)]
            found |= dict.fromkeys(same[:1], made)
            left += [] if same else [made]
        for made in left:
            alike = [n for n, call in enumerate(calls) if call.card.name == made.name and n not in found]
            found |= dict.fromkeys(alike[:1], made)
        return found

    @property
    def pending(self) -> list[Call]:
        """The calls of the next round: all that only read, else the next one."""
        waiting = [call for place, call in enumerate(self.intent.calls) if place not in self.outcomes]
        return [call for call in waiting if call.card.read_only] or waiting[:1]

    def thought(self, next_calls: Sequence[Call]) -> str:
        calls = [call_text(c.card.name, c.arguments, self.cards, self.language) for c in next_calls]
        return self.say("think_call", calls=enumerated(calls, self.language)) if calls else self.say("think_answer")

    @property
    def finish_reason(self) -> str:
        """That of the answer: a refusal where no tool fits, an argument is missing, or every call failed."""
        made = self.transcript.made
        answered = self.small_talk or (any(not call.error for call in made) if made else self._recap)
        return "stop" if answered else REFUSAL

    @property
    def answer(self) -> str:
        """The answer in Markdown, with the notice that no language model wrote it."""
        # Of a call that was made more than once, the last counts.
        last = {
            json.dumps([m.name, m.title, m.arguments], sort_keys=True, default=str): m for m in self.transcript.made
        }
        made, error = [*last.values()], self.transcript.error
        parts = self._with_results(made) if made else self._without_results()
        if error and not any(call.error and call.error[:80] in error for call in made):
            parts.append(self.say("error", error=short_error(error)))
        if gone := set(self.transcript.forgotten) - {call.name for call in made}:
            parts.append(self.say("forgotten", tools=", ".join(sorted(gone))))
        return "\n\n".join([*parts, self.say("notice")])

    def _with_results(self, made: Sequence[PastCall]) -> list[str]:
        """The results, and what the calls leave open: a plan's answer does not see the conversation."""
        used = "\n".join(f"{call.title} {call.arguments}" for call in made)
        rest = replace(
            self.intent,
            asks=() if any(call.title for call in made) else self.intent.asks,
            held=tuple(card for card in self.intent.held if all(card.name != call.name for call in made)),
            unused=tuple(part for part in self.intent.unused if part not in used),
        )
        results = results_text(made, self.cards, self.language)
        return [results, *shortcomings(rest, self.language)]

    def _without_results(self) -> list[str]:
        if self.small_talk:
            return [self.small_talk]
        parts = shortcomings(self.intent, self.language)
        if calls := self.intent.calls:
            tools = listed((title(call.card, self.language) for call in calls), self.language)
            parts.insert(0, self.say("not_run", tools=tools))
        if not parts:
            parts = self._recap
        tools = introduced(self.cards, self.language)
        return [part for part in parts if part] or [self.say("no_fit" if self.cards else "no_tools", tools=tools)]

    @cached_property
    def _recap(self) -> list[str]:
        """The results that were found before, where the message asks for them, and what a concluding task adds."""
        if not (self._concludes or _RECAP.search(self.objective)) or self.intent.calls:
            return []
        results = [result_text(result, self.language) for result in self._earlier()]
        if not results or shortcomings(self.intent, self.language):
            return []
        added = [self.objective.removeprefix(self.say("conclude")).lstrip("。. ")] if self._concludes else []
        return [*([] if self._concludes else [self.say("recap")]), *results, *added]

    @property
    def _concludes(self) -> bool:
        """Whether this is the last task of a goal, whose text asks for no tool even where it names one."""
        return self.objective.startswith(self.say("conclude"))

    def _earlier(self) -> list[str]:
        """The results of the latest message that has any, or those that a subtask's brief ends with."""
        results: list[list[str]] = [[]]
        for message in self.transcript.conversation:
            if message["role"] == "user":
                results.append(
                    [_titled(_BRIEF.sub("", message["content"]))] if _BRIEF.search(message["content"]) else []
                )
            elif message["role"] == "tool":
                results[-1].append(message["content"])
        return next((found for found in reversed(results) if found), [])


def _titled(results: str) -> str:
    """The results of a subtask's brief, each under the title of its task; one alone has none."""
    alone = len(_CALL_LINE.findall(results)) == 1
    return _CALL_LINE.sub("" if alone else r"### \1\n\n", results)


def _readable(text: str) -> str:
    """The part of a message that is read, with one kind of apostrophe."""
    return text[:_READ].replace("’", "'")


def _reply(task: Task, request: ModelRequest) -> ModelReply:
    if request.native and task.pending:
        calls = [RawCall("", c.card.name, json.dumps(c.arguments, ensure_ascii=False)) for c in task.pending]
        return ModelReply(task.thought(task.pending), "tool_calls", tool_calls=tuple(calls))
    if request.native or request.schema is None:
        return ModelReply(task.answer, task.finish_reason)
    fields = request.schema.get("properties", {})
    writer = next((write for field, write in _WRITERS.items() if field in fields), None)
    if writer is None:
        kind = request.schema.get("title", "JSON object")
        raise ModelRefused(
            "Structured output ({kind}) needs a language model: set OPENAI_API_KEY or SEGUE_MODEL, or give the agent a "
            "model.",
            kind=kind,
        )
    finish_reason = task.finish_reason if writer is _decision and not task.pending else "stop"
    return ModelReply(json.dumps(writer(task, request), ensure_ascii=False), finish_reason)


def _decision(task: Task, request: ModelRequest) -> dict[str, Any]:
    """The envelope of the react graph: calls that were not made yet, else the answer."""
    calls = [{"function": {"name": call.card.name, "arguments": call.arguments}} for call in task.pending]
    calls = calls if '"CALL_TOOL"' in json.dumps(request.schema) else []
    made = len(task.transcript.made)
    output = {"tool_calls": calls} if calls else {"answer": task.answer}
    return {
        "observe": task.say("saw" if made else "first_round", n=made),
        "thought": task.thought(task.pending),
        "action": {"result": {"action_type": "CALL_TOOL" if calls else "ANSWER", "output": output}},
    }


def _choice(task: Task, request: ModelRequest) -> dict[str, Any]:
    """A controller's decision: the next call, else the answer."""
    command, arguments = "final_answer", {"answer": task.answer}
    if first := task.pending[:1]:
        command, arguments = first[0].card.name, dict(first[0].arguments)
    return {"thought": task.thought(first), "decision": {"command": command, "command_args": arguments}}


def _plan(task: Task, request: ModelRequest) -> dict[str, Any]:
    """A step for each call and one that writes the answer; numbers stay the same when a plan is made again."""
    steps: list[dict[str, Any]] = []
    for number, call in enumerate(task.intent.calls, start=1):
        if number - 1 in task.outcomes and task.outcomes[number - 1].error:
            continue
        needs = [] if call.card.read_only else [step["step"] for step in steps]
        text = call_text(call.card.name, call.arguments, task.cards, task.language)
        common = {"step": number, "description": text, "phase": "execution", "depends_on": needs}
        steps.append({**common, "action": call.card.name, "params": call.arguments})
    needs = [step["step"] for step in steps]
    last = {"step": len(task.intent.calls) + 1, "phase": "generation", "depends_on": needs}
    steps.append({**last, "action": "none", "params": {}, "description": _conclusion(task)})
    return {"goal": task.objective, "steps": steps}


def _tasks(task: Task, request: ModelRequest) -> dict[str, Any]:
    """A task for each call, which it names, and one that concludes."""
    tasks: list[dict[str, Any]] = []
    for call in task.intent.calls:
        needs = [] if call.card.read_only else [before["id"] for before in tasks]
        text = call_text(call.card.name, call.arguments, task.cards, task.language)
        made = {"action": call.card.name, "params": call.arguments}
        tasks.append({"id": str(len(tasks) + 1), "description": text, "dependencies": needs, **made})
    last = _conclusion(task) if tasks else task.objective
    needs = [before["id"] for before in tasks]
    tasks.append({"id": str(len(tasks) + 1), "description": last, "dependencies": needs})
    common = {"type": "task", "timeout": None}
    return {"tasks": [{**each, "priority": place, **common} for place, each in enumerate(tasks, start=1)]}


def _conclusion(task: Task) -> str:
    """What the last step does: it writes the answer, and says what is missing or was not used."""
    markdown = " ".join(shortcomings(task.intent, task.language))
    open_parts = " ".join(markdown.replace("**", "").replace("`", "").split())
    if task.intent.calls or not open_parts:
        end = "。" if task.language == "zh" else ". "
        return task.say("conclude") + (end + open_parts if open_parts else "")
    return open_parts


_WRITERS = {"action": _decision, "decision": _choice, "steps": _plan, "tasks": _tasks}
"""What writes an object, by a field of the requested schema."""
