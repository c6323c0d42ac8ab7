"""A chat completion put together from what goes over the wire, before LangChain mends anything in it."""

from collections.abc import Iterable, Mapping
from typing import Any

from ...core.ports import CallDelta, ModelPiece, ModelReply, TextDelta
from ..function_calls import GrowingCalls, as_text
from .faults import Censor, Fault, Faulty, body_fault

_REPHRASE = "rephrase the message, or choose another model"


class Reading:
    """One attempt's reply, chunk by chunk or whole."""

    def __init__(self, censor: Censor) -> None:
        self._censor = censor
        self._fresh: list[ModelPiece] = []
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls = GrowingCalls()
        self._usage: dict[str, int] = {}
        self._begun = False
        self.finish_reason = ""

    def take_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """Read a chunk, or a whole completion, and give back what LangChain can read of it.

        Raises:
            Faulty: an error object stands in its place.
        """
        if data.get("error"):
            raise Faulty(body_fault(data["error"], self._censor))
        self._usage = _counted(data.get("usage")) or self._usage
        choices = data.get("choices") or []
        for choice in choices[:1]:
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            if isinstance(_message(choice), dict):
                self._begun = True
                self._message(_message(choice), piece="delta" in choice)
        return data | {"choices": [choice for choice in choices if isinstance(_message(choice), dict)]}

    def _message(self, message: dict[str, Any], piece: bool) -> None:
        if text := _text(message.get("content")):
            self._text.append(text)
            self._fresh.append(TextDelta(text))
        self._refusal.append(_text(message.get("refusal")))
        message["role"] = "assistant"
        message["tool_calls"] = calls = [
            call for call in message.get("tool_calls") or () if isinstance(call.get("function"), dict)
        ]
        for place, call in enumerate(calls):
            self._call(call, call.get("index") if piece else place)
            if call.get("index") is None:
                call["index"] = place

    def _call(self, call: Mapping[str, Any], index: object) -> None:
        function = call["function"]
        function["arguments"] = arguments = as_text(function.get("arguments"))
        if name := self._calls.add(index, call.get("id") or "", function.get("name") or "", arguments):
            self._fresh.append(CallDelta(name))

    def take(self) -> Iterable[ModelPiece]:
        """What was read since the last time."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def check(self, kind: str = "") -> None:
        """See that the reply is a whole one; `kind` is the media type that it came as.

        Raises:
            Faulty: it is not, or the model declined.
        """
        if refusal := "".join(self._refusal):
            raise Faulty(Fault(f"declined to answer ({self._censor(refusal)[:200]})", _REPHRASE, again=False))
        if self.finish_reason == "content_filter":
            raise Faulty(Fault("stopped its reply at its content filter", _REPHRASE, again=False))
        if self.finish_reason:
            return
        if self._begun:
            raise Faulty(Fault("ended its reply without a finish_reason"))
        if "json" in kind or "event-stream" in kind or not kind:
            raise Faulty(Fault("answered without choices"))
        raise Faulty(Fault(f"answered with {kind} where a reply should be", "check base_url, then resume"))

    def reply(self) -> ModelReply:
        return ModelReply(
            text="".join(self._text),
            finish_reason=self.finish_reason,
            usage=self._usage,
            tool_calls=self._calls.whole(),
        )


def _message(choice: Mapping[str, Any]) -> Any:
    return choice["delta"] if "delta" in choice else choice.get("message")


def _text(content: object) -> str:
    """A message's text; some endpoints send it as a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _counted(usage: object) -> dict[str, int]:
    if not isinstance(usage, Mapping):
        return {}
    counted = {"input": usage.get("prompt_tokens"), "output": usage.get("completion_tokens")}
    return {name: count for name, count in counted.items() if isinstance(count, int)}
