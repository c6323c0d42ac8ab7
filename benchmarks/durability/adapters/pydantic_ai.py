"""pydantic-ai, which leaves storing to the program: each run's new messages are a row of a table, as in its example.

Messages: https://ai.pydantic.dev/examples/chat-app/, https://ai.pydantic.dev/message-history/
Messages to a running task, in the same process: `enqueue` of https://ai.pydantic.dev/api/run/
Approvals: https://ai.pydantic.dev/deferred-tools/#human-in-the-loop-tool-approval
"""

import asyncio
import contextlib
import functools
import sqlite3
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pydantic_ai as ai
from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.durability.work import MODEL, SYSTEM, Outcome, Work

PACKAGES = ("pydantic-ai-slim",)
NOT_OFFERED = {
    "deaths": "durable execution is left to [integrations](https://ai.pydantic.dev/durable_execution/overview/).",
    "approvals.nested": "an approval of a nested agent is [not handed on](https://github.com/pydantic/pydantic-ai/issues/3274).",
    "streams": "[a stream](https://ai.pydantic.dev/agent/#streaming-all-events) is of one run in its process.",
}


def model_of(work: Work) -> OpenAIChatModel:
    return OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=work.url, api_key="none"))


async def stream(context: Any, events: AsyncIterable[Any]) -> None:
    """Have replies streamed."""
    async for _ in events:
        pass


def agent_of(work: Work) -> Agent[Any, Any]:
    tools = [ai.Tool(tool, requires_approval=tool.__name__ in work.guarded) for tool in work.tools]
    return Agent(model_of(work), instructions=SYSTEM, tools=tools, output_type=[str, DeferredToolRequests])


def outcome_of(result: AgentRunResult[Any]) -> Outcome:
    if isinstance(result.output, DeferredToolRequests):
        return Outcome(waiting=tuple(call.tool_name for call in result.output.approvals))
    return Outcome(answer=result.output)


def _table(work: Work) -> sqlite3.Connection:
    connection = sqlite3.connect(work.folder / "messages.db", timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, message_list TEXT)")
    return connection


def load(work: Work) -> list[Any]:
    with contextlib.closing(_table(work)) as table:
        rows = table.execute("SELECT message_list FROM messages ORDER BY id").fetchall()
    return [message for (row,) in rows for message in ModelMessagesTypeAdapter.validate_json(row)]


def append(work: Work, new: bytes) -> None:
    with contextlib.closing(_table(work)) as table, table:
        table.execute("INSERT INTO messages (message_list) VALUES (?)", (new,))


def save(work: Work, result: AgentRunResult[Any]) -> Outcome:
    append(work, result.new_messages_json())
    return outcome_of(result)


def verdicts(messages: list[Any], approve: Mapping[str, bool]) -> DeferredToolResults:
    asked = {call.tool_call_id: call.tool_name for call in messages[-1].tool_calls if call.tool_name in approve}
    return DeferredToolResults(approvals={each: approve[name] or ai.ToolDenied("no") for each, name in asked.items()})


async def run(work: Work) -> Outcome:
    agent = agent_of(work)
    async with agent.iter(work.message, message_history=load(work)) as running:
        work.arrival(functools.partial(asyncio.get_running_loop().call_soon_threadsafe, running.enqueue))
        async for node in running:
            if Agent.is_model_request_node(node):
                async with node.stream(running.ctx) as events:
                    await stream(None, events)
    return save(work, running.result)  # type: ignore[arg-type]


def remember(work: Work, turns: Sequence[tuple[str, str]]) -> None:
    request, response = load(work)[-2:]
    messages = []
    for said, answer in turns:
        messages += [replace(request, parts=[ai.UserPromptPart(said)]), replace(response, parts=[ai.TextPart(answer)])]
    append(work, ModelMessagesTypeAdapter.dump_json(messages))


async def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    old = load(work)
    return save(work, await agent_of(work).run(message_history=old, deferred_tool_results=verdicts(old, approve)))
