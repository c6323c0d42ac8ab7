"""Which of 19 faults of an endpoint a task survives, beside three peers; writes endpoint_faults.md here.

The endpoint is llmock: a task is one message, a call of a tool and an answer, each streamed. Each peer has the settings
that it comes with.
"""

import asyncio
import logging
import os
import platform
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llmock.scenarios import Delay, Fail, Reply, SlowFirstToken, StreamFault, ToolCall, ToolFault
from llmock.testing import LLMockServer

MODEL, SYSTEM, MESSAGE = "gpt-4.1-mini", "You are a helpful assistant.", "When is the archive open? Read the page."
ANSWER = "The archive is open on weekdays, from nine in the morning to five in the afternoon."
PAGE = "The archive is on the second floor, and open on weekdays. " * 300
SECONDS = 90.0
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."

Tool = Callable[[int], str]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with the request that leads to the call, or with the one that leads to the answer."""

    name: str
    first: tuple[Any, ...] = ()
    second: tuple[Any, ...] = ()


FAULTS = (
    Fault("429 with Retry-After, before the call", (Fail(429, retry_after=0.5),)),
    Fault("429 without Retry-After, before the answer", second=(Fail(429),)),
    Fault("500 before the call", (Fail(500),)),
    Fault("502 before the answer", second=(Fail(502),)),
    Fault("503 twice before the call", (Fail(503, times=2),)),
    Fault("408 before the answer", second=(Fail(408),)),
    Fault("529 before the call", (Fail(529),)),
    Fault("400: the prompt is too long", second=(Fail(400, message=TOO_LONG, code="context_length_exceeded"),)),
    Fault("the connection breaks in the call", (StreamFault("disconnect", after_chunks=2),)),
    Fault("the connection breaks in the answer", second=(StreamFault("disconnect", after_chunks=3),)),
    Fault("the stream ends in the call", (StreamFault("truncate", after_chunks=2),)),
    Fault("the stream ends in the answer", second=(StreamFault("truncate", after_chunks=3),)),
    Fault("a chunk of the call is no JSON", (StreamFault("malformed", after_chunks=2),)),
    Fault("a chunk of the answer is no JSON", second=(StreamFault("malformed", after_chunks=3),)),
    Fault("a pause of 2 s in the answer", second=(StreamFault("stall", after_chunks=3, stall_seconds=2),)),
    Fault("2 s before the first chunk", (SlowFirstToken(2),)),
    Fault("2 s before the response", second=(Delay(2),)),
    Fault("arguments that are no JSON", (ToolFault("malformed_arguments"),)),
    Fault("a tool that does not exist", (ToolFault("unknown_tool"),)),
)


# Each peer streams its task, and gives the answer that it ends with.


async def segue(url: str, tool: Tool) -> str:
    import segue

    agent = segue.Agent(agent_id="a", model=f"openai:{MODEL}", base_url=url, api_key="none", tools=[tool],  # type: ignore[arg-type]
                        protocol="native", mode="react", prompt=SYSTEM)  # fmt: skip
    async with segue.open(":memory:", agents=[agent]) as app:
        return str((await app.ask(MESSAGE, agent="a")).answer)


async def create_agent(url: str, tool: Tool) -> str:
    from langchain.agents import create_agent as build
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", streaming=True)  # type: ignore[arg-type]
    agent = build(model, [StructuredTool.from_function(tool)], system_prompt=SYSTEM)
    return str((await agent.ainvoke({"messages": [("user", MESSAGE)]}))["messages"][-1].text)


async def openai_agents(url: str, tool: Tool) -> str:
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        model = OpenAIChatCompletionsModel(MODEL, client)
        agent = Agent("a", instructions=SYSTEM, tools=[function_tool(tool)], model=model)
        run = Runner.run_streamed(agent, MESSAGE, run_config=RunConfig(tracing_disabled=True))
        async for _ in run.stream_events():
            pass
        return str(run.final_output)


async def pydantic_ai(url: str, tool: Tool) -> str:
    from pydantic_ai import Agent, AgentRunResultEvent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="none")), instructions=SYSTEM,
                  tools=[tool])  # fmt: skip
    said = ""
    async with agent.run_stream_events(MESSAGE) as events:
        async for event in events:
            if isinstance(event, AgentRunResultEvent):
                said = str(event.result.output)
    return said


PEERS: dict[str, tuple[Callable[[str, Tool], Awaitable[str]], str]] = {
    "Segue": (segue, "segue"),
    "create_agent": (create_agent, "langchain"),
    "openai-agents": (openai_agents, "openai-agents"),
    "pydantic-ai": (pydantic_ai, "pydantic-ai-slim"),
}


async def outcome(peer: Callable[[str, Tool], Awaitable[str]], fault: Fault, seconds: float | None = SECONDS) -> str:
    """What becomes of a task; empty if it ends with the whole answer, and its tool ran once."""
    runs: list[int] = []
    with LLMockServer() as server:
        scenarios = server.state.scenarios
        for behaviour in (Reply(tool_calls=(ToolCall("read_page", {"number": 1}),), times=None), *fault.first):
            scenarios.add(behaviour)

        def read_page(number: int) -> str:
            """Read one page of the handbook."""
            runs.append(number)
            if len(runs) == 1:
                scenarios.clear()
                scenarios.add(Reply(text=ANSWER, times=None))
                for behaviour in fault.second:
                    scenarios.add(behaviour)
            return PAGE

        try:
            async with asyncio.timeout(seconds) as limit:
                said = await peer(server.base_url("openai"), read_page)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything
            return f"no end in {seconds:g} s" if limit.expired() else type(error).__name__
    if said != ANSWER:
        return "a part of the answer, as the answer" if ANSWER.startswith(said.strip()) else "another answer"
    return "" if len(runs) == 1 else f"the tool ran {len(runs)} times"


async def measure() -> list[str]:
    rows, survived = [], dict.fromkeys(PEERS, 0)
    for fault in FAULTS:
        cells = []
        for name, (peer, _) in PEERS.items():
            why = await outcome(peer, fault)
            survived[name] += not why
            cells.append(why or "done")
        print(fault.name, cells, flush=True)
        rows.append(f"| {fault.name} | {' | '.join(cells)} |")
    total = " | ".join(f"**{count} of {len(FAULTS)}**" for count in survived.values())
    return [f"| fault | {' | '.join(PEERS)} |", f"| --- |{' --- |' * len(PEERS)}", *rows, f"| **survived** | {total} |"]


def main() -> None:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "SEGUE_"))]:
        del os.environ[name]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    table = asyncio.run(measure())
    versions = ", ".join(f"{name} {version(package)}" for name, (_, package) in PEERS.items())
    about = f"One run: {versions}; llmock {version('llmock')}, Python {platform.python_version()}."
    why = (
        "Each fault comes once in a task of two model calls, streamed. `done`: the task ends with the whole answer, "
        "and its tool ran once. Otherwise the cell says how it ends."
    )
    text = "\n".join(["# Faults of an endpoint", "", why, "", *table, "", about, ""])
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
