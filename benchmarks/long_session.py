"""What a late turn of a session costs beside an early one: time, prompt and storage; and so the calls of a long task.

The user states twelve rules in the first turns and small matters after them. The model is scripted: its time is not in
the figures. `python -m benchmarks.long_session [TURNS] [CALLS]` prints a row each at some places on the way.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

import segue
from segue.core.agents import Agent, Budget
from segue.tools.registry import tool

TURNS, CALLS = 10_000, 1_000
AROUND = 20
"""Turns whose middle is a figure."""
RULES = [f"Never open door {number} without asking me." for number in range(1, 13)]


class Scripted(BaseChatModel):
    """Calls `look` so many times, then answers; notes the size of each prompt, and which rules are in the last one."""

    calls: int = 0
    _made: int = PrivateAttr(default=0)
    _sizes: list[tuple[float, int]] = PrivateAttr(default_factory=list)
    _rules: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(**kwargs)

    def _reply(self, messages: Sequence[BaseMessage]) -> AIMessage:
        text = "\n".join(map(str, (message.content for message in messages)))
        self._sizes.append((time.process_time(), len(text)))
        self._rules = sum(rule in text for rule in RULES)
        if self._made < self.calls:
            self._made += 1
            call = {"id": f"c{self._made}", "name": "look", "args": {"number": self._made}, "type": "tool_call"}
            return AIMessage("", tool_calls=[call])
        return AIMessage("It is fine.")

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self._reply(messages)
        chunks = [
            tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=0) for c in reply.tool_calls
        ]
        message = AIMessageChunk(str(reply.content), tool_call_chunks=chunks)
        yield ChatGenerationChunk(message=message, generation_info={"finish_reason": "stop"})


@tool(read_only=True)
def look(number: int) -> dict[str, Any]:
    """Look at a record."""
    return {"record_id": number, "status": "open", "text": "words of a record " * 20}


def row(*cells: Any) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def stored(folder: Path) -> int:
    """Bytes of the session's database."""
    return sum(each.stat().st_size for each in folder.glob("a.db*"))


async def turns(folder: Path, most: int) -> None:
    """Have the turns, and print a row at 100 and at each tenfold of it."""
    model, file = Scripted(), folder / "a.db"
    agent = Agent(agent_id="a", model=model, mode="direct", budget=Budget(prompt_tokens=6_000))
    row("turn", "processor ms", "prompt characters", "rules in it", "database MB", "kB a turn")
    row("--:", "--:", "--:", "--:", "--:", "--:")
    places = [place for place in (100, 500, 1_000, 2_500, 5_000, 10_000) if place <= most]
    async with segue.open(file, agents=[agent]) as app:
        taken: list[float] = []
        for turn in range(1, most + 1):
            said = RULES[turn - 1] if turn <= len(RULES) else f"Tell me about part {turn} of the garden and its trees."
            began = time.process_time()
            await app.ask(said, session_id="s")
            taken.append(time.process_time() - began)
            if turn in places:
                size = stored(folder)
                middle = statistics.median(taken[-AROUND:])
                cells = (model._sizes[-1][1], model._rules, round(size / 1e6, 1), round(size / turn / 1e3, 1))
                row(turn, round(1000 * middle, 1), *cells)


async def calls(folder: Path, most: int) -> None:
    """Have one task with so many calls, and print what rounds took, from one prompt to the next."""
    model = Scripted(calls=most)
    budget = Budget(tool_calls=most + 10, prompt_tokens=6_000, seconds=36_000)
    limits: dict[str, Any] = {"max_iteration": most + 10, "budget": budget}
    agent = Agent(agent_id="a", model=model, mode="react", protocol="native", tools=(look,), **limits)
    async with segue.open(folder / "b.db", agents=[agent]) as app:
        await app.ask(RULES[0], session_id="s")
    row("call", "processor ms", "prompt characters")
    row("--:", "--:", "--:")
    sizes = model._sizes
    for place in (place for place in (50, 100, 250, 500, 1_000) if place <= most):
        steps = [sizes[n][0] - sizes[n - 1][0] for n in range(max(1, place - AROUND), place)]
        row(place, round(1000 * statistics.median(steps), 1), sizes[place - 1][1])


def main(most_turns: int = TURNS, most_calls: int = CALLS) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        asyncio.run(calls(Path(folder), most_calls))
        print()
        asyncio.run(turns(Path(folder), most_turns))


if __name__ == "__main__":
    os.environ.update(SEGUE_DISPATCH="never", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    main(*map(int, sys.argv[1:]))
