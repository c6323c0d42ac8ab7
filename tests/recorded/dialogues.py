"""Recorded dialogues in OpenAI's chat format, replayed turn by turn over real HTTP."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import segue
from segue.app import App
from segue.core.agents import Agent, Budget
from tests.loopback_wire import USAGE, Wire, deltas
from tests.recorded.tools import RecordedCall, RecordedTools

Message = dict[str, Any]
Pairs = list[tuple[str, dict[str, Any]]]
"""Calls as (name, arguments)."""
ROOMY = Budget(prompt_tokens=200_000, result_chars=20_000, tool_calls=1_000)
"""Nothing of a dialogue is left out of a prompt."""
PIECE = 100
"""Characters of a streamed piece; with the seven of other tests the client would be most of the work."""


@dataclass(frozen=True)
class Dialogue:
    """What is compared of a recording: without a canned greeting, and without a last turn that nobody answers."""

    id: str
    system: str
    messages: Sequence[Message]

    @property
    def users(self) -> list[str]:
        return [message["content"] for message in self.messages if message["role"] == "user"]

    @property
    def replies(self) -> list[Message]:
        return [message for message in self.messages if message["role"] == "assistant"]

    @property
    def results(self) -> list[Message]:
        return [message for message in self.messages if message["role"] == "tool"]

    def calls(self, turn: int = 0) -> list[RecordedCall]:
        """The calls of this turn and of all later ones, each with its result."""
        return [call for rest in self._turns()[turn:] for call in _paired(rest)]

    def _turns(self) -> list[list[Message]]:
        turns: list[list[Message]] = []
        for message in self.messages:
            if message["role"] == "user":
                turns.append([])
            turns[-1].append(message)
        return turns


def _paired(messages: Sequence[Message]) -> Iterator[RecordedCall]:
    """Ids repeat, so that a call's result is found by its place."""
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    results = [message for message in messages if message["role"] == "tool"]
    for call, result in zip(calls, results, strict=True):
        assert call["id"] == result["tool_call_id"]
        function = call["function"]
        yield RecordedCall(function["name"], json.loads(function["arguments"]), result["content"])


def read(path: Path) -> list[Dialogue]:
    return [_dialogue(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _dialogue(line: dict[str, Any]) -> Dialogue:
    messages = [message for message in line["messages"] if not message.get("canned")]
    if messages[-1]["role"] == "user":
        messages.pop()
    return Dialogue(line["id"], line["system"] or "", messages)


@dataclass(frozen=True)
class Said:
    """A recorded reply as an endpoint says it: text, ids and raw arguments as they stand, and the usage."""

    reply: Message

    def play(self, wire: Wire) -> None:
        usage = self.reply.get("usage", USAGE)
        message = {name: self.reply[name] for name in ("role", "content", "tool_calls") if name in self.reply}
        ending = "tool_calls" if message.get("tool_calls") else "stop"
        if not wire.streaming:
            return wire.whole([{"index": 0, "message": message, "finish_reason": ending}], usage)
        wire.begin()
        for delta in deltas(message, PIECE):
            wire.delta(delta)
        wire.finish(ending, usage)


def plain(messages: Sequence[Message]) -> list[Message]:
    """What of messages must be the same: role, content (None is empty), calls with raw arguments, the pairing."""
    return [_plain(message) for message in messages]


def _plain(message: Message) -> Message:
    made: Message = {"role": message["role"], "content": message.get("content") or ""}
    if message.get("tool_calls"):
        functions = [(call["id"], call["function"]) for call in message["tool_calls"]]
        made["tool_calls"] = [(call_id, f["name"], f["arguments"]) for call_id, f in functions]
    if message["role"] == "tool":
        made["tool_call_id"] = message["tool_call_id"]
    return made


def agent_of(dialogues: Sequence[Dialogue], tools: RecordedTools, **fields: Any) -> Agent:
    """One agent for dialogues that have the same system prompt."""
    (system,) = {dialogue.system for dialogue in dialogues}
    names = {call.name for dialogue in dialogues for call in dialogue.calls()}
    own = {"agent_id": "recorded", "prompt": system, "tools": tools.named(sorted(names)), "mode": "react"}
    return Agent(**own, **fields, protocol="native", max_iteration=1_000, budget=ROOMY)


async def say(app: App, dialogue: Dialogue, turn: int) -> None:
    result = await app.ask(dialogue.users[turn], session_id=dialogue.id, agent="recorded")
    assert result["success"], result["error"]


async def say_alone(path: Path, place: int, turn: int, base_url: str, database: Path) -> Pairs:
    """Carry one turn of one dialogue; returns the calls that ran."""
    dialogue = read(path)[place]
    tools = RecordedTools(dialogue.calls(turn))
    agent = agent_of([dialogue], tools, model="openai:recorded", base_url=base_url)
    async with segue.open(database, agents=[agent]) as app:
        await say(app, dialogue, turn)
    return tools.ran


def say_and_tell(told: Path, *given: Any) -> None:
    """Call `say_alone`, and write what it returns to a file."""
    told.write_text(json.dumps(asyncio.run(say_alone(*given))), encoding="utf-8")
