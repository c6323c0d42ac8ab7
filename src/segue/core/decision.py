"""A model's decision in one recursion, its reading from a reply, and the marks of thoughts around it."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .errors import UnreadableReply
from .plan import Phase, Status, Step, lines_of, numbered_line

# The marks of a model's thoughts: one list for all models and both protocols.
#
# They are compared without regard to case. OpenAI's open models write channels; where an endpoint removes their special
# tokens, `assistantfinal` is left of the end of the thoughts.

_FINAL = ("<|channel|>final", "assistantfinal")
_CHANNEL = ("<|end|>", "<|call|>", *_FINAL)
MARKS: Mapping[str, tuple[str, ...]] = {
    "<think>": ("</think>",),
    "<thinking>": ("</thinking>",),
    "<thought>": ("</thought>",),
    "<thoughts>": ("</thoughts>",),
    "<reasoning>": ("</reasoning>",),
    "<seed:think>": ("</seed:think>",),
    "<mm:think>": ("</mm:think>",),
    "<longcat_think>": ("</longcat_think>",),
    "<scratchpad>": ("</scratchpad>",),
    "[think]": ("[/think]",),
    "◁think▷": ("◁/think▷",),
    "<|begin_of_thought|>": ("<|end_of_thought|>",),
    "<|start_thinking|>": ("<|end_thinking|>",),
    "<|begin_of_thinking|>": ("<|end_of_thinking|>",),
    "<|inner_prefix|>": ("<|inner_suffix|>",),
    "<|channel>thought": ("<channel|>",),
    "<unused94>thought": ("<unused95>",),
    "<|channel|>analysis": _CHANNEL,
    "<|channel|>commentary": _CHANNEL,
}
"""What closes a thought, by what opens it."""
CLOSINGS = tuple(dict.fromkeys(closing for each in MARKS.values() for closing in each if closing not in _CHANNEL[:2]))
"""What closes a thought even where nothing opens it, as the prompt did: some chat templates end in an opening mark."""
_END_MARKS = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>", "<end_of_turn>",
    "<｜end▁of▁sentence｜>", "<|end_response|>",
)  # fmt: skip
"""What ends a model's turn, where an endpoint does not take it away."""
EMPTY_MARKS = (
    "<|start_response|>",
    *_END_MARKS,
    "<|start|>assistant",
    "<|channel|>final",
    "<|constrain|>json",
    "<|message|>",
    "<|end|>",
    "<|return|>",
)
"""What may stand around thoughts and means nothing by itself."""


def any_of(marks: Iterable[str]) -> str:
    """A pattern that finds any of the marks."""
    return "|".join(map(re.escape, marks))


OPENING = re.compile(any_of(MARKS), re.IGNORECASE)
WITHIN = tuple(mark for mark in MARKS if mark != "<|channel|>commentary")
"""What opens a thought within a text; there a comment is a call, or words for the user."""
OPENING_WITHIN = re.compile(any_of(WITHIN), re.IGNORECASE)
CLOSING = re.compile(any_of(CLOSINGS), re.IGNORECASE)
EMPTY = re.compile(rf"(?:(?:{any_of(EMPTY_MARKS)})\s*)+", re.IGNORECASE)
LEAKED = re.compile(r"\A\s*+(?:assistant)?analysis(?=[A-Z{\[\"'(<])")
"""The beginning of a thought whose special tokens were removed; what follows is the thought without a space."""
_CLOSING_OF = {opening: re.compile(any_of(closings), re.IGNORECASE) for opening, closings in MARKS.items()}
LONGEST = max(map(len, (*MARKS, *CLOSINGS, *EMPTY_MARKS)))


def closing_of(opening: str) -> re.Pattern[str]:
    """What closes the thought that a mark opens."""
    return _CLOSING_OF[opening.lower()]


_PARTS = re.compile(r"\n|`+|[^\n`]+")
_FENCE_LINE = re.compile(r"[ >]*+(?:[-*+] |\d{1,9}[.)] )? *+(`{3,}+|~{3,}+)[^`]*+\Z")
_BEGINNING_CHARS = 200
QUOTES = ('"', "'", "“", "‘", "「")
_QUOTE_SIGNS = re.compile('["“”„«»「」『』]')
_CLOSING_SIGNS = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」", "『": "』"}
_HTML = re.compile(r"<(/?)(?:pre|code|blockquote)\b", re.IGNORECASE)


class CodeMarks:
    """Whether what follows a Markdown text, as it arrives, is in code: in a block, or within backticks of its line."""

    def __init__(self) -> None:
        self._fence = ""
        """What opened the block."""
        self._beginning = ""
        """The beginning of the last line."""
        self._ticks = 0
        """The backticks that opened the code of the line."""
        self._run = 0
        """The backticks at the end of the text."""
        self._last = ""
        self._closing_signs = ""
        """What closes the quotation of the line."""
        self._in_html = False
        """Whether an HTML element of code, or of a quotation, was open where the last line began."""
        self._has_words = False
        """Whether a line before the last one is not blank."""
        self._indents_code = False
        """Whether an indented line is code: it follows a blank line, or one that is."""

    @property
    def is_open(self) -> bool:
        """Whether it is in code, or behind a quotation mark."""
        return bool(self._fence or self._opened()) or self._is_indented or self._last in QUOTES

    @property
    def is_quoted(self) -> bool:
        """Whether it is in code or in a quotation: of Markdown, of HTML, or between quotation marks of its line."""
        by_line = (self._indents_code and self._is_indented) or self._beginning.lstrip().startswith(">")
        in_block = bool(self._fence or self._opened()) or self._html_is_open()
        return by_line or in_block or bool(self._closing_signs) or self._last in QUOTES

    @property
    def line(self) -> str:
        """The beginning of the last line."""
        return self._beginning

    @property
    def _is_indented(self) -> bool:
        return self._beginning.startswith(("    ", "\t"))

    def _html_is_open(self) -> bool:
        tags = _HTML.findall(self._beginning)
        return not tags[-1] if tags else self._in_html

    @property
    def begins_line(self) -> bool:
        return not self._beginning.strip()

    @property
    def ends_blank(self) -> bool:
        """Whether the text ends in a space, or is empty."""
        return not self._last or self._last.isspace()

    @property
    def ends_in_space(self) -> bool:
        return self._last == " "

    def add(self, text: str) -> None:
        for part in _PARTS.findall(text):
            if part == "\n":
                self._end_line()
                continue
            self._beginning += part[: max(0, _BEGINNING_CHARS - len(self._beginning))]
            if part.startswith("`"):
                self._run += len(part)
            else:
                self._ticks, self._run = self._opened(), 0
                for sign in _QUOTE_SIGNS.findall(part):
                    closes = sign in self._closing_signs
                    self._closing_signs = "" if closes else self._closing_signs or _CLOSING_SIGNS.get(sign, "")
        self._last = text[-1:] or self._last

    def _opened(self) -> int:
        """The backticks that open code at the end of the text: so many close it again."""
        if not self._run or (self._ticks and self._run != self._ticks):
            return self._ticks
        return 0 if self._ticks else self._run

    def _end_line(self) -> None:
        fence = _FENCE_LINE.match(self._beginning)
        if fence and not self._fence:
            self._fence = fence[1]
        elif fence and self._beginning.strip().strip(self._fence[0]) == "" and fence[1].startswith(self._fence):
            self._fence = ""
        self._in_html = self._html_is_open()
        if self.begins_line:
            self._indents_code = self._has_words
        else:
            self._indents_code &= self._is_indented
            self._has_words = True
        self._beginning, self._ticks, self._run, self._closing_signs = "", 0, 0, ""


def begun_mark(text: str, marks: Iterable[str]) -> int:
    """How many characters at the end of a text may be the beginning of one of the marks."""
    end, known = text[-LONGEST:].lower(), _beginnings(tuple(marks))
    return next((n for n in range(len(end), 0, -1) if end[-n:] in known), 0)


@cache
def _beginnings(marks: tuple[str, ...]) -> frozenset[str]:
    return frozenset(mark[:n] for mark in marks for n in range(1, len(mark) + 1))


# The decision of one recursion.


class ActionType(StrEnum):
    """The actions of the state machine; REFLECT is a round that only thinks."""

    CALL_TOOL = "CALL_TOOL"
    PLAN = "PLAN"
    REMEND = "REMEND"
    CLARIFY = "CLARIFY"
    ANSWER = "ANSWER"
    REFLECT = "REFLECT"


_STATUS_WORDS = {"completed": "done", "complete": "done", "in_progress": "running", "failed": "error"}
SYNONYMS = {"RE_PLAN": "PLAN", "REPLAN": "PLAN", "FINISH": "ANSWER", "ASK_USER": "CLARIFY"}
_OFFERED = [kind.value for kind in ActionType if kind not in (ActionType.CLARIFY, ActionType.REFLECT)]


class RequestedCall(BaseModel):
    """A tool call that the model asks for."""

    model_config = ConfigDict(frozen=True)

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    call_id: str = ""
    """The provider's id, in the native protocol; it may repeat within a thread."""


class StepStatusUpdate(BaseModel):
    """What the model says of a step."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step_id: str
    status: Status

    @field_validator("step_id", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> str:
        return str(value)

    @field_validator("status", mode="before")
    @classmethod
    def _known_status(cls, value: object) -> str:
        return _status_word(value)


class Decision(BaseModel):
    """Observe, thought and action of one recursion."""

    model_config = ConfigDict(frozen=True)

    observe: str = ""
    thought: str = ""
    action_type: ActionType
    tool_calls: tuple[RequestedCall, ...] = ()
    plan: tuple[Step, ...] = ()
    notes: str = ""
    diagnosis: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    answer: str = ""
    step_id: str = ""
    step_status_update: tuple[StepStatusUpdate, ...] = ()
    said: str = ""
    """Text before the calls that was streamed as part of the answer, in the native protocol."""
    control_id: str = ""
    """The provider's id of the control tool's call that this decision came as, in the native protocol."""
    message_id: str | None = None
    """The id under which the answer was streamed as a message."""
    kept: dict[str, Any] = {}
    """What the model wants back with the calls, in the native protocol."""
    truncated: bool = False
    """The answer ended at the limit of tokens that the message sets."""
    malformed: bool = False
    """Whether no decision could be read, and the text of the reply is the answer."""
    refused: bool = False
    """Whether the answer says why there is none."""

    @property
    def output(self) -> dict[str, Any]:
        """The action's output in the form of the envelope."""
        calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in self.tool_calls]
        plan = [_shown(step) for step in self.plan]
        match self.action_type:
            case ActionType.CALL_TOOL:
                return {"tool_calls": calls}
            case ActionType.PLAN:
                return {"plan": plan, "notes": self.notes}
            case ActionType.REMEND:
                return {"diagnosis": self.diagnosis} | ({"tool_calls": calls} if calls else {"plan": plan})
            case ActionType.CLARIFY:
                return {"question": self.question} | ({"choices": [*self.choices]} if self.choices else {})
            case ActionType.ANSWER:
                return {"answer": self.answer}
            case ActionType.REFLECT:
                return {"summary": self.notes} if self.notes else {}


def _shown(step: Step) -> dict[str, Any]:
    """A step as the envelope has it; its tool and parameters only where the plan names them."""
    named = {"action": step.action, "params": step.params} if step.action else {}
    return {"step_id": step.step_id, "description": step.description, "status": step.status.value, **named}


_FENCE = "```"
_OPENING_FENCE = re.compile(rf"\s*{_FENCE}[\w-]*\s*")
_OPENING = re.compile(r'\{(?=\s*["}])')
_NEXT = re.compile(
    rf'(?P<object>\{{(?=\s*["}}]))|(?P<opening>{OPENING.pattern})|(?P<closing>{CLOSING.pattern})', re.IGNORECASE
)
"""What means something in the text around the objects of a reply."""
_BRACE = re.compile(r"[{}]")
_GOES_ON = re.compile(r'\s*,\s*"[^"]*"\s*:')
_DECODER = json.JSONDecoder(strict=False)
_MOST_BROKEN = 1000
"""Broken objects that are passed over; each of them costs up to the length of the text."""


def holds_object(text: str) -> bool:
    """Whether a text holds what may be the beginning of a JSON object."""
    return bool(_OPENING.search(text))


def read_object(text: str, *keys: str) -> dict[str, Any]:
    """The first JSON object in a reply."""
    return find_object(text, *keys)[0]


def find_object(text: str, *keys: str) -> tuple[dict[str, Any], str]:
    """The first JSON object in a reply and its text; thoughts, code fences and prose are passed over.

    With `keys`, those of what the reply decides, another object that has one of them may only repeat the first one.
    """
    start, broken, begun = 0, 0, _Objects(keys)
    if LEAKED.match(text) and not CLOSING.search(text):
        raise UnreadableReply("The reply is only a thought: write the decision behind it.")
    while broken < _MOST_BROKEN and (mark := _NEXT.search(text, start)):
        if mark["closing"]:
            begun, start = _Objects(keys), mark.end()
        elif mark["opening"]:
            closing = closing_of(mark[0]).search(text, mark.end())
            start = closing.end() if closing else len(text)
            if empty := EMPTY.match(text, start):
                start = empty.end()
        elif (end := begun.add(text, mark.start())) is None:
            start, broken = _end_of_braces(text, mark.start()), broken + 1
        else:
            start = end
    return begun.first(text)


class _Objects:
    """The JSON objects of a reply so far."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = keys
        self._first: tuple[dict[str, Any], str] | None = None
        self._refusal: UnreadableReply | None = None
        self._is_empty = False
        self._is_ambiguous = False

    def add(self, text: str, start: int) -> int | None:
        """Read the object that begins at a place; return where it ends, None where it is broken."""
        try:
            found, end = _DECODER.raw_decode(text, start)
            check_storable(found)
        except (ValueError, RecursionError) as error:
            self._add_broken(text[start:], error)
            return None
        if self._first is None and _GOES_ON.match(text, end):
            after = text[end : end + 100]
            raise UnreadableReply(
                "The reply's JSON goes on after its last brace, check the braces: {after!r}.", after=after
            )
        if found and self._first is None:
            self._first = found, text[start:end]
        elif found and not found.keys().isdisjoint(self._keys):
            self._is_ambiguous |= _render_decision(found) != _render_decision(self._known)
        self._is_empty |= not found
        return end

    def _add_broken(self, text: str, error: Exception) -> None:
        if self._first is None:
            self._refusal = self._refusal or UnreadableReply(
                "The reply's JSON cannot be read ({error}): {begins!r}.", error=error, begins=text[:200]
            )
        elif not self._first[1].startswith(text.rstrip()):  # a repeat may be cut
            self._is_ambiguous |= any(f'"{key}"' in text for key in self._keys)

    @property
    def _known(self) -> dict[str, Any]:
        return self._first[0] if self._first else {}

    def first(self, text: str) -> tuple[dict[str, Any], str]:
        """The first object that says something, with its text."""
        if self._is_ambiguous and not self._known.keys().isdisjoint(self._keys):
            raise UnreadableReply(
                "The reply decides two different things, so nothing was run: write one JSON object, and nothing else."
            )
        if self._first:
            return self._first
        if self._is_empty:
            return {}, ""
        raise self._refusal or UnreadableReply("The reply holds no JSON object: {text!r}.", text=text.strip()[:200])


def _render_decision(envelope: Mapping[str, Any]) -> str:
    """What an object decides, whatever it says of that."""
    kept = {name: value for name, value in envelope.items() if name not in ("observe", "thought")}
    return json.dumps(kept, sort_keys=True)


def _end_of_braces(text: str, start: int) -> int:
    """Where the braces that open at `start` are all closed again; the end of the text if they never are."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return len(text)


MAX_DEPTH = 100
"""How deep a value may be nested that a model writes: stores and streams take little more than twice as much."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def storable_text(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD in the place of lone surrogates."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def check_storable(value: Any) -> None:
    """Raise ValueError where no store or stream could hold the value.

    That is NaN, lone surrogates, huge integers and deep nesting.
    """
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise ValueError("an integer is longer than 64 bits: write it as a string")
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack += [(each, depth + 1) for each in inner]


def decode(text: str) -> Decision:
    """Read a reply of the json protocol, in the source's envelope or its flat form."""
    envelope = read_object(text, "action")
    action = envelope.get("action")
    if not isinstance(action, dict):
        raise UnreadableReply('The reply has no "action" object.')
    inner = action.get("result") if isinstance(action.get("result"), dict) else action
    assert isinstance(inner, dict)
    kind = _action_type(inner.get("action_type"))
    output = _output(inner.get("output"), kind)
    try:
        return Decision(
            observe=str(envelope.get("observe") or ""),
            thought=str(envelope.get("thought") or ""),
            action_type=kind,
            step_id=str(inner.get("step_id") or ""),
            step_status_update=inner.get("step_status_update") or action.get("step_status_update") or (),
            **_details(kind, output),
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableReply("The decision's {where} cannot be read: {why}.", where=where, why=first["msg"]) from error


def _action_type(given: Any) -> ActionType:
    name = SYNONYMS.get(str(given).strip().upper(), str(given).strip().upper())
    if name not in ActionType.__members__:
        raise UnreadableReply(
            "The action_type {given} is not allowed; use one of: {known}.", given=repr(given), known=", ".join(_OFFERED)
        )
    return ActionType(name)


def _output(given: Any, kind: ActionType) -> dict[str, Any]:
    """The output as an object: some models write it as a string, or write the one thing that belongs in it."""
    if isinstance(given, str) and given.strip():
        inner = _inside(given)
        if isinstance(inner, dict) or (isinstance(inner, list) and kind is not ActionType.ANSWER):
            given = inner
    if isinstance(given, dict):
        return given
    if isinstance(given, str) and kind in _SAID_IN:
        return {_SAID_IN[kind]: given}
    if isinstance(given, (str, list)):
        return {"tool_calls" if kind is ActionType.CALL_TOOL else "plan": given}
    return {}


_SAID_IN = {ActionType.ANSWER: "answer", ActionType.CLARIFY: "question", ActionType.REFLECT: "summary"}


def _inside(text: str) -> Any:
    """The JSON value that a string holds, or None."""
    try:
        value = json.loads(_unfenced(text), strict=False)
        check_storable(value)
    except (ValueError, RecursionError):
        return None
    return value


def _unfenced(text: str) -> str:
    opening = _OPENING_FENCE.match(text)
    inner = text[opening.end() :] if opening else text
    ended = inner.rstrip()
    return ended.removesuffix(_FENCE).rstrip() if ended.endswith(_FENCE) else inner


def _details(kind: ActionType, output: Mapping[str, Any]) -> dict[str, Any]:
    match kind:
        case ActionType.CALL_TOOL:
            return {"tool_calls": _calls(output)}
        case ActionType.PLAN:
            return {"plan": read_steps(output.get("plan")), "notes": str(output.get("notes") or "")}
        case ActionType.REMEND:
            given = {"diagnosis": str(output.get("diagnosis") or "")}
            if output.get("tool_calls"):
                return {**given, "tool_calls": _calls(output)}
            return {**given, "plan": read_steps(output.get("plan")) if output.get("plan") else ()}
        case ActionType.ANSWER:
            answer = output.get("answer")
            if not isinstance(answer, str) or not answer.strip():
                raise UnreadableReply('An ANSWER needs a non-empty "answer" in its output.')
            return {"answer": answer}
        case ActionType.CLARIFY:
            return read_clarification(output)
        case ActionType.REFLECT:
            return {"notes": str(output.get("summary") or "")}


def read_clarification(given: Mapping[str, Any]) -> dict[str, Any]:
    """The `question` for the user, and its `choices`, each once."""
    question, choices = given.get("question"), given.get("choices")
    if not isinstance(question, str) or not question.strip():
        raise UnreadableReply('A question to the user needs a non-empty "question".')
    texts = [each.strip() for each in choices if isinstance(each, str)] if isinstance(choices, list) else []
    return {"question": question.strip(), "choices": tuple(dict.fromkeys(filter(None, texts)))}


_CALL = '{"function": {"name", "arguments"}}'


def _calls(output: Mapping[str, Any]) -> tuple[RequestedCall, ...]:
    given = output.get("tool_calls")
    if not isinstance(given, list) or not given:
        raise UnreadableReply("A CALL_TOOL needs {form} in its output.", form=f'"tool_calls": [{_CALL}]')
    return tuple(_call(item) for item in given)


def _call(item: Any) -> RequestedCall:
    function = item.get("function", item) if isinstance(item, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise UnreadableReply("Each tool call needs the form {form}.", form=_CALL)
    name = call_name(function["name"])
    return RequestedCall(name=name, arguments=read_arguments(name, function.get("arguments")))


@dataclass(frozen=True)
class MarkedCall:
    """A call that stands in a text: its tool and its arguments."""

    name: str
    arguments: Mapping[str, Any]


def read_arguments(name: str, given: Any) -> dict[str, Any]:
    """The arguments of a call, from an object or a text in which there is one.

    Nothing, null and an empty list are no arguments. An object that is fenced, written twice, or followed by anything
    that is no other object counts.
    """
    try:
        value = _object_in(given) if isinstance(given, str) else given
        check_storable(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableReply(
            "The arguments of {name} are not valid JSON, so nothing was run ({error}): {begins!r}.",
            name=name,
            error=error,
            begins=str(given)[:200],
        ) from error
    if value is None or value == []:
        return {}
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if not isinstance(value, dict):
        raise UnreadableReply("The arguments of {name} are not a JSON object, so nothing was run.", name=name)
    return value


_WITHIN = 3
"""How often JSON may be written as a text in JSON."""


def _object_in(text: str) -> Any:
    """The value of a text; of several objects the first that says something."""
    for _ in range(_WITHIN):
        inner = _unfenced(text).strip()
        if not inner:
            return None
        value, end = _DECODER.raw_decode(inner)
        if not isinstance(value, str) or inner[end:].strip():
            break
        text = value
    rest = inner[end:]
    if isinstance(value, dict | list):
        return _first_of(value, rest)
    if rest.strip():
        raise ValueError(f"there is more behind its first value: {rest.strip()[:100]!r}")
    return value


def _first_of(value: Any, rest: str) -> Any:
    """The first value that says something, where what follows is no different one."""
    if _GOES_ON.match(rest):
        raise ValueError(f"it goes on after its last brace: {rest[:100]!r}")
    while brace := _OPENING.search(rest):
        try:
            other, end = _DECODER.raw_decode(rest, brace.start())
        except ValueError:
            written = "".join(json.dumps(value, ensure_ascii=False).split())
            if written.startswith("".join(rest[brace.start() :].split())):
                return value  # a repeat that is cut
            raise ValueError("a second object in it is broken") from None
        if other and value and other != value:
            raise ValueError("they are two different objects")
        value, rest = value or other, rest[end:]
    return value


_QUALIFIER = re.compile(
    r"(?<!\s)\s*+(?:<\||<｜).*+\Z|(?<!\s)\s*+\(\s*+\)\s*+\Z|:\d++\Z|(?<![\s`'\"])[\s`'\"]++\Z|\A[\s`'\"]++", re.DOTALL
)
"""What models write around the name of a tool."""
_SEPARATOR = re.compile(r"[.:/|]+|__+")
_SIGNS = re.compile(r"[\W_]+")


def offered_name(given: str, offered: Collection[str]) -> str:
    """The name of the tool that a name means, if exactly one of the offered ones fits; else the name as given."""
    if given in offered:
        return given
    bare = _QUALIFIER.sub("", given.strip())
    for form in (bare, _SEPARATOR.split(bare)[-1]):
        if not (sought := _SIGNS.sub("", form).casefold()):
            continue
        for key in (_plain, _plain_tail):
            fitting = [name for name in offered if key(name) == sought]
            if fitting:
                return fitting[0] if len(fitting) == 1 else given.strip()
    return given.strip()


def _plain(name: str) -> str:
    return _SIGNS.sub("", name).casefold()


def _plain_tail(name: str) -> str:
    return _plain(_SEPARATOR.split(name)[-1])


MOST_NAME_CHARS = 256


def call_name(given: str) -> str:
    """The name of a call, as the ledger can hold it."""
    name = given.strip()
    if not name:
        raise UnreadableReply("A tool call of the reply has no name, so nothing was run: name the tool.")
    if len(name) > MOST_NAME_CHARS or not name.isprintable():
        raise UnreadableReply(
            "A tool call of the reply has a name that no tool can have, so nothing was run: {name!r}.", name=name[:100]
        )
    return name


def read_steps(given: Any) -> tuple[Step, ...]:
    """Steps from a list of objects or sentences, or from a numbered text."""
    if isinstance(given, str):
        listed = _inside(given)
        given = listed if isinstance(listed, list) else lines_of(given)
    if not isinstance(given, Sequence) or not given:
        raise UnreadableReply(
            "A PLAN needs {form} in its output.", form='"plan": [{"step_id", "description", "status"}]'
        )
    return tuple(_step(item, place) for place, item in enumerate(given, start=1))


def _status_word(given: object) -> str:
    word = str(given).strip().lower()
    return _STATUS_WORDS.get(word, word)


def _step(item: Any, place: int) -> Step:
    if isinstance(item, str):
        item = numbered_line(item) or {"description": item}
    if not isinstance(item, dict):
        raise UnreadableReply("Step {place} of the plan is neither an object nor a sentence.", place=place)
    named = (item.get(key) for key in ("step_id", "step", "id"))
    status = _status_word(item.get("status"))
    return Step(
        step_id=str(next((name for name in named if name not in (None, "")), place)),
        description=str(item.get("description") or item.get("general_goal") or item.get("title") or ""),
        status=Status(status) if status in set(Status) else Status.PENDING,
        action=item["action"] if isinstance(item.get("action"), str) else "",
        params=item["params"] if isinstance(item.get("params"), dict) else {},
        phase=item["phase"] if str(item.get("phase")) in get_args(Phase) else "execution",
    )
