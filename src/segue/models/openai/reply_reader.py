"""Reads a chat completion, whole or chunk by chunk."""

from collections.abc import Sequence

from ...core.models import ModelPiece, ModelReply
from ..reply import GrowingReply
from .faults import AttemptFailed, Fault, Redactor, body_fault
from .wire_format import Choice, Completion, Message, ToolCall

_REPHRASE = "rephrase the message, or choose another model"


class ReplyReader:
    """One attempt's reply."""

    def __init__(self, redact: Redactor, opened: bool = False) -> None:
        self._redact = redact
        self._reply = GrowingReply(opened)
        self._refusal: list[str] = []
        self._begun = False

    @property
    def finish_reason(self) -> str:
        return self._reply.finish_reason

    def read(self, completion: Completion) -> bool:
        """Add a completion, or a chunk of one; return whether anything was in it.

        Raises:
            AttemptFailed: it is an error object.
        """
        if completion.error:
            raise AttemptFailed(body_fault(completion.error, self._redact))
        if completion.usage is not None:
            usage = completion.usage
            self._reply.usage = {"input": usage.prompt_tokens, "output": usage.completion_tokens}
        return any([self._choice(choice) for choice in completion.choices[:1]])

    def _choice(self, choice: Choice) -> bool:
        self._reply.finish_reason = choice.finish_reason or self._reply.finish_reason
        message = choice.delta or choice.message
        if message is None:
            return False
        self._begun = True
        return self._message(message, whole=choice.delta is None)

    def _message(self, message: Message, whole: bool) -> bool:
        reasoning, text = message.reasoning_text, message.text
        self._reply.add_reasoning(reasoning)
        self._reply.add_text(text)
        if message.refusal:
            self._refusal.append(message.refusal)
            self._reply.add_hidden(len(message.refusal))
        calls = [self._call(call, place if whole else call.index) for place, call in enumerate(message.tool_calls)]
        return any([*calls, text, message.refusal, reasoning])

    def _call(self, call: ToolCall, index: int | None) -> bool:
        function = call.function
        if function is None or not (call.id or function.name or function.arguments):
            return False
        self._reply.add_call(index, call.id, function.name, function.arguments)
        return True

    @property
    def opened(self) -> bool | None:
        """Whether the endpoint's replies begin inside a thought, where this one shows it."""
        return self._reply.opened

    @property
    def pending(self) -> Sequence[ModelPiece]:
        """The pieces that were not taken yet."""
        return self._reply.pending

    def take(self) -> list[ModelPiece]:
        """The pieces since the last time."""
        return self._reply.take()

    def check(self, media_type: str) -> None:
        """Check that the reply is complete.

        Raises:
            AttemptFailed: it is not, or the model declined.
        """
        if refusal := "".join(self._refusal):
            raise AttemptFailed(
                Fault(f"declined to answer ({self._redact(refusal)[:200]})", _REPHRASE, retryable=False)
            )
        if self.finish_reason == "content_filter":
            raise AttemptFailed(Fault("stopped its reply at its content filter", _REPHRASE, retryable=False))
        if self.finish_reason:
            return
        if self._begun:
            raise AttemptFailed(Fault("ended its reply without a finish_reason"))
        if "json" in media_type or "event-stream" in media_type or not media_type:
            raise AttemptFailed(Fault("answered without choices"))
        raise AttemptFailed(Fault(f"answered with {media_type} where a reply should be", "check base_url, then resume"))

    def reply(self) -> ModelReply:
        return self._reply.whole()
