"""What MCP servers ask in the middle of a call, answered in another app over the same database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

import segue
from segue.core.agents import Agent, McpServer
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.mcp_server import serve

server = MCPServer("desk", log_level="ERROR")
FORM = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}


@server.tool()
async def book(ctx: Context) -> str | InputRequiredResult:
    if answer := (ctx.input_responses or {}).get("seats"):
        return f"{answer.content['seats']} seats" if answer.action == "accept" else f"none: {answer.action}"
    form = ElicitRequestFormParams(message="How many seats?", requested_schema=FORM)
    return InputRequiredResult(input_requests={"seats": ElicitRequest(params=form)})


@pytest.fixture(scope="module")
def desk() -> Iterator[McpServer]:
    with serve(server) as address:
        yield McpServer(name="desk", url=address)


def reply(messages: object) -> str:
    said = str(messages)
    found = next((text for text in ("3 seats", "none: decline") if text in said), "")
    return answer(f"Booked {found}.") if found else call_tool(("book", {}))


@pytest.mark.parametrize(
    ("given", "told"), [("3", "Booked 3 seats."), ({"manual_finish": True}, "Booked none: decline.")]
)
async def test_a_servers_question_waits_until_it_is_answered_elsewhere(
    desk: McpServer, database: Path, given: object, told: str
) -> None:
    agent = Agent(agent_id="clerk", model=ScriptedChatModel(reply), mode="react", mcp=[desk])
    async with segue.open(database, agents=[agent]) as app:
        asked = await app.ask("Book.", agent="clerk")
        assert asked.status == "waiting", (asked, await app.tasks.events(asked.task_id))
    async with segue.open(database, agents=[agent]) as app:
        question = await app.question(asked.task_id)
        assert question["question"] == "The MCP server desk asks: How many seats?"
        again = await app.answer(asked.task_id, "many")
        assert again.status == "waiting" and "problem" in await app.question(asked.task_id)
        assert (await app.answer(asked.task_id, given)).answer == told
