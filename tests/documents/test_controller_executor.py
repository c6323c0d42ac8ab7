"""The controller–executor with memory: its interface, its rounds, what a person sees of it, and what it remembers."""

import asyncio
import io
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from rich.console import Console
from typer.testing import CliRunner

import segue
from segue import Agent, App, EarlyExit, FlowConfig, tool
from segue.cli.main import app as cli
from segue.cli.views.task import trace_tree
from segue.core.errors import ConfigurationError, InvalidMemory, InvalidMessage
from segue.core.events import ErrorRaised
from segue.core.flows import SUBFLOWS, ControllerDecision
from tests.fakes import ScriptedChatModel, call_tool, choose, plan_json
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


@pytest.mark.parametrize("name", ["controller", "controller_executor"])
async def test_the_graphs_of_studio_take_the_plan_the_goal_and_the_logs(name: str) -> None:
    model = ScriptedChatModel([choose("double", number=4), choose("final_answer", answer="It is 8.")])
    graph = segue.graph(name, agents=[Agent(agent_id="a", model=model, tools=(double,))])
    given = {"goal": "Tell me twice 4", "plan": PLAN, "memory_files": {}, "logs": "bought a calculator"}
    with model:
        out = await graph.ainvoke(given, context={"agent": "a"})
    assert "It is 8." in str(out["result"])
    system, goal = model.calls[0]
    assert goal.content == "Tell me twice 4" and "bought a calculator" in str(system.content)
    assert all(f'"description": "{step}"' in str(system.content) for step in ("double 4", "tell the result"))


async def test_the_next_message_on_the_thread_of_a_given_plan_has_a_plan_of_its_own() -> None:
    made = plan_json("g", [{"action": "double", "params": {"number": 1}, "description": "another step"}])
    finish = choose("final_answer", answer="done")
    model = ScriptedChatModel([finish, made, finish])
    agent = Agent(agent_id="a", model=model, tools=(double,))
    graph = segue.graph("controller", agents=[agent], checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"goal": "first", "plan": PLAN, "logs": "old logs"}, config, context={"agent": "a"})
    with model:
        await graph.ainvoke({"messages": [("user", "second")]}, config, context={"agent": "a"})
    system, goal = model.calls[-1]
    assert goal.content == "second" and "another step" in str(system.content) and "old logs" not in str(system.content)


async def test_a_person_who_ends_the_flow_gets_no_error() -> None:
    script = [choose("ask_user", question="Which number?")]
    async with segue.open(":memory:") as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(double,), mode="controller"))
        task = await app.start(PLAN, session_id="s", agent="a")
        async for _ in app.follow(task.task_id):
            pass
        result = await app.answer(task.task_id, {"manual_finish": True})
        assert (result["flow_status"], result.get("error")) == ("unfinished", None)
        assert "terminated explicitly by the user" in result["answer"]
        assert (await app.task(task.task_id)).status == "done"
        assert "error" not in [event.type for event in (await app.trace(task.task_id)).events]


def too_long(state: Mapping[str, Any]) -> EarlyExit:
    return EarlyExit("as far as I got", "It takes longer.")


@pytest.mark.parametrize("hook", [None, too_long])
async def test_reaching_the_last_round_is_no_success_whatever_the_hook_says(hook: Any) -> None:
    config = FlowConfig(max_round=1, on_reach_max_round=hook)
    script = [choose("double", number=4)]
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(double,), mode="work"))
        result = await app.ask(PLAN, agent="a")
    assert (result["success"], result["flow_status"]) == (False, "unfinished")
    assert ("It takes longer." if hook else "the maximum amount of rounds (1)") in result["error"]


async def test_a_step_whose_flow_reached_its_last_round_is_not_done() -> None:
    branch = {"flow": {"max_round": 1}}
    config = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"inner": branch}}}})
    decision = json.loads(choose("inner", goal="double 4")) | {"step_id": "1"}
    script = [json.dumps(decision), choose("double", number=4), choose("final_answer", answer="half of it")]
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(double,), mode="work"))
        result = await app.ask(PLAN, agent="a")
    assert [step["status"] for step in result["plan"]] == ["error", "pending"]
    assert "the maximum amount of rounds (1)" in result["plan"][0]["note"]


async def test_a_step_that_names_no_tool_is_done_by_the_nested_flow_that_is_given_it() -> None:
    @tool
    def refund(order: int) -> str:
        """Refund an order."""
        return f"order {order} is refunded"

    config = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"billing": {"flow": {}}}}}})
    script = [
        choose("billing", goal="refund order 17", plan="1. refund 17"),
        choose("refund", order=17),
        choose("finish", summary="refunded", result="done"),
        choose("final_answer", answer="It is refunded."),
    ]
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(refund,), mode="work"))
        result = await app.ask("1. refund 17\n2. write to the customer", agent="a")
    assert [step["status"] for step in result["plan"]] == ["done", "pending"] and result["open_steps"] == 1


@pytest.mark.parametrize(
    ("command", "error"), [("fly", "There is no branch"), ("double", "unknown: n"), ("re_plan", "")]
)
async def test_the_same_failing_branch_ends_the_flow_the_third_time(chat: Chat, command: str, error: str) -> None:
    talk = await chat([Text(choose(command, n=4))] * 3, PLAN, mode="controller", tools=(double,))
    assert talk.result["success"] is False and talk.result["flow_status"] == "unfinished"
    assert f'the same call failed 3 times: {command} {{"n": 4}}' in talk.result["error"]
    assert error in talk.result["error"]


async def test_failing_calls_that_a_person_approved_do_not_count(app: App) -> None:
    @tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay an amount."""
        raise RuntimeError("the bank is closed")

    script = [*[choose("pay", amount=4)] * 6, choose("final_answer", answer="Closed.")]
    app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(pay,), mode="controller"))
    result = await app.ask("pay 4", agent="a")
    approvals = 0
    while result["status"] == "waiting":
        approvals += 1
        question = await app.question(result["task_id"])
        verdicts = [{"index": call["index"], "verdict": "approve"} for call in question["calls"]]
        result = await app.answer(result["task_id"], {"verdicts": verdicts})
    assert (approvals, result["answer"]) == (2, "Closed."), "the third is refused, and not asked about"
    errors = [entry["result"]["error"] for entry in result["history"] if entry["action"] == "pay"]
    assert [error.endswith("No approval was requested.") for error in errors] == [False, False, True]


class Source(TypedDict):
    name: str


class Topic(TypedDict):
    """A state as LangGraph's own examples declare it: pydantic alone does not take it before Python 3.12."""

    topic: str
    sources: NotRequired[list[Source]]
    said: NotRequired[str]


async def test_a_graph_with_the_usual_typed_dict_is_a_branch() -> None:
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Topic)
    graph.add_node("say", lambda state: {"said": f"about {state['topic']}"})
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    config = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"say": {"graph": graph}}}}})
    model = ScriptedChatModel([choose("say", topic="rain"), choose("finish", summary="said")])
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=model, mode="work"))
        with model:
            result = await app.ask(PLAN, agent="a")
    assert '"topic": {"type": "string"}' in str(model.calls[0][0].content)
    assert result["history"][0]["result"] == {"success": {"topic": "rain", "said": "about rain"}}


@dataclass
class Unfit:
    model: Agent
    handler: threading.Thread


async def test_a_graph_whose_input_has_no_schema_is_refused_when_the_app_opens() -> None:
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Unfit)
    graph.add_node("say", lambda state: {})
    graph.add_edge(START, "say")
    config = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"say": {"graph": graph}}}}})
    with pytest.raises(ConfigurationError, match=r"branch 'say' has no JSON schema .*give the branch `parameters`"):
        await segue.open(":memory:", modes={"work": config})


def stop_at_once(decision: ControllerDecision, state: Mapping[str, Any]) -> EarlyExit:
    return EarlyExit("stopped", "stopped at once")


@pytest.mark.parametrize(
    "controller", ["Controller", {"flow": "Controller", "goal": "decide", "reset": False, "input_interface": None}]
)
async def test_a_topology_is_a_list_of_the_subflows(controller: Any) -> None:
    FlowConfig.model_validate({"topology": [controller, "Executor", "MemoryWriting", "MemoryReading"]})
    interface = {"_target_": f"{__name__}.stop_at_once"}
    entry = {**(controller if isinstance(controller, dict) else {"flow": controller}), "output_interface": interface}
    config = FlowConfig.model_validate({"topology": [entry, "Executor", "MemoryWriting", "MemoryReading"]})
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel([choose("double", number=4)]), mode="work"))
        assert (await app.ask(PLAN, agent="a"))["answer"] == "stopped"


def only_results(state: dict[str, Any]) -> dict[str, Any]:
    return {"conversation": [], "seen": [result["result"]["success"] for result in state["results"]]}


async def test_the_controllers_interface_decides_what_it_is_shown_and_reset_hides_earlier_rounds() -> None:
    entry = {"flow": "Controller", "input_interface": {"_target_": f"{__name__}.only_results"}, "reset": True}
    config = FlowConfig.model_validate({"topology": ["MemoryReading", entry, "Executor", "MemoryWriting"]})
    model = ScriptedChatModel(
        [choose("double", number=4), choose("double", number=5), choose("final_answer", answer="8, 10")]
    )
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=model, mode="work", tools=(double,)))
        with model:
            assert (await app.ask(PLAN, agent="a"))["answer"] == "8, 10"
    shown = [str(call[0].content) for call in model.calls]
    assert [text.partition('"seen": ')[2].partition("}")[0] for text in shown] == ["[]", "[8]", "[10]"]
    assert all('"max_round"' not in text for text in shown)


@pytest.mark.parametrize(
    ("topology", "why"),
    [
        (
            ["Controller", {"flow": "Executor", "input_interface": only_results}],
            "only the Controller has an input_interface: remove that of the Executor",
        ),
        (
            [{"flow": "Controller", "input_interface": {"_target_": "a.b", "keys_to_select": []}}, "Executor"],
            "give a function, or a table with `_target_` alone",
        ),
    ],
)
async def test_only_the_controller_has_interfaces(topology: list[Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        FlowConfig.model_validate({"topology": topology})


def test_a_wrong_topology_is_named_by_segue_agents(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text('[flows.coder]\ntopology = ["Executor", "Controller", "MemoryReading"]\n', encoding="utf-8")
    done = CliRunner().invoke(cli, ["agents", "--agents", str(file)])
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.strip() == (
        "The flow 'coder': the topology has the order Executor → Controller → MemoryReading: "
        "write MemoryReading → Controller → Executor."
    )


def test_the_description_of_a_flow_is_that_of_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text('[flows.coder]\ndescription = "Writes code in small steps."\n', encoding="utf-8")
    done = CliRunner().invoke(cli, ["modes", "--agents", str(file)])
    assert "Writes code in small steps." in done.stdout


async def test_the_controller_sees_the_description_of_a_nested_flow() -> None:
    inner = {"flow": {"name": "inner", "description": "Looks things up."}}
    flow = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"research": inner}}}})
    model = ScriptedChatModel([choose("final_answer", answer="Done.")])
    async with segue.open(":memory:", modes={"work": flow}) as app:
        app.register(Agent(agent_id="a", model=model, mode="work"))
        with model:
            await app.ask(PLAN, agent="a")
    assert ": Looks things up." in str(model.calls[0][0].content)


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


async def test_the_thinking_of_a_flow_names_branches_arguments_outcomes_errors_and_questions() -> None:
    def fail() -> str:
        """Fail."""
        raise ValueError("no luck")

    inner = {"flow": {"max_round": 3}}
    config = FlowConfig.model_validate({"subflows_config": {"Executor": {"branches": {"inner": inner}}}})
    script = [
        "no decision",
        choose("inner", goal="double 4"),
        choose("double", number=4),
        choose("final_answer", answer="8"),
        choose("fail"),
        choose("ask_user", question="Which one?"),
        choose("final_answer", answer="It is 8."),
    ]
    async with segue.open(":memory:", modes={"work": config}) as app:
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(double, fail), mode="work"))
        events = [event async for event in app.chat(PLAN, agent="a")]
        said = [event.data["content"] for event in events if event.type == "thinking"]
    text = "".join(said)
    for expected in (
        "Error: The reply holds no JSON object",
        'Branch inner: goal="double 4"\n', "Calling double: number=4\n",
        "Tool: double [succeeded]\nResult: 8\n",
        "Branch: inner [succeeded]\n", "Tool: fail [failed]\nError: ValueError: no luck\n",
        'Branch ask_user: question="Which one?"\n',
    ):  # fmt: skip
        assert text.count(expected) == 1, (expected, text)
    assert said[-1].endswith("[The task waits]\nWhich one?\n")


async def test_the_last_banner_of_a_task_says_that_it_failed_or_waits_for_an_approval() -> None:
    @tool(needs_approval=True)
    def refund(order: int) -> str:
        """Refund an order."""
        return "refunded"

    script = [call_tool(("refund", {"order": 17})), *[call_tool(("refund", {}))] * 9]
    async with segue.open(":memory:") as app:
        budget = segue.Budget(tool_calls=1)
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(refund,), mode="react", budget=budget))
        events = [event async for event in app.chat("refund 17", agent="a")]
        said = [event.data["content"] for event in events if event.type == "thinking"]
        assert said[-1].endswith("[The task waits]\nrefund: order=17\n")
        task_id = events[0].task_id
        answered = app.answer_and_follow(task_id, "approve")
        last = [event.data["content"] async for event in answered if event.type == "thinking"]
    assert "[The task failed]\n" in last[-1]


# Memory of the controller–executor: of a session, of a user, and in named files.

FINISH = choose("finish", summary="done")


def flow(**subflows: Any) -> FlowConfig:
    return FlowConfig.model_validate({"subflows_config": subflows})


async def asked(app: App, session: str, *script: str) -> str:
    """One task in a session; the memory that its last prompt has."""
    model = ScriptedChatModel([*script, FINISH])
    app.register(Agent(agent_id="a", model=model, tools=(double,), mode="work"))
    with model:
        await app.ask("1. double 4\n2. tell the result", session_id=session, agent="a")
    return str(model.calls[-1][0].content).split("## Memory")[1].split("## State")[0]


@pytest.mark.parametrize(
    ("writing", "shared", "names"),
    [
        ({}, False, ["s1/work.logs.md", "s2/work.logs.md"]),
        ({"scope": "user"}, True, ["work.logs.md"]),
        ({"file": "projects/notes"}, True, ["projects/notes.md"]),
        ({"file": "notes.txt", "scope": "session"}, False, ["s1/notes.txt", "s2/notes.txt"]),
    ],
    ids=["session", "user", "named file", "named in the session"],
)
async def test_memory_belongs_to_a_session_to_a_user_or_to_a_named_file(
    writing: dict[str, str], shared: bool, names: Sequence[str]
) -> None:
    async with segue.open(":memory:", modes={"work": flow(MemoryWriting=writing)}) as app:
        await asked(app, "s1", choose("double", number=4))
        assert ('double {"number": 4}' in await asked(app, "s2")) is shared
        assert [file["name"] for file in await app.memory.files()] == names


async def test_a_named_file_that_a_person_wrote_is_read_and_added_to(tmp_path: Path) -> None:
    notes = tmp_path / "default" / "notes.md"
    notes.parent.mkdir()
    notes.write_text("# Mine\n\nThe door is blue.\n", encoding="utf-8")
    config = flow(MemoryWriting={"file": "notes.md"})
    async with segue.open(":memory:", modes={"work": config}, memory=tmp_path) as app:
        assert "The door is blue." in await asked(app, "s1", choose("double", number=4))
    text = notes.read_text(encoding="utf-8")
    assert text.startswith("# Mine\n\nThe door is blue.\n") and 'double {"number": 4} → 8' in text


async def test_a_flow_reads_a_file_beside_its_own_by_name(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "rules.md").write_text("Write in verse.", encoding="utf-8")
    (tmp_path / "default" / "other.md").write_text("Not this one.", encoding="utf-8")
    config = flow(MemoryReading={"files": ["rules", "logs"]})
    async with segue.open(":memory:", modes={"work": config}, memory=tmp_path) as app:
        memory = await asked(app, "s1", choose("double", number=4))
    assert "Write in verse." in memory and 'double {"number": 4}' in memory and "Not this one." not in memory


async def test_branches_share_no_file_unless_they_name_it() -> None:
    script = [
        choose("first", goal="double 1"), choose("double", number=1), FINISH,
        choose("second", goal="double 2"), choose("double", number=2), FINISH,
    ]  # fmt: skip
    named = {"MemoryWriting": {"file": "shared"}}
    for config, names in (
        ({}, ["s/work.first.logs.md", "s/work.logs.md", "s/work.second.logs.md"]),
        ({"subflows_config": named}, ["s/work.logs.md", "shared.md"]),
    ):
        branches = {name: {"flow": config} for name in ("first", "second")}
        async with segue.open(":memory:", modes={"work": flow(Executor={"branches": branches})}) as app:
            await asked(app, "s", *script)
            assert [file["name"] for file in await app.memory.files()] == names


@pytest.mark.parametrize("name", ["controller", "controller_executor"])
async def test_memory_files_of_the_input_are_read_and_written_by_their_names(name: str) -> None:
    model = ScriptedChatModel([choose("double", number=4), FINISH, FINISH])
    graph = segue.graph(name, agents=[Agent(agent_id="a", model=model, tools=(double,))])
    for _ in range(2):
        given = {"goal": "double 4", "plan": "1. double 4", "memory_files": {"logs": "projects/trip.md"}}
        await graph.ainvoke(given, context={"agent": "a"})
    assert 'double {"number": 4}' in str(model.calls[-1][0].content)


def folder_of_files(root: Path) -> Path:
    """A folder with two memory files of a person's, and a file outside of it."""
    root.mkdir(parents=True)
    (root / "rules.md").write_text("Write in verse.", encoding="utf-8")
    (root / "trip.md").write_text("The door is blue.", encoding="utf-8")
    (root.parent / "secret.md").write_text("4711", encoding="utf-8")
    return root


@pytest.mark.parametrize("name", ["controller", "controller_executor"])
@pytest.mark.parametrize("named", [True, False])
async def test_bare_graphs_read_the_files_below_the_memory_folder(
    name: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = folder_of_files(tmp_path / ("kept" if named else "memory"))
    monkeypatch.setenv("SEGUE_MEMORY", "kept" if named else "")
    model = ScriptedChatModel([choose("double", number=4), FINISH])
    graph = segue.graph(name, agents=[Agent(agent_id="a", model=model, tools=(double,))])
    files = {"rules": "rules.md", "logs": "trip.md"}
    out = await graph.ainvoke({"goal": "double 4", "plan": "1. double 4", "memory_files": files})
    assert out["result"]
    first, last = (str(call[0].content) for call in model.calls)
    assert "Write in verse." in first and "The door is blue." in first and "memory_error" not in first
    assert 'double {"number": 4}' in last.split("## Memory")[1].split("## State")[0]
    assert 'double {"number": 4} → 8' in (root / "trip.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in root.iterdir() if path.suffix) == ["rules.md", "trip.md"], "it makes no file"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("gone.md", "There is no memory file gone.md: create it"),
        ("../secret.md", "cannot be used: it has '..'"),
        ("/etc/hostname", "cannot be used: it is an absolute path"),
        ("link.md", "is a link"),
    ],
)
async def test_the_controller_sees_which_file_cannot_be_read(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder_of_files(tmp_path / "memory")
    (tmp_path / "memory" / "link.md").symlink_to(tmp_path / "secret.md")
    model = ScriptedChatModel([FINISH])
    graph = segue.graph("controller_executor", agents=[Agent(agent_id="a", model=model, tools=(double,))])
    await graph.ainvoke({"goal": "double 4", "memory_files": {"rules": "rules.md", "other": path}})
    prompt = str(model.calls[0][0].content)
    assert why in prompt.split('"memory_error"')[1] and "4711" not in prompt
    assert ("Write in verse." in prompt) is (path == "gone.md"), "the others are read"


@pytest.mark.parametrize("files", [["rules.md"], {"rules": 3}, {"rules": ""}, "rules.md", {"rules": "r.md", "x": None}])
async def test_memory_files_that_are_no_paths_by_name_are_refused(files: Any) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel([]), tools=(double,))
    with pytest.raises(InvalidMessage, match="give the paths of at most 50 files by their names"):
        await segue.graph("controller_executor", agents=[agent]).ainvoke({"goal": "go", "memory_files": files})
    async with segue.open(":memory:", agents=[agent]) as app:
        with pytest.raises(InvalidMessage, match="give the paths of at most 50 files by their names"):
            await app.ask("go", agent="a", mode="controller", memory_files=files)
        assert not await app.tasks.list()


async def test_a_message_names_memory_files_for_its_flow(tmp_path: Path) -> None:
    folder_of_files(tmp_path / "default")
    model = ScriptedChatModel([choose("double", number=4), FINISH, FINISH])
    agent = Agent(agent_id="a", model=model, tools=(double,), mode="work")
    files = {"rules": "rules.md", "logs": "trip.md", "other": "gone.md"}
    async with segue.open(":memory:", agents=[agent], modes={"work": flow()}, memory=tmp_path) as app:
        result = await app.ask("1. double 4\n2. tell it", agent="a", memory_files=files)
        errors = [e.message for e in await app.events(result.task_id) if isinstance(e, ErrorRaised)]
        await app.ask("1. double 5\n2. tell it", agent="a", session_id=result.session_id)
    first, _, later = (str(call[0].content) for call in model.calls)
    assert "Write in verse." in first and "The door is blue." in first
    assert set(errors) == {"There is no memory file gone.md: create it, or leave it out of memory_files."}
    assert "Write in verse." not in later, "they are those of one message"
    assert 'double {"number": 4}' in (tmp_path / "default" / "trip.md").read_text(encoding="utf-8")


async def test_memory_files_that_nothing_would_read_are_refused(tmp_path: Path) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel([]), tools=(double,))
    listing, without = flow(MemoryReading={"files": ["logs"]}), FlowConfig(topology=["Controller", "Executor"])
    async with segue.open(":memory:", agents=[agent], modes={"work": listing, "plain": without}) as app:
        for mode in ("react", "auto", "plain"):
            with pytest.raises(InvalidMessage, match=f"The mode {mode} reads no memory files"):
                await app.ask("go", agent="a", mode=mode, memory_files={"rules": "rules.md"})
        with pytest.raises(InvalidMemory, match="it has"):
            await app.ask("go", agent="a", mode="work", memory_files={"rules": "../rules.md"})
        assert not await app.tasks.list()
        with pytest.raises(InvalidMessage, match="The flow work does not read the memory file rules"):
            await app.ask("1. a\n2. b", agent="a", mode="work", memory_files={"rules": "rules.md"})


async def test_memory_files_are_not_added_to_an_unfinished_task(tmp_path: Path) -> None:
    folder_of_files(tmp_path / "default")
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    agent = Agent(agent_id="a", model=ScriptedChatModel([choose("slow"), FINISH]), tools=(slow,), mode="work")
    async with segue.open(":memory:", agents=[agent], modes={"work": flow()}, memory=tmp_path) as app:
        task = await app.start("1. wait\n2. tell it", agent="a", session_id="s")
        await entered.wait()
        options: Any = {"agent": "a", "session_id": "s", "steer": True}
        with pytest.raises(InvalidMessage, match="Memory files cannot be added to an unfinished task"):
            await app.ask("in verse", memory_files={"rules": "rules.md"}, **options)
        assert not (await app.task(task.task_id)).notes
        gate.set()
        assert (await app.ask("in verse", **options)).task_id == task.task_id
