"""A model's reply while it arrives: text, function calls, and the thoughts between their marks."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self
from uuid import uuid4

from ..core.decision import (
    CLOSING,
    CLOSINGS,
    EMPTY,
    EMPTY_MARKS,
    LONGEST,
    MARKS,
    OPENING,
    OPENING_WITHIN,
    WITHIN,
    CodeMarks,
    begun_mark,
    closing_of,
    offered_name,
    read_arguments,
    storable_text,
)
from ..core.errors import UnreadableReply
from ..core.models import (
    UNREADABLE,
    CallDelta,
    Hidden,
    ModelPiece,
    ModelReply,
    ModelRequest,
    RawCall,
    ReasoningDelta,
    TextDelta,
    Withdrawn,
)
from .markup import Schemas, begins_call, find_mark, read_markup

# How a reply ended.

_LENGTH = ("length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_length", "model_length")
_REASONS = {
    **dict.fromkeys(_LENGTH, "length"),
    **dict.fromkeys(("tool_use", "tool_call", "tool_calls", "function_call"), "tool_calls"),
    **dict.fromkeys(("end_turn", "stop_sequence", "stop"), "stop"),
}
MALFORMED = frozenset(
    ("malformed_function_call", "malformed_tool_call", "malformed_response", "unexpected_tool_call",
     "too_many_tool_calls")
)  # fmt: skip
"""The model wrote a call that its provider cannot read."""
BROKEN = MALFORMED | frozenset(
    ("error", "abort", "aborted", "cancelled", "canceled", "failed", "engine_error", "server_error", "internal_error",
     "network_error", "insufficient_system_resource", "timeout", "interrupted", "incomplete")
)  # fmt: skip
"""The endpoint broke the reply off."""
FILTERED = frozenset(
    ("content_filter", "content_filtered", "guardrail_intervened", "safety", "sensitive",
     "recitation", "blocklist", "prohibited_content", "spii", "image_safety")
)  # fmt: skip
"""The endpoint does not let the reply pass."""


def finish_reason_of(given: str) -> str:
    """How a reply ended, in OpenAI's words where it has one for it.

    Some endpoints write an enumeration's name, or the filter that stopped the reply before the reason.
    """
    words = _WORD_BEGINS.sub("_", given.strip()).lower().replace("-", "_")
    for word in _BESIDE_REASON.split(words):
        reason = word.removeprefix("finish_reason_")
        if reason in _REASONS or reason in BROKEN or reason in FILTERED:
            return _REASONS.get(reason, reason)
    return given.strip().lower()


_WORD_BEGINS = re.compile("(?<=[a-z])(?=[A-Z])")
_BESIDE_REASON = re.compile(r"[^a-z_]+")


_OBJECT = re.compile(r"\s*\{")
_BEGINNINGS = (*MARKS, *EMPTY_MARKS)


class ThinkTags:
    """Separates the thoughts of a reply from its text, while it arrives; a mark of one in code is text.

    Some chat templates put the opening mark into the prompt, so that the reply has the closing one alone. Where that is
    known, the reply begins as a thought (`opened`); else what was returned as text becomes one (`withdrawn`). In a
    `structured` reply, thoughts stand before the JSON only.
    """

    def __init__(self, opened: bool = False, structured: bool = False) -> None:
        self._opened = opened
        self._structured = structured
        self._prose = True
        """Whether a thought may still begin in the text."""
        self._code = CodeMarks()
        """Of the text so far."""
        self._unsure: list[str] | None = None
        """A thought that began within a line, with its mark: if nothing closes it, it is text."""
        self._closing = CLOSING
        self._closings: Collection[str] = CLOSINGS
        self._state: Literal["begin", "thought", "between", "text"] = "begin"
        self._blank: list[str] = []
        """Spaces before what is buffered, while it is open what begins there."""
        self._buffer = ""
        self._held = 0
        """Characters of the buffer that are in `_untagged` already."""
        self._untagged = ""
        """What arrived before any mark."""
        self._searched = 0
        """How far it was searched for an opening mark."""
        self._tagged = False
        """Whether there is one in it."""
        self.withdrawn = False
        self.lone = False
        """Whether a closing mark came without an opening one."""

    @property
    def holds(self) -> bool:
        """Whether a part of the text is held back."""
        return bool(self._buffer or self._untagged)

    @property
    def unclosed(self) -> str:
        """The text of a reply that was taken for a thought and had no mark at all."""
        return self._untagged if self._opened and self._state == "thought" else ""

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what the piece adds to the thoughts, and to the text."""
        self._buffer += piece
        thoughts = text = ""
        while True:
            if self._state == "thought":
                thoughts += self._take_thought()
                if self._state == "thought":
                    return thoughts, text
            elif self._state == "text":
                if self._take_lone_thought():
                    thoughts, text = thoughts + self._untagged, ""
                    continue
                text += self._take_text()
                if self._state == "text":
                    return thoughts, text
            elif not self._begin():
                return thoughts, text

    def close(self, cut: bool = False) -> tuple[str, str]:
        """Return what was held back, now that nothing follows; `cut` is whether more would have."""
        rest = self._spaces() + self._buffer
        self._buffer = ""
        self._untagged += rest
        if self._state == "thought":
            return rest, "" if cut or self._unsure is None else "".join([*self._unsure, rest])
        is_named = self._code.ends_in_space and rest.lower().startswith(EMPTY_MARKS)
        while not self._structured and not is_named and (end := _before_mark(rest)) is not None:
            rest = rest[:end]
        return "", rest

    def _begin(self) -> bool:
        """Distinguish a thought from a text, or return False until that is possible."""
        begun = self._buffer.lstrip()
        while empty := EMPTY.match(begun):
            begun = begun[empty.end() :]
            self._spaces()
            self._buffer = begun
        if not begun:
            self._blank.append(self._buffer)
            self._buffer = ""
            return False
        if opening := OPENING.match(begun):
            self._spaces()
            self._open(opening[0], begun[opening.end() :])
        elif len(begun) < LONGEST and any(mark.startswith(begun.lower()) for mark in _BEGINNINGS):
            return False
        elif self._state == "between":
            spaces = self._spaces() + self._buffer.removesuffix(begun)
            self._state, self._buffer = "text", begun if self._code.ends_blank else spaces + begun
        else:
            self._buffer = self._spaces() + self._buffer
            self._state = "thought" if self._opened and not begun.startswith("{") else "text"
        return True

    def _open(self, mark: str, rest: str) -> None:
        self._unsure = None
        self._state, self._opened, self._buffer, self._held = "thought", False, rest, 0
        self._closing, self._closings = closing_of(mark), MARKS[mark.lower()]

    def _spaces(self) -> str:
        blank, self._blank = "".join(self._blank), []
        return blank

    def _take_thought(self) -> str:
        """Take the thought up to its end, or up to what may be the beginning of the closing mark."""
        closing = self._closing.search(self._buffer)
        if closing:
            thought, self._buffer = self._buffer[: closing.start()], self._buffer[closing.end() :]
            self._state, self._unsure = "between", None
            self.lone |= self._opened
            return thought
        end = len(self._buffer) - begun_mark(self._buffer, self._closings)
        thought, self._buffer = self._buffer[:end], self._buffer[end:]
        self._untagged += thought
        if self._unsure is not None:
            self._unsure.append(thought)
        return thought

    def _take_text(self) -> str:
        """Take the text up to a thought, or up to what may be the beginning of one."""
        place = 0
        while self._prose and (opening := OPENING_WITHIN.search(self._buffer, place)):
            before = self._buffer[place : opening.start()]
            if self._structured and "{" in before:
                break
            self._code.add(before)
            if self._structured or not self._code.is_open:
                text = self._buffer[: opening.start()]
                while (end := _before_mark(text)) is not None:
                    text = text[:end]
                self._open(opening[0], self._buffer[opening.end() :])
                self._tagged = True
                if not self._structured and not self._code.begins_line:
                    self._unsure = [opening[0]]
                return text
            self._code.add(opening[0])
            place = opening.end()
        rest = self._buffer[place:]
        self._prose = self._prose and not (self._structured and "{" in rest)
        end = _before_marks(rest) if self._prose else len(rest)
        self._code.add(rest[:end])
        text, self._buffer = self._buffer[: place + end], rest[end:]
        self._held = len(self._buffer)
        return text

    def _take_lone_thought(self) -> bool:
        """Whether a text turns out to be a thought; a closing mark in code, JSON or after a thought is just text."""
        if self.lone:
            return False
        since = max(0, len(self._untagged) - LONGEST)
        self._untagged += self._buffer[self._held :]
        self._held = len(self._buffer)
        closing = CLOSING.search(self._untagged, since)
        if closing is None:
            return False
        end = closing.start()
        self._tagged = self._tagged or OPENING.search(self._untagged, self._searched, end) is not None
        self._searched = max(0, end - LONGEST + 1)
        inside = _OBJECT.match(self._untagged) and not self._untagged.endswith(("\n", "}"), 0, end)
        if self._tagged or inside or self._untagged.endswith("`", 0, end):
            return False
        before, rest = self._untagged[:end], self._untagged[closing.end() :]
        self._state, self._untagged, self._buffer, self._held = "between", before, rest, 0
        self._code = CodeMarks()
        self.lone = self.withdrawn = True
        return True


def _before_mark(text: str) -> int | None:
    """Where a mark that means nothing by itself begins, if the text ends with one."""
    ending = text[-2 * LONGEST :].rstrip()
    begin = len(text) - min(len(text), 2 * LONGEST)
    mark = next((mark for mark in EMPTY_MARKS if ending.lower().endswith(mark)), None)
    return None if mark is None else begin + len(ending) - len(mark)


def _before_marks(text: str) -> int:
    """Where the marks begin that a text ends with, the last of which may not have arrived whole."""
    end = len(text) - begun_mark(text, (*WITHIN, *EMPTY_MARKS))
    while (before := _before_mark(text[:end])) is not None:
        end = before
    return end


HIDDEN_CHARS = 1000
"""Characters that are not shown are reported in amounts of at least so many."""

_HIGH_SURROGATE = re.compile("[\ud800-\udbff]\\Z")


class TextPieces:
    """A text that arrives in pieces; a surrogate pair that is split between two is joined, a lone half replaced."""

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Append a piece; return what can be shown of it now."""
        if piece.isascii() and not self._half:
            if piece:
                self._whole.append(piece)
            return piece
        piece = self._half + piece
        half = _HIGH_SURROGATE.search(piece)
        self._half = half[0] if half else ""
        piece = storable_text(piece.removesuffix(self._half))
        self._whole.append(piece)
        return piece

    @property
    def text(self) -> str:
        return "".join([*self._whole, storable_text(self._half)])


_BRACES = re.compile(r'\\.|["{}]', re.DOTALL)


@dataclass
class _Call:
    id: str
    name: str = ""
    arguments: TextPieces = field(default_factory=TextPieces)
    is_repeated: bool = False
    """Whether its name came again after its arguments were complete."""
    _depth: int = 0
    _quoted: bool = False
    _escape: str = ""

    is_complete: bool = False
    """Whether the object that its arguments are has ended."""
    _last: str = ""
    _repeats: bool = True
    """Whether each piece begins with the one before it, as where an endpoint sends all of the arguments each time."""

    @property
    def is_open(self) -> bool:
        """Whether its arguments are within an object."""
        return self._depth > 0

    @property
    def written(self) -> str:
        """The arguments, put together; the last piece alone where each one repeats those before it."""
        text = self.arguments.text
        if self._repeats and self._last != text and is_json(self._last) and not is_json(text):
            return self._last
        return text

    def add_arguments(self, piece: str) -> None:
        """Append a piece, and see whether the object that began is closed."""
        if piece:
            self._repeats = self._repeats and piece.startswith(self._last)
            self._last = piece
        self.arguments.add(piece)
        text = self._escape + piece
        ends = len(text) - len(text.rstrip("\\"))
        self._escape = "\\" if ends % 2 else ""
        for sign in _BRACES.findall(text):
            if sign == '"':
                self._quoted = not self._quoted
            elif not self._quoted and sign in "{}":
                self._depth += 1 if sign == "{" else -1
                self.is_complete = self._depth == 0


def is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class GrowingReply:
    """A reply that is put together piece by piece.

    `structured`: it should be JSON. `tools` are those that a call in its text may name; None: such calls are left to
    its reader. `native`: the model may call them.
    """

    def __init__(
        self, opened: bool = False, *, structured: bool = False, tools: Schemas | None = None, native: bool = False
    ) -> None:
        self._text = TextPieces()
        self._reasoning = TextPieces()
        self._tags = ThinkTags(opened, structured)
        self._tools: Schemas = tools or {}
        self._native = native
        self._has_markup = tools is not None
        """Whether calls are looked for in the text."""
        self._holds_markup = tools is not None and not structured
        """Whether what may be the markup of one is held back until it is known."""
        self._calls: list[_Call] = []
        self._call_at: dict[object, _Call] = {}
        self._call_of: dict[str, _Call] = {}
        self._pending: list[ModelPiece] = []
        self._chars = 0
        self._raw: list[str] = []
        """The text as it came, where tools are offered."""
        self._unsaid = ""
        """What of the text is not shown yet, as it may be the markup of a call."""
        self._said: list[str] = []
        """What is shown."""
        self._code = CodeMarks()
        """Of what is shown."""
        self._reply: ModelReply | None = None
        self.finish_reason = ""
        self.usage: dict[str, int] = {}

    @classmethod
    def to(cls, request: ModelRequest, opened: bool = False) -> Self:
        functions = [tool["function"] for tool in request.tools]
        tools = {str(function["name"]): function.get("parameters") or {} for function in functions}
        structured, native = request.schema is not None, request.native
        decides = structured and bool(tools) and not native
        return cls(opened, structured=structured, tools=None if decides else tools, native=native)

    def add_text(self, piece: str) -> None:
        """Add a piece of the text; thoughts in it are reasoning."""
        if self._has_markup:
            self._raw.append(piece)
        thoughts, text = self._tags.feed(piece)
        if self._tags.withdrawn:
            self._tags.withdrawn = False
            self._text = TextPieces()
            self._said = self._said or [""]
            self._unsay()
        self._add(thoughts, text)

    @property
    def has_content(self) -> bool:
        """Whether anything came: a text, a thought or a call."""
        return bool(self._text.text or self._reasoning.text or self._calls or self._tags.holds)

    def end(self) -> None:
        """Finish a reply whose endpoint did not say how it ended, unless a call's arguments are cut."""
        try:
            for call in self._calls:
                read_arguments(call.name, call.written)
        except UnreadableReply:
            return
        self.finish_reason = "tool_calls" if self._calls else "stop"

    @property
    def opened(self) -> bool | None:
        """Whether the endpoint's replies begin inside a thought, where this one shows it."""
        return True if self._tags.lone else False if self._tags.unclosed else None

    def add_reasoning(self, piece: str) -> None:
        self._add(piece, "")

    def _add(self, reasoning: str, text: str) -> None:
        if shown := self._reasoning.add(reasoning):
            self._pending.append(ReasoningDelta(shown))
        shown = self._text.add(text)
        if not self._holds_markup:
            self._say(shown)
        elif shown:
            self._unsaid += shown
            self._release()

    def _say(self, shown: str) -> None:
        if not shown:
            return
        self._pending.append(TextDelta(shown))
        if self._holds_markup:
            self._said.append(shown)
            self._code.add(shown)

    def _release(self) -> None:
        """Show what is no markup of a call."""
        if self._tools and not self._said and begins_call(self._unsaid, self._tools):
            return
        end = find_mark(self._unsaid, self._code)
        shown, self._unsaid = self._unsaid[:end], self._unsaid[end:]
        self._say(shown)

    def _flush(self) -> None:
        """Show all of the text: there is no markup in it, or calls that can be read follow."""
        self._say(self._unsaid)
        self._unsaid = ""

    def _unsay(self) -> None:
        """Take back what was shown of the text."""
        if self._said:
            self._pending.append(Withdrawn())
        self._said, self._unsaid, self._code = [], "", CodeMarks()

    def add_hidden(self, chars: int) -> None:
        """Count characters that are received and not shown."""
        self._chars += chars
        if self._chars >= HIDDEN_CHARS:
            self._pending.append(Hidden(self._chars))
            self._chars = 0

    def add_call(self, index: object, call_id: str, name: str, arguments: str) -> None:
        """Add a piece of a function call.

        It belongs to the call at its index, else to the one with its id, else to the last one. There are endpoints that
        give every call the index 0, or no index, or no id; so a piece with another id begins another call, unless it
        goes on with arguments that are not complete, and one with a name does so after complete arguments. A name may
        come in pieces, or again with each piece, and arguments as all of them each time.
        """
        call = self._call_for(index, call_id)
        if call is None and index is not None and self._goes_on(self._call_at.get(index), name, arguments):
            call = self._call_at[index]
        if call is not None and call.is_complete and call.id and call_id and arguments == call.arguments.text:
            return  # it was sent again
        if call is not None and self._begins_another(call, call_id, name, arguments):
            name, call = name or call.name, None
        if call is None:
            call = self._new_call(call_id)
        if index is not None:
            self._call_at[index] = call
        if call_id:
            call.id = call.id or call_id
            self._call_of[call_id] = call
        self._extend(call, name, arguments)

    def add_whole_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a function call that arrives in one piece."""
        self._extend(self._new_call(call_id), name, arguments)

    def _new_call(self, call_id: str) -> _Call:
        self._calls.append(_Call(call_id))
        return self._calls[-1]

    def _extend(self, call: _Call, name: str, arguments: str) -> None:
        self._flush()
        self.add_hidden(len(call.id) + len(name) + len(arguments))
        call.is_repeated |= bool(name) and call.is_complete
        call.add_arguments(arguments)
        if name and not call.name:
            self._pending.append(CallDelta(name))
        call.name = self._joined(call.name, name)

    def _call_for(self, index: object, call_id: str) -> _Call | None:
        """The call that a piece may belong to."""
        named = self._call_of.get(call_id) if call_id else None
        call = self._call_at.get(index) if index is not None else named or (self._calls[-1] if self._calls else None)
        if call is None or (call_id and call.id and call.id != call_id):
            return named
        return call

    def _goes_on(self, call: _Call | None, name: str, arguments: str) -> bool:
        """Whether a piece with an id of its own is a further one of a call: some endpoints give each piece another."""
        if call is None or call.is_complete or name not in ("", call.name):
            return False
        return not name or (call.is_open and not arguments.lstrip().startswith("{"))

    def _begins_another(self, call: _Call, call_id: str, name: str, arguments: str) -> bool:
        """Whether a piece that may belong to a call begins one of its own."""
        if call.is_complete and arguments.lstrip().startswith("{"):
            return bool(name) or call.is_repeated
        known = name in self._tools and call.name in self._tools
        return known and name != call.name and not (call_id and call_id == call.id)

    def _joined(self, name: str, piece: str) -> str:
        """A name with a further piece, unless the piece is the name again."""
        if not piece or piece == name:
            return name or piece
        if name in self._tools and name + piece not in self._tools:
            return name
        return piece if piece.startswith(name) else name + piece

    @property
    def pending(self) -> Sequence[ModelPiece]:
        """The pieces that were not taken yet."""
        return self._pending

    def take(self) -> list[ModelPiece]:
        """The pieces since the last time."""
        pending, self._pending = self._pending, []
        return pending

    def whole(self) -> ModelReply:
        """The reply, now that nothing follows; a call that came without an id gets one: results are paired by it."""
        if self._reply is None:
            self._reply = self._read()
        return self._reply

    def _read(self) -> ModelReply:
        self._add(*self._tags.close(cut=self.finish_reason == "length"))
        if self._tags.unclosed and not self._text.text:
            self._add("", self._tags.unclosed)
        text, calls, why = self._text.text, self._raw_calls(), None
        if self._has_markup and not calls:
            text, calls, why = self._read_markup(text)
        if self.finish_reason in MALFORMED:
            calls = ()
            why = UnreadableReply("The model wrote a call that its provider cannot read: call the tool again.")
        if self._native and self._tools:
            try:
                calls = tuple(each for call in calls for each in self._resolved(call))
            except UnreadableReply as error:
                why = error
        return ModelReply(
            text=text,
            finish_reason=UNREADABLE if why else self.finish_reason,
            usage=self.usage,
            tool_calls=() if why else calls,
            unreadable=why,
            has_reasoning=bool(self._reasoning.text.strip()),
        )

    def _raw_calls(self) -> tuple[RawCall, ...]:
        return tuple(
            RawCall(storable_text(call.id) or _new_id(), storable_text(call.name).strip(), call.written)
            for call in self._calls
        )

    def _read_markup(self, text: str) -> tuple[str, tuple[RawCall, ...], UnreadableReply | None]:
        """The text without the calls that stand in it, the calls, and why they cannot be read."""
        # Harmony's calls stand where its thoughts do.
        marked = read_markup(text if text.strip() else "".join(self._raw), self._tools)
        if marked is None:
            self._flush()
            return text, (), None
        self.add_hidden(len(self._unsaid))
        if not marked.before.startswith("".join(self._said).rstrip()):
            self._unsay()
            self._say(marked.before)
        if not (self._native and self._tools):
            return marked.before, (), UnreadableReply(_UNWANTED_MARKUP)
        if marked.why:
            return marked.before, (), UnreadableReply(_UNREAD_MARKUP, why=marked.why)
        self._pending += [CallDelta(call.name) for call in marked.calls]
        calls = (RawCall(_new_id(), call.name, json.dumps(call.arguments, ensure_ascii=False)) for call in marked.calls)
        return marked.before, tuple(calls), None

    def _resolved(self, call: RawCall) -> Sequence[RawCall]:
        """The call under the name of the tool that is meant; several where it asks for several at once."""
        name = offered_name(call.name, self._tools)
        if name in self._tools or not name:
            return [replace(call, name=name)]
        if _PARALLEL.search(name):
            arguments = read_arguments(call.name, call.arguments)
            uses = arguments.get("tool_uses")
            if isinstance(uses, list) and uses and all(isinstance(use, Mapping) for use in uses):
                return [
                    made
                    for use in uses
                    for made in self._resolved(
                        RawCall(
                            _new_id(),
                            str(use.get("recipient_name") or use.get("name") or ""),
                            json.dumps(use.get("parameters") or use.get("arguments") or {}, ensure_ascii=False),
                        )
                    )
                ]
        if not _API_NAME.fullmatch(name):
            raise UnreadableReply(
                "The reply calls {name!r}, which is not the name of a tool, so nothing was run: call one of {known}.",
                name=name[:100],
                known=", ".join([*self._tools][:30]),
            )
        return [call]


_PARALLEL = re.compile(r"multi_tool_use[._:]parallel\Z|\Aparallel\Z")
_API_NAME = re.compile(r"[\w-]{1,256}")
_UNWANTED_MARKUP = "The reply has a tool call in its text where no tool can be called: answer without one."
_UNREAD_MARKUP = (
    "The reply has a tool call in its text that cannot be read ({why}), so nothing was run: call the tool again. If an "
    'endpoint never reads tool calls, turn on its tool-call parser, or set protocol="json" on the agent.'
)


def _new_id() -> str:
    return f"call_{uuid4().hex}"
