"""A LangChain chat model object as an agent's model."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ..services import ModelPiece, ModelReply, ModelRequest, TextDelta

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_core.runnables import Runnable


class ChatObject:
    """Any chat model: the prompt alone says what form the reply has to have."""

    is_language_model = True

    def __init__(self, chat: "BaseChatModel", name: str = "") -> None:
        self.chat = chat
        self.name = name or str(getattr(chat, "model_name", "") or type(chat).__name__)

    def bound(self, request: ModelRequest) -> "Runnable[Any, Any]":
        return self.chat

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        async for piece in stream_reply(self.bound(request), request):
            yield piece


class Offline(ChatObject):
    """The embedded planner, which is told purpose, schema, tools and view instead of reading the prompt."""

    is_language_model = False

    def bound(self, request: ModelRequest) -> "Runnable[Any, Any]":
        return self.chat.bind(
            purpose=request.purpose, schema=request.schema, tools=list(request.tools), view=dict(request.view)
        )


async def stream_reply(runnable: "Runnable[Any, Any]", request: ModelRequest) -> AsyncIterator[ModelPiece]:
    """Pass on the deltas of a streaming call and put the reply together from them."""
    whole: AIMessageChunk | None = None
    async for chunk in runnable.astream(list(request.messages)):
        whole = chunk if whole is None else whole + chunk
        if text := chunk.text:
            yield TextDelta(text)
    if whole is None:
        yield ModelReply(text="", finish_reason="empty")
        return
    reason = str(whole.response_metadata.get("finish_reason") or "")
    yield ModelReply(text=whole.text, finish_reason=reason, usage=_usage(whole.usage_metadata))


def _usage(counted: Mapping[str, Any] | None) -> dict[str, int]:
    if not counted:
        return {}
    return {"input": counted["input_tokens"], "output": counted["output_tokens"]}
