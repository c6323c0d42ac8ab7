"""Segue's service, with an agent whose model writes at a steady pace: `python with_segue.py PORT FOLDER`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from segue.core.agents import Agent
from segue.server import ServerSettings, create_app, serve

SECONDS = 25.0
"""How long a task takes."""
ROUNDS = 6
PIECE = 12
MANY = 10**6
THOUGHT = (
    "The order of the day comes first, then the way there, then what there is to eat; so I look up number {n} next."
)
ANSWER = "第{n}天：上午看故宫，下午走胡同，晚上吃烤鸭。\n"


def reply(done: int) -> str:
    """What the model says after so many rounds: five tool calls, then an answer."""
    if done < ROUNDS - 1:
        calls = [{"function": {"name": "look_up", "arguments": {"number": done}}}]
        result: dict[str, Any] = {"action_type": "CALL_TOOL", "output": {"tool_calls": calls}}
        thought = THOUGHT.format(n=done)
    else:
        answer = "".join(ANSWER.format(n=n) for n in range(1, 25))
        result, thought = {"action_type": "ANSWER", "output": {"answer": answer}}, "I have it all."
    return json.dumps({"observe": "", "thought": thought, "action": {"result": result}}, ensure_ascii=False)


class SteadyModel(BaseChatModel):
    """Says `reply()` in small pieces, so that all rounds together take `SECONDS`."""

    @property
    def _llm_type(self) -> str:
        return "steady"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError("it only streams")

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        text = reply(sum(isinstance(message, AIMessage) for message in messages))
        for start in range(0, len(text), PIECE):
            await asyncio.sleep(PAUSE)
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + PIECE]))
        ended = {"finish_reason": "stop"}
        last = AIMessageChunk(content="", response_metadata=ended, chunk_position="last")
        yield ChatGenerationChunk(message=last)


def look_up(number: int) -> str:
    """Look a number up."""
    return f"What there is to know of {number}. " * 5


PAUSE = SECONDS / sum(-(-len(reply(done)) // PIECE) for done in range(ROUNDS))


def application() -> FastAPI:
    settings = ServerSettings(chats_a_minute=MANY, requests_a_minute=MANY, streams=MANY)
    agent = Agent(agent_id="steady", model=SteadyModel(), tools=(look_up,), mode="react")
    return create_app(Path(sys.argv[2]) / "segue.db", settings, agents=[agent])


if __name__ == "__main__":
    serve(ServerSettings(), application, "127.0.0.1", int(sys.argv[1]), 1)
