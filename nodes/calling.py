"""Call a model: stream what it writes, count what it uses."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from segue.events import Thinking, Token
from segue.services import Model, ModelReply, ModelRequest, TextDelta

from .context import Bench


async def ask_model(model: Model, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
    """Make one call; `on_text` gets each piece as it arrives."""
    reply = ModelReply(text="", finish_reason="empty")
    async for piece in model.stream(request):
        if isinstance(piece, TextDelta):
            on_text(piece.text)
        elif isinstance(piece, ModelReply):
            reply = piece
    return reply


def add_usage(total: Mapping[str, int], reply: ModelReply) -> dict[str, int]:
    """Tokens and calls so far, with this reply's added."""
    return {
        "input": total.get("input", 0) + reply.usage.get("input", 0),
        "output": total.get("output", 0) + reply.usage.get("output", 0),
        "calls": total.get("calls", 0) + 1,
    }


class LiveEnvelope:
    """Reads a json envelope while it is written and streams its thought and its answer."""

    def __init__(self, bench: Bench, task_id: str, trace_id: str, iteration: int) -> None:
        self._bench = bench
        self._ids: dict[str, Any] = {"task_id": task_id, "trace_id": trace_id, "iteration": iteration}
        self._text = ""
        self._shown = {"thinking": 0, "token": 0}

    def __call__(self, piece: str) -> None:
        self._text += piece
        start = self._text.find("{")
        if start < 0:
            return
        try:
            envelope = from_json(self._text[start:], allow_partial="trailing-strings")
        except ValueError:
            return
        if isinstance(envelope, dict):
            self._show("thinking", envelope.get("thought"))
            self._show("token", _answer_of(envelope))

    def _show(self, kind: str, text: object) -> None:
        if not isinstance(text, str) or len(text) <= self._shown[kind]:
            return
        content = text[self._shown[kind] :]
        self._shown[kind] = len(text)
        self._bench.emit((Thinking if kind == "thinking" else Token)(content=content, **self._ids))


def _answer_of(envelope: Mapping[str, Any]) -> object:
    action = envelope.get("action")
    if not isinstance(action, dict):
        return None
    result = action.get("result")
    inner = result if isinstance(result, dict) else action
    output = inner.get("output") if inner.get("action_type") == "ANSWER" else None
    return output.get("answer") if isinstance(output, dict) else None


def token_stream(bench: Bench, task_id: str) -> Callable[[str], None]:
    """Stream a reply's text as the answer."""
    return lambda text: bench.emit(Token(task_id=task_id, content=text))
