"""Records of a recorded session, their YAML file, and how a replay differs."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from ...core.calls import Tool
from ...core.context import Ids, TaskId, TraceId
from ...core.errors import ConfigurationError, SegueError
from ...core.records import Json
from ...core.task import ANYBODY, Language
from ...models.transcript import digest, indented
from ...prompts.catalogue import terminal_text
from ...runtime.reply import ReplyText
from ...tools.bound_tool import Marks

VERSION: Final = 1
"""The version of the format."""
Level = Literal["requests", "calls"]
"""What a replay compares: the requests to the model, too, or only calls, questions and outcomes."""


def canonical(arguments: Mapping[str, Any]) -> str:
    """One text per value, whatever the order of its keys."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


class Record(BaseModel):
    """A part of a cassette."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FunctionCall(Record):
    """A function call as the model wrote it."""

    id: str
    name: str
    arguments: str


class Reply(Record):
    """What the model replied; `error` is how it refused.

    `streamed` says that text which calls follow was shown as the answer before they arrived.
    """

    reasoning: str = ""
    text: str = ""
    tool_calls: tuple[FunctionCall, ...] = ()
    finish_reason: str = ""
    streamed: bool = False
    error: str = ""


class ModelCall(Record):
    """A call of the model: the request with its digest, and the reply with its tokens.

    `at` is seconds of work since the task began. `request` is empty where the agent has changed since.
    """

    purpose: str
    model: str
    at: float
    digest: str
    request: str = ""
    reply: Reply
    input: int = 0
    output: int = 0


class ToolCall(Record):
    """A tool call with its outcome, {"success": value} or {"error": text}; None if the task was cancelled before."""

    name: str
    arguments: Json
    at: float
    outcome: Json | None = None

    @property
    def text(self) -> str:
        """The call on one line."""
        return f"{self.name}({canonical(self.arguments)})"


class TakenNotes(Record):
    """The first `count` notes reached the agent after so many model and tool calls."""

    count: int
    model_calls: int
    tool_calls: int


class Answer(Record):
    """A person's answer, and what they were asked: a question, or the calls to approve."""

    asked: str
    value: Json


def asked_of(question: Json) -> str:
    """What a person is asked, as a text: the question, or one line for each call."""
    calls = (ToolCall(name=call["name"], arguments=call["arguments"], at=0.0) for call in question.get("calls", ()))
    return str(question.get("question") or "\n".join(call.text for call in calls))


class Turn(Record):
    """A message and its task.

    `model` is one that took the place of the agent's own. `failure` is the error that ended a task without a result,
    `partial` what a cancelled one had streamed of its answer.
    """

    message: str
    task_id: str
    agent: str
    mode: str
    model: str = ""
    language: Language | Literal[""] = ""
    user: str = ANYBODY
    created_at: float
    trace_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    taken_notes: tuple[TakenNotes, ...] = ()
    answers: tuple[Answer, ...] = ()
    permitted: tuple[str, ...] = ()
    """Tools that ran without a question, because a person had allowed them."""
    model_calls: tuple[ModelCall, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    status: Literal["done", "error", "cancelled"]
    answer: str = ""
    error: str = ""
    failure: str = ""
    partial: str = ""


class ServedTool(Record):
    """A tool of an MCP server as it was described: its specification in OpenAI's format, and its marks.

    Each mark that replays need is a field of the mark's name. `foreign`: nobody trusted the description.
    """

    spec: Json
    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False
    foreign: bool = False

    @classmethod
    def of(cls, tool: Tool) -> Self:
        marks = {name: getattr(tool, name) for name in cls.model_fields if name in Marks.__annotations__}
        return cls(spec=dict(tool.spec), foreign=bool(tool.foreign_text), **marks)

    @property
    def marks(self) -> Marks:
        return Marks(**{name: value for name, value in self if name in Marks.__annotations__})


class Cassette(Record):
    """A session. `messages` is its history in OpenAI's format, `served` the tools of each agent's MCP servers."""

    version: Literal[1] = VERSION
    level: Level = "requests"
    session: str
    served: dict[str, tuple[ServedTool, ...]] = {}
    turns: tuple[Turn, ...]
    messages: tuple[dict[str, Any], ...]


_Edit = dict[str, Any]
"""{"line", "removed"?, "added"?}: what takes the place of lines, which count from 1 in the text before."""


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """Writes a text of several lines as a block."""


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def write_cassette(cassette: Cassette, path: str | Path) -> None:
    """Write the file, in place of an earlier one, which stays where it cannot be written."""
    file = Path(path)
    beside = file.with_name(f".{file.name}.new")
    try:
        with suppress(FileExistsError):  # a file, which writing tells of as "Not a directory"
            file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(dump(cassette), encoding="utf-8")
        os.replace(beside, file)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise ConfigurationError(
            "The cassette {file} cannot be written: {reason}.", file=path, reason=error.strerror or str(error)
        ) from error


def read_cassette(path: str | Path) -> Cassette:
    """Read a file that `write_cassette` wrote."""
    try:
        return load(Path(path).read_text(encoding="utf-8-sig"))
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
    raise ConfigurationError(
        "The cassette {file} cannot be read: {reason}.",
        file=path,
        reason=reason,
    )


def dump(cassette: Cassette) -> str:
    """The cassette as YAML."""
    form = cassette.model_dump(mode="json", exclude_defaults=True)
    form = {"version": VERSION, **form}
    _each_request(form, _edits)
    return str(yaml.dump(form, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20))


def load(text: str) -> Cassette:
    """The cassette of a YAML text."""
    form = yaml.load(text, Loader=_Loader)
    if not isinstance(form, dict) or form.get("version") != VERSION:
        raise ValueError(f"it is not a cassette of version {VERSION}")
    _each_request(form, _edited)
    return Cassette.model_validate(form)


def _each_request(form: Json, convert: Callable[[str, Any], Any]) -> None:
    """Put each request in its other form; `convert` is also given the text of the last one of its purpose."""
    last: dict[str, str] = {}
    for turn in form["turns"]:
        for call in turn.get("model_calls", ()):
            if given := call.get("request"):
                call["request"] = convert(last.get(call["purpose"], ""), given)
                last[call["purpose"]] = given if isinstance(given, str) else call["request"]


def _edits(before: str, text: str) -> str | list[_Edit]:
    if not before:
        return text
    old, new = before.split("\n"), text.split("\n")
    found = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    edits = [(first, last - first, new[start:end]) for tag, first, last, start, end in found if tag != "equal"]
    return [
        {"line": first + 1, **({"removed": removed} if removed else {}), **({"added": added} if added else {})}
        for first, removed, added in edits
    ] or [{"line": 1}]


def _edited(before: str, given: str | list[_Edit]) -> str:
    if isinstance(given, str):
        return given
    lines = before.split("\n")
    for edit in reversed(given):
        first = edit["line"] - 1
        lines[first : first + edit.get("removed", 0)] = edit.get("added", ())
    return "\n".join(lines)


# Differences between a replay and its recording, with a readable comparison.

Kind = Literal["request", "model_call", "tool_call", "left_out", "question", "outcome", "messages"]
CONTEXT = 2
"""Lines that are shown around a difference."""
_AROUND = 120
_LONGEST = 2 * _AROUND


@dataclass(frozen=True)
class Difference:
    """The first difference: in which turn, of what kind, and both sides as text. `call` counts from 1."""

    turn: int
    kind: Kind
    then: str
    now: str
    call: int = 0
    did: str = ""
    """What the agent did then, where a request differs."""

    def headline(self, language: str = "en") -> str:
        return terminal_text(f"replay_{self.kind}", language, turn=self.turn, call=self.call)

    def describe(self, language: str = "en") -> str:
        """The headline and the comparison."""
        if self.kind == "request" and not self.then:
            shown = [terminal_text("replay_no_text", language)]
        else:
            shown = [*compared(self.then, self.now)]
        did = [terminal_text("replay_did", language, did=self.did)] if self.did else []
        return "\n".join([self.headline(language), *did, "", *shown])


def compared(then: str, now: str) -> Iterator[str]:
    """The lines that differ, as in a unified diff; of very long lines only what surrounds the difference."""
    old, new = then.split("\n"), now.split("\n")
    yield "--- recorded"
    yield "+++ now"
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield f"@@ -{group[0][1] + 1},{group[-1][2] - group[0][1]} +{group[0][3] + 1},{group[-1][4] - group[0][3]} @@"
        for tag, first, last, start, end in group:
            if tag == "equal":
                yield from (f" {_begun(line)}" for line in old[first:last])
            else:
                yield from _changed(old[first:last], new[start:end])


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    places = [_first_difference(a, b) for a, b in zip(old, new, strict=False)]
    beyond = max(len(old), len(new)) - len(places)
    places += [0] * beyond
    yield from (f"-{_excerpt(line, place)}" for line, place in zip(old, places, strict=False))
    yield from (f"+{_excerpt(line, place)}" for line, place in zip(new, places, strict=False))


def _first_difference(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _excerpt(line: str, place: int) -> str:
    """The line, or what of a long one is near a place."""
    if len(line) <= _LONGEST:
        return line
    first = max(place - _AROUND, 0)
    return f"{'…' if first else ''}{line[first : place + _AROUND]}{'…' if place + _AROUND < len(line) else ''}"


def _begun(line: str) -> str:
    return _excerpt(line, 0)


def replied(call: ModelCall) -> str:
    """What the model replied, in short: its refusal, its calls, or its text."""
    made = [f"{called.name}({called.arguments})" for called in call.reply.tool_calls]
    return _begun(" ".join((call.reply.error or "; ".join(made) or call.reply.text).split()))


def difference_of_messages(cassette: Cassette, now: Sequence[Json]) -> Difference | None:
    """The difference between the histories, if there is one."""
    then, made = _numbered(cassette.messages), _numbered(now)
    if then == made:
        return None
    return Difference(_turn_of_message(cassette, then, made), "messages", indented(then), indented(made))


def _numbered(messages: Sequence[Json]) -> list[Json]:
    """The messages with numbers as the ids of calls: those of a fork's copied turns are of the original's tasks."""
    numbers: dict[str, str] = {}

    def numbered(message: Json) -> Json:
        made = dict(message)
        if calls := message.get("tool_calls"):
            made["tool_calls"] = [{**call, "id": number(call["id"])} for call in calls]
        if "tool_call_id" in message:
            made["tool_call_id"] = number(message["tool_call_id"])
        return made

    def number(call_id: str) -> str:
        return numbers.setdefault(call_id, str(len(numbers) + 1))

    return [numbered(message) for message in messages]


def _turn_of_message(cassette: Cassette, then: Sequence[Json], now: Sequence[Json]) -> int:
    """The turn of the first message that differs."""
    pairs = zip(then, now, strict=False)
    first = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(then), len(now)))
    begun = 0
    for message in then[: first + 1]:
        if begun < len(cassette.turns) and message.get("content") == cassette.turns[begun].message:
            begun += 1
    return max(begun, 1)


# The position in a recorded session while it is replayed.

OnCall = Callable[[ToolCall, bool], None]
"""Hears of each tool call of a live turn, and whether its recorded result was reused."""


class Tape:
    """What was recorded, and how much of it the replay has used.

    From turn `live_from` on, models are called, and tools run from the first call that was not recorded. Without
    `compare`, requests may differ from those that were sent.
    """

    def __init__(self, cassette: Cassette, *, live_from: int | None = None, compare: bool = True) -> None:
        self.cassette = cassette
        self.difference: Difference | None = None
        self.runs_tools = False
        """Whether a live turn made a call that was not recorded."""
        self.on_call: OnCall = lambda call, reused: None
        self._live_from = live_from
        self._compare = compare and live_from is None
        self.texts: dict[tuple[int, int], str] = {}
        """The requests of this replay, by turn and place."""
        self.begin(1)

    def begin(self, number: int) -> Turn:
        """Go to the beginning of a turn; the first is 1."""
        self.number = number
        self.turn = self.cassette.turns[number - 1]
        self.elapsed = 0.0
        self.stopped = asyncio.Event()
        """Set where a cancelled task reaches what was under way when it was cancelled."""
        self._asked: list[int] = [*range(len(self.turn.model_calls))]
        self._called: list[ToolCall] = [*self.turn.tool_calls]
        self._answers: list[Answer] = [*self.turn.answers]
        self._trace_ids = iter(self.turn.trace_ids)
        self.streamed = ReplyText()
        return self.turn

    @property
    def continues(self) -> bool:
        """Whether there are live turns."""
        return self._live_from is not None

    def answer_to(self, question: Json) -> Answer | None:
        """The next recorded answer, if it was to this question."""
        asked, then = asked_of(question), self._answers[0].asked if self._answers else ""
        if self._answers and asked == then:
            return self._answers.pop(0)
        if self._answers or self.turn.status != "cancelled":
            self.difference = self.difference or Difference(self.number, "question", then, asked)
        return None

    @property
    def live(self) -> bool:
        """Whether this turn is not replayed but continued."""
        return self._live_from is not None and self.number >= self._live_from

    @property
    def model(self) -> str:
        """The name of the model that the next call was made to."""
        calls = self.turn.model_calls
        return calls[self._asked[0]].model if self._asked else calls[-1].model if calls else "offline"

    def next_trace_id(self) -> str | None:
        return next(self._trace_ids, None)

    def clock(self) -> float:
        """The time of what was replayed last: a task's budget of seconds is spent where it was spent."""
        return self.turn.created_at + self.elapsed

    def notes(self) -> tuple[str, ...]:
        """The notes that had reached the agent by now; in a live turn all of them."""
        if self.live:
            return self.turn.notes
        asked = len(self.turn.model_calls) - len(self._asked)
        ran = len(self.turn.tool_calls) - len(self._called)
        reached = [t.count for t in self.turn.taken_notes if t.model_calls <= asked and t.tool_calls <= ran]
        return self.turn.notes[: max(reached, default=0)]

    @property
    def unstreamed(self) -> str:
        """What a cancelled task had streamed of its answer beyond what the replay has."""
        return self.turn.partial.removeprefix(self.streamed.whole)

    async def reply_to(self, text: str, cut: Callable[[], None]) -> ModelCall:
        """The recorded call with this request; `cut` is called where the task was cancelled before a reply."""
        sent = digest(text)
        if not self._asked:
            await self._end_of_recording(text, cut)
        calls: tuple[ModelCall, ...] = self.turn.model_calls
        place = next((place for place in self._asked if calls[place].digest == sent), self._asked[0])
        if self._compare and calls[place].digest != sent:
            self._differ("request", calls[place].request, text, place + 1, replied(calls[place]))
        self._asked.remove(place)
        self.texts[self.number, place] = text
        self._move_on(calls[place].at)
        return calls[place]

    def skip(self, sent: str) -> None:
        """Go on behind the recorded call with this request's digest, else behind the next one."""
        calls = self.turn.model_calls
        place = next((place for place in self._asked if calls[place].digest == sent), next(iter(self._asked), None))
        if place is not None:
            self._asked.remove(place)

    async def _end_of_recording(self, text: str, cut: Callable[[], None]) -> NoReturn:
        """A request after the last one that was answered."""
        if self.turn.status == "cancelled":
            cut()
            await self._stop()
        if self.turn.failure:
            raise SegueError(self.turn.failure)
        self._differ("model_call", "", text, len(self.turn.model_calls) + 1)

    async def result_of(self, name: str, arguments: Mapping[str, Any]) -> Json | None:
        """The recorded outcome of a call; None where it has to run."""
        wanted = canonical(arguments)
        made = (c for c in self._called if c.name == name and canonical(c.arguments) == wanted)
        found = None if self.runs_tools else next(made, None)
        if self.live:
            return self._reused(name, arguments, found)
        if found is None:
            then = self._called[0].text if self._called else ""
            place = len(self.turn.tool_calls) - len(self._called) + 1
            self._differ("tool_call", then, f"{name}({wanted})", place)
        if found.outcome is None:
            await self._stop()
        self.use(found)
        return found.outcome

    def use(self, call: ToolCall) -> None:
        """Go on behind a recorded call that was made again."""
        self._called.remove(call)
        self._move_on(call.at)

    def _reused(self, name: str, arguments: Mapping[str, Any], found: ToolCall | None) -> Json | None:
        """The outcome in a live turn: from the first call that was not recorded, tools run."""
        outcome = found.outcome if found else None
        self.runs_tools = outcome is None
        if found and outcome is not None:
            self._called.remove(found)
        self.on_call(ToolCall(name=name, arguments=dict(arguments), at=0.0), outcome is not None)
        return outcome

    def left_out(self) -> Difference | None:
        """The first recorded call or question of the turn that the replay did not come to."""
        if self._asked:
            place = self._asked[0]
            return Difference(self.number, "left_out", replied(self.turn.model_calls[place]), "", place + 1)
        if self._called and self._called[0].outcome is not None:
            place = self.turn.tool_calls.index(self._called[0])
            return Difference(self.number, "left_out", self._called[0].text, "", place + 1)
        if self._answers:
            return Difference(self.number, "question", self._answers[0].asked, "")
        return None

    def _move_on(self, at: float) -> None:
        self.elapsed = max(self.elapsed, at)

    async def _stop(self) -> NoReturn:
        """Wait to be cancelled."""
        self.stopped.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    def _differ(self, kind: Kind, then: str, now: str, call: int, did: str = "") -> NoReturn:
        self.difference = self.difference or Difference(self.number, kind, then, now, call, did)
        raise SegueError("The replay differs from the recording.")


class RecordedIds(Ids):
    """The ids of the recording, as long as there are some."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def task(self) -> TaskId:
        return TaskId(self._tape.turn.task_id)

    def trace(self) -> TraceId:
        recorded = self._tape.next_trace_id()
        return TraceId(recorded) if recorded else super().trace()
