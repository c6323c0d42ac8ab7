"""What a model call shows of its reply, as LangGraph's stream mode `messages` and `astream_events` have it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import var_child_runnable_config

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
        return ChatGenerationChunk(message=AIMessageChunk(text, id=self._id))


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
