"""What tests put in place of a model, of chance and of time. Nothing here patches anything."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from segue.core import records
from segue.core.calls import CallKey, Claim
from segue.core.context import Ids, TaskId, ThreadId, TraceId

PIECE = 7
"""Characters in a streamed piece."""
MOST_PIECES = 500
"""A longer text is streamed in longer pieces."""

Written = Callable[[Sequence[BaseMessage]], str | AIMessage]
Item = str | AIMessage | Exception | Written
"""One reply: text, a message, an error to raise, or a function of the messages."""


class ScriptRanDry(AssertionError):
    """The script was asked for one reply more than it has."""


class ScriptLeftOver(AssertionError):
    """Replies of the script were never asked for."""


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """A text as it is streamed."""
    size = max(size, len(text) // MOST_PIECES)
    return (text[start : start + size] for start in range(0, len(text), size))


class ScriptedChatModel(BaseChatModel):
    """A chat model that says what the script says, in order; a lone function answers every call.

    `calls` holds the messages of each call, `call_kwargs` what was bound to it, `bound_tools` each `bind_tools` as
    OpenAI-format specs. As a context manager it checks at the end that the script was spent exactly.
    """

    _script: list[Item] = PrivateAttr(default_factory=list)
    _endless: Written | None = PrivateAttr(default=None)
    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _call_kwargs: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _bound_tools: list[list[dict[str, Any]]] = PrivateAttr(default_factory=list)
    _taken: int = PrivateAttr(default=0)
    _dry: str = PrivateAttr(default="")

    def __init__(self, script: Sequence[Item] | Written = (), **fields: Any) -> None:
        super().__init__(**fields)
        if callable(script):
            self._endless = script
        else:
            self._script = list(script)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.assert_spent()

    @property
    def calls(self) -> list[list[BaseMessage]]:
        return self._calls

    @property
    def call_kwargs(self) -> list[dict[str, Any]]:
        return self._call_kwargs

    @property
    def bound_tools(self) -> list[list[dict[str, Any]]]:
        return self._bound_tools

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def assert_spent(self) -> None:
        """Fail unless the script was used up, neither more nor less; what ran dry says so though someone caught it.

        Raises:
            ScriptRanDry, ScriptLeftOver
        """
        if self._dry:
            raise ScriptRanDry(self._dry)
        if left := self._script[self._taken :]:
            raise ScriptLeftOver(f"{len(left)} of {len(self._script)} replies were not asked for, next: {left[0]!r}")

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        specs = [convert_to_openai_tool(tool) for tool in tools]
        self._bound_tools.append(specs)
        chosen = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=specs, **chosen, **kwargs)

    def _next(self, messages: list[BaseMessage], kwargs: Mapping[str, Any]) -> AIMessage:
        self._calls.append(list(messages))
        self._call_kwargs.append(dict(kwargs))
        if self._endless:
            item: Item = self._endless
        elif self._taken < len(self._script):
            item = self._script[self._taken]
            self._taken += 1
        else:
            last = str(messages[-1].content)[-300:] if messages else ""
            self._dry = f"call {len(self._calls)} finds a script of {len(self._script)} replies; it ends with: {last!r}"
            raise ScriptRanDry(self._dry)
        if isinstance(item, Exception):
            raise item
        if isinstance(item, AIMessage):
            return item
        said = item(messages) if callable(item) else item
        return said if isinstance(said, AIMessage) else AIMessage(said)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._next(messages, kwargs)
        named = {"finish_reason": _finish_reason(reply)} | reply.response_metadata
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(update={"response_metadata": named}))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._next(messages, kwargs)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(self._next(messages, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _finish_reason(reply: AIMessage) -> str:
    return "tool_calls" if reply.tool_calls or reply.invalid_tool_calls else "stop"


def _chunks(reply: AIMessage) -> Iterator[ChatGenerationChunk]:
    """A message in pieces: its text, then the arguments of its tool calls, then how it ended."""
    for piece in pieces(reply.text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=piece, id=reply.id))
    raw = [(call["name"], json.dumps(call["args"], ensure_ascii=False), call["id"]) for call in reply.tool_calls]
    raw += [(str(call["name"]), str(call["args"]), call["id"]) for call in reply.invalid_tool_calls]
    for index, (name, args, call_id) in enumerate(raw):
        opening = tool_call_chunk(name=name, args="", id=call_id, index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[opening], id=reply.id))
        for piece in pieces(args):
            more = tool_call_chunk(name=None, args=piece, id=None, index=index)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[more], id=reply.id))
    end = AIMessageChunk(
        content="",
        id=reply.id,
        usage_metadata=reply.usage_metadata,
        additional_kwargs=reply.additional_kwargs,
        response_metadata={"finish_reason": _finish_reason(reply)} | reply.response_metadata,
        chunk_position="last",
    )
    yield ChatGenerationChunk(message=end)


# Envelopes of the json protocol.

Call = tuple[str, Mapping[str, Any]]
StepLike = str | Mapping[str, Any]


def envelope(action_type: str, output: Any, thought: str = "", observe: str = "", **beside: Any) -> str:
    """The source's envelope; `beside` goes next to the action type (`step_id`, `step_status_update`)."""
    result = {"action_type": action_type, "output": output} | beside
    return json.dumps({"observe": observe, "thought": thought, "action": {"result": result}}, ensure_ascii=False)


def choose(command: str, thought: str = "", **arguments: Any) -> str:
    """A controller's decision: `choose("double", number=4)`."""
    decision = {"command": command, "command_args": arguments}
    return json.dumps({"thought": thought, "decision": decision}, ensure_ascii=False)


def call_tool(*calls: Call, thought: str = "", observe: str = "", **beside: Any) -> str:
    """`call_tool(("power", {"base": 2, "exponent": 5}))`."""
    return envelope("CALL_TOOL", {"tool_calls": _wanted(calls)}, thought, observe, **beside)


def plan(steps: Sequence[StepLike], notes: str = "", thought: str = "", observe: str = "", **beside: Any) -> str:
    """Sentences become steps "1", "2", …; mappings stay as they are."""
    return envelope("PLAN", {"plan": _numbered(steps, "step_id"), "notes": notes}, thought, observe, **beside)


def remend(
    diagnosis: str, *calls: Call, steps: Sequence[StepLike] = (), thought: str = "", observe: str = "", **beside: Any
) -> str:
    """A repair by calls, or by a new plan."""
    cure = {"plan": _numbered(steps, "step_id")} if steps else {"tool_calls": _wanted(calls)} if calls else {}
    return envelope("REMEND", {"diagnosis": diagnosis} | cure, thought, observe, **beside)


def answer(text: str, thought: str = "", observe: str = "", **beside: Any) -> str:
    return envelope("ANSWER", {"answer": text}, thought, observe, **beside)


def reflect(summary: str = "", thought: str = "", observe: str = "") -> str:
    return envelope("REFLECT", {"summary": summary}, thought, observe)


def plan_json(goal: str, steps: Sequence[StepLike]) -> str:
    """The plan mode's `{"goal", "steps": [{"step", …}]}`."""
    return json.dumps({"goal": goal, "steps": _numbered(steps, "step")}, ensure_ascii=False)


def _wanted(calls: Sequence[Call]) -> list[dict[str, Any]]:
    return [{"function": {"name": name, "arguments": dict(arguments)}} for name, arguments in calls]


def _numbered(steps: Sequence[StepLike], key: str) -> list[dict[str, Any]]:
    said = [{"description": step, "status": "pending"} if isinstance(step, str) else dict(step) for step in steps]
    return [{key: str(place)} | step for place, step in enumerate(said, start=1)]


# Ids and time that do not depend on the day.


class CountedIds(Ids):
    """task-1, trace-1, thread-1 and so on, each kind counted by itself."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def _count(self, kind: str) -> str:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind}-{self._counts[kind]}"

    def task(self) -> TaskId:
        return TaskId(self._count("task"))

    def trace(self) -> TraceId:
        return TraceId(self._count("trace"))

    def thread(self) -> ThreadId:
        return ThreadId(self._count("thread"))


class FixedClock:
    """Says the same time, in Unix seconds, until it is moved on; `tick` moves it on at each look."""

    def __init__(self, now: float = 1_700_000_000.0, tick: float = 0.0) -> None:
        self.now = now
        self.tick = tick

    def __call__(self) -> float:
        said = self.now
        self.now += self.tick
        return said

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class _Call:
    name: str
    arguments: Mapping[str, Any]
    outcome: Mapping[str, Any] | None = None


class MemoryLedger:
    """A `Ledger` in memory."""

    def __init__(self) -> None:
        self._calls: dict[CallKey, _Call] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        call = self._calls.get(key)
        return None if call is None else {"name": call.name, "arguments": call.arguments, "outcome": call.outcome}

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        known = self._calls.get(key)
        if known is not None:
            return Claim("interrupted") if known.outcome is None else Claim("finished", known.outcome)
        doubtful = {"name": name, "arguments": dict(arguments)} in await self.unknown(key.task_id)
        self._calls[key] = _Call(name, dict(arguments))
        return Claim("doubtful" if doubtful else "fresh")

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        self._calls[key].outcome = dict(outcome)

    async def keep(self, key: CallKey, job: Mapping[str, Any]) -> None: ...

    async def withdraw(self, key: CallKey) -> None:
        self._calls.pop(key, None)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return [
            {"name": call.name, "arguments": call.arguments}
            for key, call in self._calls.items()
            if key.task_id == task_id and (call.outcome or {}).get("unknown_outcome")
        ]

    async def finished(self) -> Sequence[records.Call]:
        return []
