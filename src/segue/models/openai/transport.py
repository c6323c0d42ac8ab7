"""The seam between LangChain's OpenAI client and the wire: nothing broken or incomplete gets past it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from .faults import Censor, Fault, Faulty, fault_of
from .reply import Reading
from .retry import Patience

TAIL = 5.0
"""Seconds that a stream is waited for once it said how it finished: all that is left is the usage."""


class Wire:
    """One attempt's completions client: stands in ChatOpenAI's `async_client`, and reads along.

    Raises `Faulty` for every fault, before LangChain could take it for a reply or for an error of its own.
    """

    def __init__(self, completions: Any, patience: Patience, censor: Censor) -> None:
        self._completions = completions
        self._patience = patience
        self._censor = censor
        self._stream: _Chunks | None = None
        self.reading = Reading(censor)

    async def create(self, **payload: Any) -> Any:
        """Ask; the answer is a stream of chunks or a whole completion, as dicts."""
        return (await self.with_raw_response.create(**payload)).parse()

    @property
    def with_raw_response(self) -> "_RawWire":
        return _RawWire(self)

    async def ask(self, payload: dict[str, Any]) -> "_Answer":
        streaming = bool(payload.get("stream"))
        seconds = self._patience.silence if streaming else self._patience.whole
        with self.named_faults(seconds):
            async with asyncio.timeout(seconds):
                raw = await self._completions.with_raw_response.create(**payload)
            parsed = raw.parse()
        if isinstance(parsed, openai.AsyncStream):
            self._stream = _Chunks(parsed, self, self._patience.silence)
            return _Answer(raw, self._stream)
        data = parsed.model_dump(warnings=False) if isinstance(parsed, ChatCompletion) else {}
        read = self.reading.take_in(data)
        self.reading.check(_kind(raw.headers))
        return _Answer(raw, read)

    @contextmanager
    def named_faults(self, seconds: float, begun: bool = False) -> Iterator[None]:
        """Turn what goes wrong into `Faulty`; without its cause, whose text may hold the key."""
        try:
            yield
        except (TimeoutError, openai.APITimeoutError) as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                fault = Fault("could not be reached in time", "check the address and the network, then resume")
            else:
                advice = "check the endpoint, then resume; a slow one needs a larger silence on the agent"
                fault = Fault(f"said nothing for {seconds:g} s", advice)
            raise Faulty(fault) from None
        except openai.OpenAIError as error:
            if begun and isinstance(error, openai.APIConnectionError):
                raise Faulty(Fault("broke off its reply")) from None
            raise Faulty(fault_of(error, self._censor, self._patience.clock)) from None
        except UnicodeEncodeError:
            fault = Fault("could not be asked (the key or a header is not ASCII)", "check the key", again=False)
            raise Faulty(fault) from None
        except ValueError:
            raise Faulty(Fault("wrote something that is no JSON")) from None

    async def close(self) -> None:
        """Close the connection of a stream that was left before its end."""
        if self._stream is not None:
            await self._stream.close()


class _RawWire:
    """Its `with_raw_response`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def create(self, **payload: Any) -> "_Answer":
        return await self._wire.ask(payload)


class _Answer:
    """A response as LangChain takes it apart."""

    def __init__(self, raw: Any, parsed: Any) -> None:
        self.headers = raw.headers
        self.http_response = raw.http_response
        self._parsed = parsed

    def parse(self) -> Any:
        return self._parsed


class _Chunks:
    """A stream's chunks, each waited for only so long; ends well only where the reply did."""

    def __init__(self, stream: openai.AsyncStream[ChatCompletionChunk], wire: Wire, seconds: float) -> None:
        self._stream = stream
        self._wire = wire
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        reading = self._wire.reading
        try:
            chunk = await self._next(min(self._seconds, TAIL) if reading.finish_reason else self._seconds)
        except Faulty:
            if not reading.finish_reason:
                raise
            chunk = None
        if chunk is None:
            reading.check(_kind(self._stream.response.headers))
            raise StopAsyncIteration
        return reading.take_in(chunk)

    async def _next(self, seconds: float) -> dict[str, Any] | None:
        with self._wire.named_faults(seconds, begun=True):
            async with asyncio.timeout(seconds):
                chunk = await anext(self._stream, None)
        read: object = chunk  # an endpoint may send what is no chunk, whatever the client's type says
        if read is None:
            return None
        return read.model_dump(warnings=False) if isinstance(read, ChatCompletionChunk) else {}

    async def close(self) -> None:
        await self._stream.close()


def _kind(headers: Any) -> str:
    return str(headers.get("content-type", "")).partition(";")[0].strip().lower()
