"""Recorded replacements for models, the ledger and MCP servers during a replay."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.agents import Agent
from ...core.approval import Grant
from ...core.context import Services
from ...core.errors import ModelRefused
from ...core.events import Event, Token
from ...core.models import CallDelta, Model, ModelPiece, ModelReply, ModelRequest, RawCall, ReasoningDelta, TextDelta
from ...core.records import Call
from ...core.tools import CallKey, Claim, Ledger, Tool
from ...models.request_text import request_text
from ...nodes.shared.live_reply import HELD_CHARS, HELD_SECONDS
from ...registry import Registry
from ...tools.bound_tool import Marked, Marks
from .cassette import ModelCall, ServedTool
from .tape import RecordedIds, Tape


class RecordedModel:
    """Replies what was recorded; no model is called."""

    def __init__(self, tape: Tape, agent: Agent, name: str, registry: "ReplayRegistry") -> None:
        self.name = name
        self.is_language_model = name != "offline"
        self._tape = tape
        self._agent = agent
        self._registry = registry

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the recorded reply as a model would.

        Raises:
            ModelRefused: it was refused then.
            SegueError: the request differs, or the task failed here.
        """
        call = await self._tape.reply_to(request_text(request, self.name, self._agent), self._registry.stream_rest)
        if call.reply.error:
            raise ModelRefused(call.reply.error)
        async for piece in _pieces(call):
            yield piece


async def _pieces(call: ModelCall) -> AsyncGenerator[ModelPiece, None]:
    """The pieces in the order that shows as much of the text as was shown then."""
    reply = call.reply
    made = tuple(RawCall(**called.model_dump()) for called in reply.tool_calls)
    if reply.reasoning:
        yield ReasoningDelta(reply.reasoning)
    if made and not reply.streamed:
        yield CallDelta(made[0].name)
    if reply.text:
        yield TextDelta(reply.text)
    if made and reply.streamed and len(reply.text) <= HELD_CHARS:
        await asyncio.sleep(HELD_SECONDS * 1.1)
    used = {"input": call.input, "output": call.output}
    yield ModelReply(reply.text, reply.finish_reason, used, made)


class RecordedLedger:
    """A ledger that settles a call with its recorded outcome before it can run."""

    def __init__(self, whole: Ledger, tape: Tape) -> None:
        self._whole = whole
        self._tape = tape

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any]) -> Claim:
        claim = await self._whole.claim(key, name, arguments)
        if claim.state not in ("fresh", "doubtful"):
            return claim
        outcome = await self._tape.result_of(name, arguments)
        if outcome is None:
            return claim
        await self._whole.settle(key, outcome)
        return Claim("finished", outcome)

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        return await self._whole.read(key)

    async def settle(self, key: CallKey, outcome: Mapping[str, Any]) -> None:
        await self._whole.settle(key, outcome)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._whole.unknown(task_id)

    async def finished(self) -> Sequence[Call]:
        return await self._whole.finished()


class OfflineTool(Marked):
    """A tool of an MCP server as it was described when the session was recorded; it cannot run."""

    def __init__(self, served: ServedTool) -> None:
        self.spec = served.spec
        self.name = str(served.spec["function"]["name"])
        self.marks = Marks(served.read_only, served.idempotent, served.needs_approval)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        raise RuntimeError(f"{self.name} cannot run: its server is not connected in a replay.")


class ReplayRegistry(Registry):
    """Agents as they are now, with recorded models, results, ids and time.

    Of a live turn the model is real, and so are tools whose call was not recorded.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.ids = RecordedIds(tape)
        self._tape = tape
        self._emit: Callable[[Event], None] = lambda event: None

    async def prepare(self, agent: Agent) -> None:
        """Make the agent's tools ready; those of MCP servers are the recorded ones unless a turn is live."""
        if not agent.mcp or self._tape.continues:
            return await super().prepare(agent)
        await super().prepare(agent.model_copy(update={"mcp": ()}))
        served: dict[str, Tool] = {}
        for given in self._tape.cassette.served.get(agent.agent_id, ()):
            served[given.spec["function"]["name"]] = OfflineTool(given)
        self._tools[agent.agent_id] = {**self.tools_for(agent), **served}

    def model_for(self, agent: Agent, override: str = "") -> Model:
        if self._tape.live:
            return super().model_for(agent, override)
        return RecordedModel(self._tape, agent, self._name_of(agent, override), self)

    def environment_model(self, agent: Agent) -> str:
        return super().environment_model(agent) if self._tape.live else ""

    def _name_of(self, agent: Agent, override: str) -> str:
        """The name of the model that would be called now; the recorded one where the environment decides."""
        choice = override or agent.model
        if choice is None:
            return self._tape.model
        return choice if isinstance(choice, str) else super().model_for(agent, override).name

    def for_run(self, services: Services) -> Services:
        def emit(event: Event) -> None:
            self._tape.note(event)
            services.emit(event)

        async def notes(task_id: str) -> Sequence[str]:
            return self._tape.notes()

        async def permissions(agent_id: str) -> Sequence[Grant]:
            grants = await services.permissions(agent_id)
            permitted = self._tape.turn.permitted
            return grants if self._tape.live else [grant for grant in grants if grant.rule.tool in permitted]

        self._emit, clock = emit, self._tape.clock
        ledger = RecordedLedger(services.ledger, self._tape) if services.ledger else None
        others: dict[str, Any] = {"ledger": ledger, "clock": clock, "began": clock()}
        return replace(services, emit=emit, notes=notes, permissions=permissions, **others)

    def stream_rest(self) -> None:
        """Stream what a cancelled task had written of its answer."""
        if rest := self._tape.unstreamed:
            self._emit(Token(task_id=self._tape.turn.task_id, content=rest))
