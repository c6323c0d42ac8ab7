"""The controller–executor with memory: its interface, its rounds, and what a person sees of it."""

import io
import json
from pathlib import Path

from rich.console import Console

import segue
from segue import Agent, FlowConfig
from segue.cli.views.trace_tree import trace_tree
from segue.core.flows import SUBFLOWS
from tests.fakes import ScriptedChatModel, choose, plan_json
from tests.loopback import Text

from .conftest import Chat


def double(number: int) -> int:
    """Double a number."""
    return number * 2


PLAN = "1. double 4\n2. tell the result"
SCRIPT = [Text(choose("double", "I double it.", number=4)), Text(choose("final_answer", answer="It is 8."))]


async def test_a_plan_is_carried_out_round_by_round_over_http(chat: Chat) -> None:
    talk = await chat(SCRIPT, PLAN, mode="controller", tools=(double,))
    assert (talk.result["success"], talk.result["answer"], talk.result["mode"]) == (True, "It is 8.", "controller")
    assert [event["max_round"] for event in talk.of_type("round_start")] == [30, 30]
    assert talk.text("token") == "It is 8." and "I double it." in talk.text("thinking")
    schema = json.dumps(talk.requests[0].body["response_format"])
    assert all(f'"const": "{name}"' in schema for name in ("double", "ask_user", "re_plan", "finish"))


async def test_the_native_protocol_uses_the_same_decision(chat: Chat) -> None:
    talk = await chat(SCRIPT, PLAN, mode="controller", tools=(double,), protocol="native")
    assert talk.result["answer"] == "It is 8." and talk.result["reasoning"]["tools_used"] == ["double"]


async def test_a_plan_is_made_first_where_none_is_given(chat: Chat) -> None:
    steps = [{"action": "double", "params": {"number": 4}, "description": "double it"}]
    talk = await chat([Text(plan_json("8", steps)), *SCRIPT], "Double 4", mode="controller", tools=(double,))
    (plan,) = talk.of_type("plan_update")
    assert plan["steps"][0]["description"] == "double it"
    assert '"description": "double it"' in talk.requests[1].body["messages"][0]["content"]


async def test_the_result_goes_to_the_controller_and_the_summary_to_the_logs(chat: Chat) -> None:
    talk = await chat(SCRIPT, PLAN, mode="controller", tools=(double,))
    memory, state = talk.requests[1].body["messages"][0]["content"].split("## Memory")[1].split("## State")
    assert 'double {"number": 4} → 8' in memory
    assert '{"round": 1, "name": "double", "arguments": {"number": 4}, "result": {"success": 8}}' in state


async def test_a_later_task_of_the_session_reads_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        first = ScriptedChatModel([choose("double", number=4), choose("finish", summary="doubled")])
        app.register(Agent(agent_id="a", model=first, tools=(double,), mode="controller"))
        await app.ask(PLAN, session_id="s", agent="a")
        second = ScriptedChatModel([choose("finish", summary="read it")])
        app.register(Agent(agent_id="a", model=second, tools=(double,), mode="controller"))
        await app.ask(PLAN, session_id="s", agent="a")
        memory = str(second.calls[0][0].content).split("## Memory")[1].split("## State")[0]
        assert 'double {"number": 4} → 8' in memory


def test_the_defaults_are_those_of_the_document() -> None:
    config = FlowConfig()
    assert config.max_round == 30 and [entry.flow for entry in config.topology] == [*SUBFLOWS]
    aliases = {field.alias for field in type(config.subflows_config).model_fields.values()}
    assert aliases == {"Controller", "Executor", "MemoryWriting", "MemoryReading"}


async def test_rounds_branches_and_nested_flows_are_one_tree(tmp_path: Path) -> None:
    inner = {"flow": {"name": "inner"}}
    flow = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"research": inner}}}})
    script = [
        choose("research", goal="find 4"),
        choose("double", "I look.", number=2),
        choose("finish", summary="found it"),
        choose("final_answer", answer="It is 4."),
    ]
    async with segue.open(":memory:", modes={"work": flow}) as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(double,), mode="work"))
        result = await app.ask(PLAN, session_id="s", agent="a")
        assert (result["mode"], result["answer"]) == ("work", "It is 4.")
        trace = await app.tasks.trace(result["task_id"])
    console = Console(file=io.StringIO(), width=160, color_system=None)
    console.print(trace_tree(trace))
    assert isinstance(console.file, io.StringIO)
    lines = [line for line in console.file.getvalue().splitlines() if "ledger" not in line]

    def indent(name: str) -> int:
        line = next(line for line in lines if name in line)
        return len(line) - len(line.lstrip("│├└─ "))

    nested = [indent(name) for name in ("round 1  flow work", "research(", "round 1  flow inner", "double(")]
    assert nested == sorted({*nested}) and indent("flow inner finished") == nested[2]
    assert indent("flow work finished") == nested[0]


async def test_simple_requests_work_without_a_language_model() -> None:
    async with segue.open(":memory:") as app:
        result = await app.ask("Compute 12*3+4", mode="controller", model="offline")
        assert result["success"] and "40" in result["answer"] and "not a language model" in result["answer"]
