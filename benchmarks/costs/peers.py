"""The same task by each peer: a message that leads to calls of one tool, answered in a stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

SYSTEM = "You are a helpful assistant."
MODEL = "bench-model"
PAGE = "The corridor on the second floor leads to the archive, which is open on weekdays. "
MANY = 1_000_000
"""A limit that no task reaches."""

Ask = Callable[[str, str], AsyncIterator[str]]
"""Send a message in a session; yields the pieces of the answer."""


async def read_page(number: int) -> str:
    """Read one page of the handbook."""
    return f"Page {number}. " + (PAGE * 13)[:988]


async def wait(number: int) -> str:
    """Wait a fifth of a second for one number."""
    await asyncio.sleep(0.2)
    return f"{number}"


@asynccontextmanager
async def bare(url: str, folder: Path) -> AsyncIterator[Ask]:
    """The `openai` client in a loop: nothing is stored."""
    from openai import AsyncOpenAI

    parameters = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    function = {"name": "read_page", "description": "Read one page of the handbook.", "parameters": parameters}
    tools: Any = [{"type": "function", "function": function}]

    async def ask(message: str, session: str) -> AsyncIterator[str]:
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": message}]
        while True:
            said, calls = [], []
            async for chunk in await client.chat.completions.create(
                model=MODEL, messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}
            ):
                delta = chunk.choices[0].delta if chunk.choices else None
                if delta and delta.content:
                    said.append(delta.content)
                    yield delta.content
                for call in (delta.tool_calls if delta else None) or ():
                    calls += [{"id": call.id, "name": call.function.name, "arguments": ""}] if call.id else []
                    calls[-1]["arguments"] += call.function.arguments
            if not calls:
                return
            made = [
                {"id": c["id"], "type": "function", "function": {n: c[n] for n in ("name", "arguments")}} for c in calls
            ]
            messages.append({"role": "assistant", "content": "".join(said) or None, "tool_calls": made})
            for call in calls:
                result = await read_page(**json.loads(call["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        yield ask


@asynccontextmanager
async def create_agent(url: str, folder: Path) -> AsyncIterator[Ask]:
    """LangChain's agent with LangGraph's SQLite saver."""
    from langchain.agents import create_agent as build
    from langchain_core.messages import AIMessageChunk
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(folder / "peer.db")) as saver:
        model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", stream_usage=True)
        agent = build(model, [tool(read_page)], system_prompt=SYSTEM, checkpointer=saver)

        async def ask(message: str, session: str) -> AsyncIterator[str]:
            config = {"configurable": {"thread_id": session}, "recursion_limit": MANY}
            given = {"messages": [("user", message)]}
            async for chunk, _ in agent.astream(given, config, stream_mode="messages"):
                if isinstance(chunk, AIMessageChunk) and chunk.text:
                    yield chunk.text

        yield ask


@asynccontextmanager
async def pydantic_ai(url: str, folder: Path) -> AsyncIterator[Ask]:
    """pydantic-ai's agent: nothing is stored."""
    from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, instructions=SYSTEM, tools=[read_page])

    async def ask(message: str, session: str) -> AsyncIterator[str]:
        async with agent.run_stream_events(message, usage_limits=UsageLimits(request_limit=None)) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    yield event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    yield event.delta.content_delta

    yield ask


def segue(protocol: str, read_only: bool) -> Callable[[str, Path], AbstractAsyncContextManager[Ask]]:
    """Segue on SQLite, with its events, ledger and lease."""

    @asynccontextmanager
    async def opened(url: str, folder: Path) -> AsyncIterator[Ask]:
        import segue

        agent = segue.Agent(
            agent_id="bench",
            model=f"openai:{MODEL}",
            base_url=url,
            prompt=SYSTEM,
            protocol=protocol,
            tools=[segue.tool(read_only=True)(read_page) if read_only else read_page, segue.tool(read_only=True)(wait)]
            if protocol == "plan"
            else [segue.tool(read_only=True)(read_page) if read_only else read_page],
            mode="react",
            max_iteration=MANY,
            budget=segue.Budget(tool_calls=MANY, seconds=3600, parallel_calls=16),
        )

        async def ask(message: str, session: str) -> AsyncIterator[str]:
            async for event in app.chat(message, session_id=session, agent="bench"):
                if event.type == "token":
                    yield event.content

        async with segue.open(folder / "segue.db", agents=[agent], max_running=200) as app:
            yield ask

    return opened


PEERS: dict[str, Callable[[str, Path], AbstractAsyncContextManager[Ask]]] = {
    "openai loop": bare,
    "pydantic-ai": pydantic_ai,
    "create_agent + SQLite": create_agent,
    "Segue json": segue("json", read_only=False),
    "Segue json, read-only": segue("json", read_only=True),
    "Segue native": segue("native", read_only=False),
    "Segue native, read-only": segue("native", read_only=True),
}
