"""Streaming of a reply while it is written: its text as thinking or as the answer, and the strings of its JSON."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import var_child_runnable_config

from segue.core.events import Thinking, Token

from .context import NodeContext

Path = tuple[str | None, ...]
"""The keys that lead to a value; None stands for an array."""

MAX_DEPTH = 8
"""Strings that are nested deeper are passed over."""

KEY_CHARS = 100
"""What a key is longer is ignored."""

_BETWEEN = re.compile(r'[^"{}\[\],:]*')
_CONTENT = re.compile(r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]')
_UNFINISHED = re.compile(r"\\(u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?)?\Z")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JsonStrings:
    """Reads JSON objects piece by piece, each character once; text around them is passed over.

    What is not valid JSON is read as far as it makes sense: this is for showing a reply, not for acting on it.
    """

    def __init__(self) -> None:
        self._keys: list[str | None] = []
        self._key_next = False
        self._inside = False
        self._path: Path = ()
        self._rest = ""

    def feed(self, piece: str) -> Iterator[tuple[Path, str]]:
        """Yield what the piece adds to string values, each time with the value's path."""
        text, at = self._rest + piece, 0
        self._rest = ""
        while at < len(text):
            if not self._inside:
                at = self._structure(text, at)
            elif text[at] == '"':
                self._inside, at = False, at + 1
            elif _UNFINISHED.match(text, at):
                self._rest = text[at:]
                return
            else:
                content = _CONTENT.match(text, at)
                at = content.end() if content else at + 1
                if content and self._key_next:
                    self._keys[-1] = ((self._keys[-1] or "") + _decoded(content[0]))[:KEY_CHARS]
                elif content and self._path:
                    yield self._path, _decoded(content[0])

    def _structure(self, text: str, at: int) -> int:
        """Read on to the next character that means something, and that one; return the place after it."""
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        match text[at : at + 1]:
            case "{":
                self._keys.append("")
                self._key_next = True
            case "[" if self._keys:
                self._keys.append(None)
                self._key_next = False
            case "}" | "]" if self._keys:
                self._keys.pop()
                self._key_next = False
            case "," if self._keys and self._keys[-1] is not None:
                self._keys[-1] = ""
                self._key_next = True
            case ":":
                self._key_next = False
            case '"' if self._keys:
                self._inside = True
                self._path = tuple(self._keys) if len(self._keys) <= MAX_DEPTH else ()
        return at + 1


def _decoded(content: str) -> str:
    """A run of plain characters, or one escape."""
    if not content.startswith("\\"):
        return content
    if content[1] != "u":
        return _CONTROL.get(content[1], content[1])
    units = b"".join(int(unit, 16).to_bytes(2) for unit in content.split("\\u")[1:])
    return units.decode("utf-16-be", "replace")


# What a model call shows of its reply, as LangGraph's stream mode `messages` and `astream_events` have it.

SEGUE_CALL = "segue_call"
"""Marks the model calls of Segue's nodes in their metadata: what they write is streamed as events, too."""


class MessageStream:
    """The message that a call writes: pieces of the answer, without what is around it in the reply.

    The message in the state takes its id, so that nobody is shown both.
    """

    def __init__(self, manager: AsyncCallbackManager | None) -> None:
        self._manager = manager
        self._run: AsyncCallbackManagerForLLMRun | None = None
        self._id = ""
        self._waiting: list[str] = []
        self._sent = ""

    def add(self, text: str) -> None:
        """Another piece, which is sent with `flush`."""
        if self._manager:
            self._waiting.append(text)

    def restart(self) -> None:
        """Begin another message: what was sent of this one does not count."""
        self._run, self._waiting, self._sent = None, [], ""

    async def flush(self) -> None:
        """Send what was added."""
        if not self._waiting or self._manager is None:
            return
        if self._run is None:
            self._id = str(uuid4())
            (self._run,) = await self._manager.on_chat_model_start({"name": "Segue"}, [[]])
        pieces, self._waiting = self._waiting, []
        for piece in pieces:
            self._sent += piece
            await self._run.on_llm_new_token(piece, chunk=self._chunk(piece))

    async def end(self, text: str) -> str | None:
        """Send what is missing of the text, and return the id of its message; None where another text was sent."""
        await self.flush()
        if self._run is None:
            return None
        is_text = text.strip().startswith(self._sent.strip())
        if is_text and text.startswith(self._sent) and text != self._sent:
            self.add(text.removeprefix(self._sent))
            await self.flush()
        await self._run.on_llm_end(LLMResult(generations=[[self._chunk(self._sent)]]))
        return self._id if is_text else None

    def _chunk(self, text: str) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=AIMessageChunk(content=text, id=self._id))


@contextmanager
def streamed_message() -> Iterator[MessageStream]:
    """The message of a model call in a node; meanwhile the model's own pieces are not streamed.

    Tracers see the call as it is. Where nobody streams messages, nothing is sent.
    """
    config = var_child_runnable_config.get()
    manager: Any = (config or {}).get("callbacks")
    streaming = [handler for handler in getattr(manager, "handlers", ()) if hasattr(handler, "tap_output_aiter")]
    if config is None or not streaming:
        yield MessageStream(None)
        return
    quiet = manager.copy()
    quiet.handlers = [handler for handler in manager.handlers if handler not in streaming]
    quiet.inheritable_handlers = [handler for handler in manager.inheritable_handlers if handler not in streaming]
    metadata = {**manager.metadata, SEGUE_CALL: True}
    sending = AsyncCallbackManager(streaming, parent_run_id=manager.parent_run_id, metadata=metadata)
    before = var_child_runnable_config.set({**config, "callbacks": quiet})
    try:
        yield MessageStream(sending)
    finally:
        var_child_runnable_config.reset(before)


# The stream of events of a call, and what listens to its reply.

HELD_CHARS = 160
HELD_SECONDS = 0.7
"""How much of a text, and for how long, is held back until it shows whether calls follow."""


class LiveReply:
    """The stream of one model call in a task's language; `streamed` is what this attempt streamed of the answer."""

    def __init__(
        self, work: NodeContext, ids: Mapping[str, Any], language: str, message: MessageStream | None = None
    ) -> None:
        self.ids = ids
        self.message = message or MessageStream(None)
        self.language = language
        self.streamed = ""
        self._work = work
        self.attempt = 1
        self._last = ""
        self._reasons = False

    def reasoning(self, content: str) -> None:
        """A piece of what the model reasons before it replies; a thought of its reply is not part of it."""
        self._think(content)
        self._reasons = True

    def thinking(self, content: str) -> None:
        if content and self._reasons:
            self._reasons = False
            self.end()
        self._think(content)

    def _think(self, content: str) -> None:
        if content:
            self._last = content[-1]
            self._work.emit(Thinking(content=content, attempt=self.attempt, **self.ids))

    def token(self, content: str) -> None:
        if content:
            self.streamed += content
            self.message.add(content)
            self._work.emit(Token(content=content, attempt=self.attempt, **self.ids))

    def restart(self) -> None:
        """Begin another attempt."""
        self.attempt += 1
        self.streamed = ""
        self.message.restart()

    def end(self) -> None:
        """End the last line of the thoughts: what is streamed as thinking next starts on a new one."""
        if self._last not in ("", "\n"):
            self._think("\n")


class Listener:
    """Receives a reply while it is written; this one shows nothing of it."""

    def __init__(self, live: LiveReply) -> None:
        self._live = live

    def text(self, piece: str) -> None:
        """A piece of the text arrived."""

    def call(self) -> None:
        """A function call begins to arrive."""

    def restart(self) -> None:
        """Another attempt begins."""

    def end(self) -> None:
        """Nothing follows."""


class LiveText(Listener):
    """Streams a reply's text as the answer."""

    def text(self, piece: str) -> None:
        self._live.token(piece)


class LiveCalls(Listener):
    """Streams a reply's text as the answer; a short one that calls follow at once is a thought instead."""

    def __init__(self, live: LiveReply) -> None:
        super().__init__(live)
        self._timer: asyncio.TimerHandle | None = None
        self._held = ""
        self._decided = False
        self._thought = False

    def text(self, piece: str) -> None:
        if self._decided:
            return self._show(piece)
        self._held += piece
        if len(self._held) > HELD_CHARS:
            self._decide()
        elif self._timer is None and self._held.strip():
            self._timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self._decide)

    def call(self) -> None:
        if not self._decided:
            self._thought = True
            self._decide()

    def restart(self) -> None:
        self._stop()
        self._held, self._decided, self._thought = "", False, False

    def end(self) -> None:
        self._stop()
        if not self._decided and self._held.strip():
            self._decide()

    def _decide(self) -> None:
        self._stop()
        self._decided = True
        self._show(self._held)

    def _show(self, piece: str) -> None:
        (self._live.thinking if self._thought else self._live.token)(piece)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_THOUGHT = ("thought",)
_ACTIONS = ("action", "result"), ("action",)
_KINDS = {(*action, "action_type") for action in _ACTIONS}
_ANSWERS = {(*action, "output", "answer") for action in _ACTIONS}


class LiveEnvelope(Listener):
    """Reads a json envelope while it is written and streams its thought and its answer."""

    def __init__(self, live: LiveReply) -> None:
        super().__init__(live)
        self.restart()

    def restart(self) -> None:
        self._strings = JsonStrings()
        self._kind = ""
        self._answer: list[str] = []

    def text(self, piece: str) -> None:
        thought: list[str] = []
        for path, added in self._strings.feed(piece):
            if path == _THOUGHT:
                thought.append(added)
            elif path in _KINDS:
                self._kind += added
            elif path in _ANSWERS:
                self._answer.append(added)
        self._live.thinking("".join(thought))
        if self._kind == "ANSWER":
            self._live.token("".join(self._answer))
            self._answer = []
