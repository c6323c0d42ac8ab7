"""An executor of one's own carries out every call of a task, in every graph, and no tool runs beside it."""

from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.core.agents import Agent
from segue.core.calls import CallResult, Execution, Tool
from segue.core.conversation import APIOutput, Conversation, ConversationConfig, Setting
from segue.core.flows import BranchConfig, FlowConfig
from segue.testing.rehearsal import converse
from segue.tools.registry import as_tool
from tests.fakes import ScriptedChatModel, answer, call_tool, choose
from tests.modes import CALLING, agent_that, plan_of
from tests.rehearsal.participants import Does

ran: list[str] = []


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    ran.append(at)
    return "seen here"


def take_back(to: str) -> str:
    ran.append(f"{to} back")
    return "taken back here"


@tool(needs_approval=True, undo=take_back)
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
OWN: dict[str, tuple[str, list[str]]] = {
    "batch": ("react", [call_tool(LOOK, SEND), answer("done")]),
    "desk": ("desk", [
        plan_of([LOOK, SEND]), choose("clerk", goal="look"), choose("send", to="y"), choose("deep", goal="look"),
        choose("look", at="x"), choose("finish", summary="ok"), choose("finish", summary="ok"),
    ]),
}  # fmt: skip
"""Modes and scripts for more than one call after the other."""
MODES = (*CALLING, *OWN)


def agents(name: str) -> list[Agent]:
    agent = agent_that("react" if name in OWN else name, LOOK, SEND, tools=(look, send))
    if name in OWN:
        mode, script = OWN[name]
        agent = agent.model_copy(update={"mode": mode, "model": ScriptedChatModel(script)})
    clerk = ScriptedChatModel([call_tool(LOOK), answer("looked")])
    return [agent, Agent(agent_id="clerk", model=clerk, tools=(look,))]


@pytest.mark.parametrize("mode", MODES)
async def test_no_call_of_a_graph_reaches_a_tool_beside_the_executor(mode: str, tmp_path: Path) -> None:
    ran.clear()
    elsewhere, (main, clerk) = Elsewhere(), agents(mode)
    async with segue.open(tmp_path / "segue.db", agents=[clerk], modes={"desk": FLOW}) as app:
        app.register(main, elsewhere)
        done = await app.ask("go", agent="a")
    assert (done["status"], ran) == ("done", [])
    assert elsewhere.made == ([LOOK, SEND, LOOK] if mode == "desk" else [LOOK, SEND])


async def test_the_executor_takes_back_what_it_did(tmp_path: Path) -> None:
    ran.clear()
    elsewhere = Elsewhere()
    agent = Agent(
        agent_id="a", model=ScriptedChatModel([answer("hello"), call_tool(SEND), answer("done")]), tools=(send,)
    )
    async with segue.open(tmp_path / "segue.db") as app:
        app.register(agent, elsewhere)
        await app.ask("hi", session_id="s", agent="a", mode="react")
        before = (await app.sessions.snapshots("s"))[0].checkpoint_id
        await app.ask("go", session_id="s", agent="a", mode="react")
        (undone,) = await app.rewind.undo("s", before)
    assert (undone.result, ran) == ({"success": "done elsewhere"}, [])
    assert elsewhere.made[-1] == ("send_undo", {"to": "y"})


def done_by_the_api(conversation: Conversation) -> APIOutput:
    return APIOutput(data="done by the API")


def own_api(setting: Setting) -> Does:
    return Does(done_by_the_api, [as_tool(source).spec for source in (look, send)])


@pytest.mark.parametrize("mode", ["batch", "plan", "desk"])  # the executor is what the test above has in every mode
async def test_every_call_of_a_bot_is_the_apis(mode: str, tmp_path: Path) -> None:
    ran.clear()
    bot, clerk = agents(mode)
    config = ConversationConfig(
        user_mode="scripted_user", script=["go"], bot_mode=f"segue:{bot.mode}", bot_agent="a", api_mode="own"
    )
    async with segue.open(tmp_path / "segue.db", agents=[bot, clerk], modes={"desk": FLOW}) as app:
        app.agents.participants.apis.register("own", own_api)
        conversation = await converse(app, config, conversation_id="talk")
        (task,) = await app.tasks.list(session_id="talk.bot")
    assert (task.status, ran) == ("done", [])
    made = [(u.action, u.action_input) for u in conversation.utterances if u.is_action]
    assert made == ([LOOK, SEND, LOOK] if mode == "desk" else [LOOK, SEND])
    assert [u.data for u in conversation.results] == ["done by the API"] * len(made)


async def test_the_tools_of_a_flow_are_those_of_the_api(tmp_path: Path) -> None:
    ran.clear()
    desk = FlowConfig(name="desk", subflows_config={"Executor": {"tools": [look]}})
    script = [plan_of([LOOK]), choose("look", at="x"), choose("finish", summary="ok")]
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
        results = [e.data["result"] for e in await app.events(done["task_id"]) if e.type == "tool_result"]
    assert elsewhere.made == [LOOK]
    assert "look" in str(results[1]["success"])
