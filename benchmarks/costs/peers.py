"""The same task by each peer: a message that leads to calls of one tool, answered in a stream."""

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from random import Random
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segue.app import App

SYSTEM = "You are a helpful assistant."
MODEL = "bench-model"
PAGE = "The corridor on the second floor leads to the archive, which is open on weekdays. "
MANY = 1_000_000
"""A limit that no task reaches."""

Tool = Callable[[int], str | Awaitable[str]]
Ask = Callable[[str, str], AsyncIterator[str]]
"""Send a message in a session; yields the pieces of the answer."""
Peer = Callable[[str, Path, Tool], AbstractAsyncContextManager[Ask]]
"""A peer at the endpoint of an address, with its database in a folder, and one tool."""


def page_tool(kind: str) -> Tool:
    """The tool of every task: `sync-20` has results of 20 characters, `random-5000` some that hardly compress."""
    form, size = kind.split("-")

    def page(number: int) -> str:
        text = random_text(number, int(size)) if form == "random" else PAGE * (int(size) // len(PAGE) + 1)
        return f"Page {number}. {text}"[: int(size)]

    async def read_page(number: int) -> str:
        """Read one page of the handbook."""
        return page(number)

    page.__name__, page.__doc__ = read_page.__name__, read_page.__doc__
    return page if form == "sync" else read_page


def random_text(seed: int, size: int) -> str:
    return "".join(Random(seed).choices(ascii_letters + digits, k=size))


@asynccontextmanager
async def bare(url: str, folder: Path, tool: Tool) -> AsyncIterator[Ask]:
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
                result = tool(**json.loads(call["arguments"]))
                result = await result if inspect.isawaitable(result) else result
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        yield ask


@asynccontextmanager
async def create_agent(url: str, folder: Path, tool: Tool) -> AsyncIterator[Ask]:
    """LangChain's agent with LangGraph's SQLite saver."""
    from langchain.agents import create_agent as build
    from langchain_core.messages import AIMessageChunk
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(folder / "peer.db")) as saver:
        model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", stream_usage=True)
        pages = StructuredTool.from_function(**{"coroutine" if inspect.iscoroutinefunction(tool) else "func": tool})
        agent = build(model, [pages], system_prompt=SYSTEM, checkpointer=saver)

        async def ask(message: str, session: str) -> AsyncIterator[str]:
            config = {"configurable": {"thread_id": session}, "recursion_limit": MANY}
            given = {"messages": [("user", message)]}
            async for chunk, _ in agent.astream(given, config, stream_mode="messages"):
                if isinstance(chunk, AIMessageChunk) and chunk.text:
                    yield chunk.text

        yield ask


@asynccontextmanager
async def pydantic_ai(url: str, folder: Path, tool: Tool) -> AsyncIterator[Ask]:
    """pydantic-ai's agent: nothing is stored."""
    from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, instructions=SYSTEM, tools=[tool])

    async def ask(message: str, session: str) -> AsyncIterator[str]:
        async with agent.run_stream_events(message, usage_limits=UsageLimits(request_limit=None)) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    yield event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    yield event.delta.content_delta

    yield ask


@asynccontextmanager
async def openai_agents(url: str, folder: Path, tool: Tool) -> AsyncIterator[Ask]:
    """The agents SDK of OpenAI with its SQLite session, which stores the items of a turn."""
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, RunConfig, Runner, SQLiteSession, function_tool
    from openai import AsyncOpenAI

    async def ask(message: str, session: str) -> AsyncIterator[str]:
        with closing(SQLiteSession(session, folder / "peer.db")) as kept:
            run = Runner.run_streamed(agent, message, max_turns=MANY, session=kept, run_config=untraced)
            async for event in run.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    yield event.data.delta

    untraced = RunConfig(tracing_disabled=True)
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        model = OpenAIChatCompletionsModel(MODEL, client)
        settings = ModelSettings(include_usage=True)
        agent = Agent("bench", instructions=SYSTEM, tools=[function_tool(tool)], model=model, model_settings=settings)
        yield ask


def segue(protocol: str, **options: Any) -> Peer:
    """Segue on SQLite, with its events, ledger and lease."""

    @asynccontextmanager
    async def opened(url: str, folder: Path, tool: Tool) -> AsyncIterator[Ask]:
        async def ask(message: str, session: str) -> AsyncIterator[str]:
            async for event in app.chat(message, session_id=session, agent="bench"):
                if event.type == "token":
                    yield event.content

        async with open_segue(url, folder, tool, protocol, **options) as app:
            yield ask

    return opened


@asynccontextmanager
async def open_segue(
    url: str, folder: Path, tool: Tool, protocol: str, *, read_only: bool = False, **budget: int
) -> "AsyncIterator[App]":
    """An app with the agent of the benchmark."""
    import segue

    agent = segue.Agent(
        agent_id="bench",
        model=f"openai:{MODEL}",
        base_url=url,
        prompt=SYSTEM,
        protocol=protocol,
        tools=[segue.tool(read_only=read_only)(tool)],
        mode="react",
        max_iteration=MANY,
        budget=segue.Budget(tool_calls=MANY, seconds=3600, **budget),
    )
    async with segue.open(folder / "segue.db", agents=[agent], max_running=200) as app:
        yield app


PEERS: dict[str, Peer] = {
    "openai loop": bare,
    "pydantic-ai": pydantic_ai,
    "openai-agents + SQLite": openai_agents,
    "create_agent + SQLite": create_agent,
    "Segue json": segue("json"),
    "Segue native": segue("native"),
    "Segue native, read-only": segue("native", read_only=True),
}
UNTRIMMED = {"prompt_tokens": MANY, "result_chars": MANY}
"""A budget with which a whole conversation is sent with each call, as the other peers do."""
WHOLE = "Segue native, whole conversation"
