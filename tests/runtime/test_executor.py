"""An executor of one's own carries out every call of a task, in every graph, and no tool runs beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.core.agents import Agent
from segue.core.calls import CallResult, Execution
from segue.core.conversation import APIOutput, Conversation, ConversationConfig
from segue.core.flows import BranchConfig, FlowConfig
from segue.core.participants import Setting
from segue.core.tools import Tool
from segue.rehearsal import converse
from segue.tools.registry import as_tool
from tests.fakes import ScriptedChatModel, answer, call_tool, choose, plan_json
from tests.graphs.test_lifecycle import task, tasks
from tests.rehearsal.participants import Does

ran: list[str] = []


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    ran.append(at)
    return "seen here"


@tool(needs_approval=True)
def send(to: str) -> str:
    """Send a letter."""
    ran.append(to)
    return "sent here"


class Elsewhere:
    """Has every call done elsewhere."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []

    def needs_approval(self, tool: Tool) -> bool:
        return False

    def parallel(self, tool: Tool) -> bool:
        return False

    async def execute(self, execution: Execution) -> CallResult:
        self.made.append((execution.name, dict(execution.arguments)))
        return CallResult.done("done elsewhere")


DEEP = FlowConfig(name="deep", subflows_config={"Executor": {"tools": [look]}})
FLOW = FlowConfig(
    name="desk",
    subflows_config={
        "Executor": {
            "tools": [send],
            "branches": {
                "clerk": BranchConfig(agent="clerk", description="A clerk"),
                "deep": BranchConfig(flow=DEEP, description="Deeper"),
            },
        }
    },
)
LOOK, SEND = ("look", {"at": "x"}), ("send", {"to": "y"})
STEPS = [{"action": name, "params": arguments, "description": name} for name, arguments in (LOOK, SEND)]
SCRIPTS: dict[str, Sequence[str]] = {
    "react": [call_tool(LOOK, SEND), answer("done")],
    "plan": [plan_json("g", STEPS), "done"],
    "plan_react": [plan_json("g", STEPS), call_tool(LOOK), call_tool(SEND), answer("done")],
    "lifecycle": [tasks(task("a")), call_tool(LOOK, SEND), answer("done")],
    "controller": [
        plan_json("g", STEPS), choose("look", at="x"), choose("send", to="y"), choose("finish", summary="ok"),
    ],
    "desk": [
        plan_json("g", STEPS), choose("clerk", goal="look"), choose("send", to="y"), choose("deep", goal="look"),
        choose("look", at="x"), choose("finish", summary="ok"), choose("finish", summary="ok"),
    ],
}  # fmt: skip


def agents(script: Sequence[str]) -> list[Agent]:
    clerk = ScriptedChatModel([call_tool(LOOK), answer("looked")])
    return [
        Agent(agent_id="a", model=ScriptedChatModel(script), tools=(look, send)),
        Agent(agent_id="clerk", model=clerk, tools=(look,)),
    ]


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_no_call_of_a_graph_reaches_a_tool_beside_the_executor(mode: str, tmp_path: Path) -> None:
    ran.clear()
    elsewhere, (main, clerk) = Elsewhere(), agents(SCRIPTS[mode])
    async with segue.open(tmp_path / "segue.db", agents=[clerk], modes={"desk": FLOW}) as app:
        app.register(main, elsewhere)
        done = await app.ask("go", agent="a", mode=mode)
    assert (done["status"], ran) == ("done", [])
    assert elsewhere.made == ([LOOK, SEND, LOOK] if mode == "desk" else [LOOK, SEND])


def done_by_the_api(conversation: Conversation) -> APIOutput:
    return APIOutput(data="done by the API")


def own_api(setting: Setting) -> Does:
    return Does(done_by_the_api, [as_tool(source).spec for source in (look, send)])


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_every_call_of_a_bot_is_the_apis(mode: str, tmp_path: Path) -> None:
    ran.clear()
    config = ConversationConfig(
        user_mode="scripted_user", script=["go"], bot_mode=f"segue:{mode}", bot_agent="a", api_mode="own"
    )
    async with segue.open(tmp_path / "segue.db", agents=agents(SCRIPTS[mode]), modes={"desk": FLOW}) as app:
        app.agents.participants.apis.register("own", own_api)
        conversation = await converse(app, config, conversation_id="talk")
        (bot,) = await app.tasks(session_id="talk.bot")
    assert (bot["status"], ran) == ("done", [])
    made = [(u.action, u.action_input) for u in conversation.utterances if u.is_action]
    assert made == ([LOOK, SEND, LOOK] if mode == "desk" else [LOOK, SEND])
    assert [u.data for u in conversation.results] == ["done by the API"] * len(made)


async def test_the_tools_of_a_flow_are_those_of_the_api(tmp_path: Path) -> None:
    ran.clear()
    desk = FlowConfig(name="desk", subflows_config={"Executor": {"tools": [look]}})
    script = [plan_json("g", STEPS[:1]), choose("look", at="x"), choose("finish", summary="ok")]
    bot = Agent(agent_id="a", model=ScriptedChatModel(script), tools=(send,))
    config = ConversationConfig(
        user_mode="scripted_user", script=["go"], bot_mode="segue:desk", bot_agent="a", api_mode="tools"
    )
    async with segue.open(tmp_path / "segue.db", agents=[bot], modes={"desk": desk}) as app:
        conversation = await converse(app, config)
    assert ([u.data for u in conversation.results], ran) == (["seen here"], ["x"])


async def test_recall_reads_the_tasks_own_state_whatever_the_executor(tmp_path: Path) -> None:
    elsewhere = Elsewhere()
    script = [call_tool(LOOK), call_tool(("recall", {"ref": ""})), answer("done")]
    async with segue.open(tmp_path / "segue.db") as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(look,)), elsewhere)
        done = await app.ask("go", agent="a", mode="react")
        results = [e["data"]["result"] for e in await app.events(done["task_id"]) if e["type"] == "tool_result"]
    assert elsewhere.made == [LOOK]
    assert "look" in str(results[1]["success"])
