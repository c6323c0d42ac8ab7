"""The controller–executor graph: rounds, branches, memory, hooks, and what happens where something is wrong."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from segue.core.agents import Budget
from segue.core.context import Memory, MemoryEntry
from segue.core.errors import ConfigurationError, MemoryUnavailable, UnknownMemory
from segue.core.flows import BranchInput, ControllerDecision, EarlyExit, early_exit
from segue.core.models import tokens
from segue.graphs.controller_executor import build_controller_executor
from segue.memory.files import TransientMemory
from segue.prompts.catalogue import error_text
from segue.tools.registry import tool
from tests.cases import cases
from tests.fakes import answer, call_tool, choose
from tests.graphs.conftest import Bed, Make

FILES = {"logs": "logs.md"}
FINISH = choose("finish", summary="all is done", result="42")


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """SQLite alone: what it stores of a state, memory would."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as sqlite:
        yield sqlite


def flow(**config: Any) -> Any:
    """What builds the graph of this configuration."""
    return partial(build_controller_executor, config)


def with_branches(**branches: Any) -> Any:
    return flow(subflows_config={"Executor": {"branches": branches}})


def prompts(bed: Bed) -> list[str]:
    """The system prompt of each call of the model."""
    return [str(call[0].content) for call in bed.model.calls]


def whole(call: Sequence[Any]) -> int:
    return sum(tokens(str(message.content)) for message in call)


async def test_the_first_round_sees_the_memory_and_the_callers_logs(bed: Make) -> None:
    made = bed(flow(), [FINISH])
    entry = MemoryEntry(key="k", task_id="t", round=1, branch="note", text="the door is blue", created_at=1.0)
    await made.services.memory.append("logs.md", entry)
    await made.start({"goal": "Paint it", "memory_files": FILES, "logs": "bought the paint"})
    assert "the door is blue" in prompts(made)[0] and "bought the paint" in prompts(made)[0]


async def test_the_hook_for_the_last_round_fires_after_exactly_so_many_rounds(bed: Make) -> None:
    made = bed(flow(max_round=3), [choose("double", number=n) for n in range(3)])
    out = await made.start({"goal": "Double for ever"})
    assert out["status"] == "unfinished" and len(made.of_type("round_start")) == 3
    assert "the maximum amount of rounds (3) was reached before the goal was met" in out["summary"]
    assert 'double {"number": 1}' in out["summary"], "it says what was done"


async def test_a_flow_without_a_limit_goes_on(bed: Make) -> None:
    made = bed(flow(max_round=None), [*(choose("double", number=n) for n in range(31)), FINISH])
    out = await made.start({"goal": "Double often"})
    assert out["status"] == "finished" and len(made.of_type("round_start")) == 32


async def own_end(state: Mapping[str, Any]) -> EarlyExit:
    return EarlyExit({"rounds": state["round"]}, "my own end", "unfinished")


def own_detector(decision: ControllerDecision, state: Mapping[str, Any]) -> Any:
    """`stop` ends the flow, `twice` is a name for double."""
    if decision.command == "stop":
        return {"EARLY_EXIT": True, "result": "stopped", "summary": "stopped early", "status": "finished"}
    return BranchInput("double", {"number": decision.command_args["n"]})


@pytest.mark.parametrize("hook", [own_end, f"{__name__}:own_end"], ids=["callable", "by name"])
async def test_the_hook_for_the_last_round_can_be_replaced(bed: Make, hook: Any) -> None:
    made = bed(flow(max_round=1, on_reach_max_round=hook), [choose("double", number=1)])
    out = await made.start({"goal": "Double"})
    assert (out["result"], out["summary"]) == ({"rounds": 1}, "my own end")


@pytest.mark.parametrize("as_interface", [False, True], ids=["hook", "output interface"])
async def test_the_hook_behind_the_controller_can_be_replaced(bed: Make, as_interface: bool) -> None:
    names = ["Controller", "Executor", "MemoryWriting", "MemoryReading"]
    topology = [
        {"flow": name, **({"output_interface": own_detector} if name == "Controller" else {})} for name in names
    ]
    config = {"topology": topology} if as_interface else {"detect_finish_or_continue": own_detector}
    made = bed(flow(**config), [choose("twice", n=4), choose("stop")])
    out = await made.start({"goal": "Double"})
    assert (out["result"], out["summary"], out["status"]) == ("stopped", "stopped early", "finished")
    assert [event["data"]["name"] for event in made.of_type("tool_result")] == ["double"]


async def test_a_built_in_branch_that_is_left_out_does_not_end_the_flow(bed: Make) -> None:
    config = {"subflows_config": {"Executor": {"built_ins": ["final_answer"]}}}
    made = bed(flow(**config), [FINISH, choose("final_answer", answer="42")])
    out = await made.start({"goal": "Answer"})
    assert (out["result"], out["status"]) == ("42", "finished")
    assert 'There is no branch "finish"' in prompts(made)[1]


async def test_a_hook_that_returns_something_else_is_named(bed: Make) -> None:
    made = bed(flow(detect_finish_or_continue=lambda decision, state: {"result": 1}), [FINISH])
    with pytest.raises(ConfigurationError, match="return a BranchInput, an EarlyExit"):
        await made.start({"goal": "Double"})


async def test_a_reply_that_cannot_be_read_is_asked_for_again_twice(bed: Make) -> None:
    made = bed(flow(), ["no json", '{"thought": "hm"}', FINISH])
    out = await made.start({"goal": "Finish"})
    assert out["status"] == "finished" and len(made.of_type("round_start")) == 1
    assert "no JSON object" in prompts(made)[1] and 'has no \\"command\\"' in prompts(made)[2]


async def test_after_three_unreadable_replies_the_flow_is_unfinished_and_says_why(bed: Make) -> None:
    made = bed(flow(), [choose("note", text="hello"), "no", "no", "no"])
    out = await made.start({"goal": "Finish"})
    assert out["status"] == "unfinished" and "noted hello" in out["summary"]
    why = early_exit(out["early_exit"]).error
    assert why.startswith("The flow is unfinished: 3 replies could not be read. The last one: ")
    out = await bed(flow(), ["no"] * 3).start({"goal": "Finish"})
    assert out["summary"].endswith("What was done:\n(no results yet)")


async def test_an_unknown_branch_is_an_error_that_lists_the_branches(bed: Make) -> None:
    made = bed(flow(), [choose("fly", where="home"), FINISH])
    await made.start({"goal": "Go home"})
    assert 'There is no branch \\"fly\\"; use one of: double, note, fail, ask_user' in prompts(made)[1]


async def test_a_plan_keeps_its_text_when_its_steps_are_marked(bed: Make) -> None:
    updates = [{"step_id": "1", "status": "done", "description": "the model's own words"}]
    made = bed(flow(), [choose("update_plan", updates=updates), FINISH])
    await made.start({"goal": "Work", "plan": [{"step_id": "1", "description": "as planned"}]})
    assert "as planned" in prompts(made)[1] and '"status": "done"' in prompts(made)[1]
    (moved,) = made.of_type("step_update")
    assert (moved["step_id"], moved["data"]["description"]) == ("1", "as planned")


async def test_a_call_that_the_plan_names_moves_its_step(bed: Make) -> None:
    steps = [
        {"step_id": "1", "description": "double it", "action": "double", "params": {"number": 4}},
        {"step_id": "2", "description": "fail", "action": "fail"},
        {"step_id": "3", "description": "answer", "phase": "generation"},
    ]
    made = bed(flow(), [choose("double", number=4), choose("fail", reason="no"), FINISH])
    await made.start({"goal": "Work", "plan": steps})
    moved = [(event["step_id"], event["data"]["status"]) for event in made.of_type("step_update")]
    assert moved == [("1", "running"), ("1", "done"), ("2", "running"), ("2", "error"), ("3", "done")]


async def test_a_new_plan_keeps_what_is_finished(bed: Make) -> None:
    steps = [{"step_id": "1", "description": "first"}, {"step_id": "2", "description": "new"}]
    done = choose("update_plan", updates=[{"step_id": "1", "status": "done"}])
    made = bed(flow(), [done, choose("re_plan", plan=steps), FINISH])
    await made.start({"goal": "Work", "plan": "1. first\n2. second"})
    (written,) = made.of_type("plan_update")
    shown = [(step["description"], step["status"]) for step in written["data"]["steps"]]
    assert shown == [("first", "done"), ("new", "pending")]


@pytest.mark.parametrize(
    ("goal", "why"), [("Work", "from 'error' to 'done'"), ("开始工作", "状态不能从“error”变为“done”")]
)
async def test_a_failed_step_is_not_done_because_the_controller_says_so(bed: Make, goal: str, why: str) -> None:
    steps = [{"step_id": "1", "description": "fail", "action": "fail"}]
    updates = [{"step_id": "1", "status": status} for status in ("running", "done")]
    script = [choose("fail", reason="no"), choose("update_plan", updates=updates), choose("manual_finish")]
    made = bed(flow(), script)
    out = await made.start({"goal": goal, "plan": steps})
    assert [step["status"] for step in out["steps"]] == ["error"] and why in prompts(made)[2]


@pytest.mark.parametrize(
    ("command", "arguments", "why"),
    [
        ("update_plan", {"updates": [{"step_id": "9", "status": "done"}]}, "no step '9'; its steps are: 1"),
        ("update_plan", {"updates": []}, 'needs \\"updates\\"'),
        ("update_plan", {"updates": [{"step_id": "1", "status": "great"}]}, "cannot be changed"),
        ("re_plan", {"plan": []}, "A PLAN needs"),
        ("ask_user", {}, 'requires \\"question\\"'),
        ("double", {"number": "many"}, "are not valid"),
    ],
)
async def test_arguments_that_do_not_fit_are_an_error_of_the_round(
    bed: Make, command: str, arguments: Any, why: str
) -> None:
    made = bed(flow(), [choose(command, **arguments), FINISH])
    out = await made.start({"goal": "Work", "plan": "1. first"})
    assert out["status"] == "finished" and why in prompts(made)[1]


class FullMemory(TransientMemory):
    """Refuses every write."""

    async def append(self, name: str, entry: MemoryEntry) -> None:
        raise MemoryUnavailable("The memory file is full.")


async def test_the_controller_sees_that_memory_cannot_be_written(bed: Make) -> None:
    made = bed(flow(), [choose("double", number=4), FINISH])
    made.services.memory = FullMemory()
    out = await made.start({"goal": "Double 4"})
    assert out["status"] == "finished" and '"memory_error": "The memory file is full."' in prompts(made)[1]
    assert "double" in prompts(made)[1].split("## Memory")[1].split("## State")[0], "the logs stand in for the file"


@tool(read_only=True)
def report(number: int) -> str:
    """Report at length."""
    return f"报告 {number} " + "很长的文字 and more " * 300


async def test_prompts_stay_within_the_budget_over_thirty_rounds_of_growing_logs(bed: Make) -> None:
    budget = 2_500
    script = [choose("report", "I look at the next part. " * 20, number=n) for n in range(30)]
    fields = {"tools": (report,), "budget": Budget(prompt_tokens=budget)}
    made = bed(flow(max_round=31), [*script, FINISH], **fields)
    plan = [{"step_id": str(n), "description": f"look at part {n} closely"} for n in range(40)]
    out = await made.start({"goal": "Read all of it", "plan": plan, "memory_files": FILES})
    assert out["status"] == "finished"
    assert max(whole(call) for call in made.model.calls) <= budget
    assert "报告 29" in prompts(made)[-1], "the newest result is always there"


async def test_the_error_of_memory_is_in_the_tasks_language(bed: Make) -> None:
    made = bed(flow(), [choose("double", number=4), FINISH])
    made.services.memory = FullMemory()
    await made.start({"goal": "把四加倍"})
    assert '"memory_error": "记忆文件无法使用：' in prompts(made)[1]


async def test_memory_that_is_too_long_is_shortened(bed: Make) -> None:
    made = bed(flow(), [FINISH], budget=Budget(prompt_tokens=2_500))
    logs = "\n".join(f"line {n} of what was done before" for n in range(2_000))
    await made.start({"goal": "Go on", "logs": logs})
    assert whole(made.model.calls[0]) <= 2_500 and "line 1999" in prompts(made)[0]


async def test_a_write_that_is_repeated_after_a_crash_changes_nothing(bed: Make) -> None:
    made = bed(flow(), [choose("note", text="hello"), FINISH])
    made.pause_after = "EXECUTOR"
    await made.start({"goal": "Note", "memory_files": FILES})
    memory = made.services.memory
    made.services.memory = Crashing(memory)
    with pytest.raises(ConnectionAbortedError):
        await made.resume()
    made.services.memory = memory
    await made.resume()
    assert (await memory.read(["logs.md"], "", 2_000)).count("noted hello") == 1


class Crashing:
    """Writes, and then the process ends before the step is stored."""

    def __init__(self, memory: Memory) -> None:
        self.read = memory.read
        self._append = memory.append

    async def append(self, name: str, entry: MemoryEntry) -> None:
        await self._append(name, entry)
        raise ConnectionAbortedError


async def test_a_nested_flow_hands_its_summary_to_the_logs_and_its_result_to_the_controller(bed: Make) -> None:
    script = [
        choose("research", goal="look it up"),
        choose("double", number=2),
        choose("finish", summary="looked it up in the book", result="page 7"),
        FINISH,
    ]
    made = bed(with_branches(research={"flow": {"name": "inner"}}), script)
    await made.start({"goal": "Find the page", "memory_files": FILES})
    last = prompts(made)[-1]
    assert "research: looked it up in the book" in last.split("## Memory")[1].split("## State")[0]
    assert '"result": "page 7"' in last.split("## State")[1]
    parent = made.of_type("round_start")[0]["trace_id"]
    inner = [event for event in made.durable if event.get("parent_id") == parent]
    assert {"round_start", "tool_call", "tool_result", "flow_end"} <= {event["type"] for event in inner}


async def test_an_agent_is_a_branch_with_rounds_of_its_own(bed: Make) -> None:
    script = [choose("helper", goal="double 3"), call_tool(("double", {"number": 3})), answer("It is 6."), FINISH]
    made = bed(with_branches(helper={"agent": "a", "description": "doubles"}), script)
    await made.start({"goal": "Double 3"})
    assert '"name": "helper", "arguments": {"goal": "double 3"}, "result": {"success": "It is 6."}' in prompts(made)[-1]
    assert not made.of_type("answer"), "a branch's answer is not the task's"
    assert {event.type for event in made.deltas} <= {"thinking"}


class Shout(TypedDict, total=False):
    word: str
    loud: str
    EARLY_EXIT: bool
    result: str


def shouting(**more: Any) -> StateGraph[Any, Any, Any, Any]:
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Shout)
    graph.add_node("shout", lambda state: {"loud": state["word"].upper(), **more})
    graph.add_edge(START, "shout")
    graph.add_edge("shout", END)
    return graph


async def test_a_graph_is_a_branch_that_takes_what_its_input_declares(bed: Make) -> None:
    made = bed(with_branches(shout={"graph": shouting()}), [choose("shout", word="hey"), FINISH])
    await made.start({"goal": "Shout"})
    assert '"word": {"type": "string"}' in prompts(made)[0] and '"loud": "HEY"' in prompts(made)[1]


async def test_a_graph_that_asks_for_an_early_exit_ends_the_flow(bed: Make) -> None:
    graph = shouting(EARLY_EXIT=True, result="HEY", summary="", status="finished")
    made = bed(with_branches(shout={"graph": graph}), [choose("shout", word="hey")])
    out = await made.start({"goal": "Shout"})
    assert (out["result"], len(made.of_type("round_start"))) == ("HEY", 1)


async def test_a_graph_that_fails_is_the_branchs_error(bed: Make) -> None:
    made = bed(with_branches(shout={"graph": shouting()}), [choose("shout"), FINISH])
    out = await made.start({"goal": "Shout"})
    assert out["status"] == "finished" and '"error": "KeyError: \'word\'"' in prompts(made)[1]


async def test_the_error_of_a_branch_is_in_the_tasks_language(bed: Make) -> None:
    def look(state: Shout) -> Shout:
        raise UnknownMemory("list.md")

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Shout)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    made = bed(with_branches(look={"graph": graph}), [choose("look", word="hey"), FINISH])
    await made.start({"goal": "看一下清单"})
    assert error_text(UnknownMemory("list.md"), "zh") in prompts(made)[1]


@pytest.mark.parametrize(
    ("result", "summary", "error"),
    [
        ("not far", "not far", "not far"),
        ("not far, only one round", "no", "no: not far, only one round"),
        ({"rounds": 1}, "no", 'no: {\\"rounds\\": 1}'),
    ],
)
async def test_the_error_of_an_unfinished_flow_has_its_reason_and_its_result(
    bed: Make, result: Any, summary: str, error: str
) -> None:
    inner = {"max_round": 1, "on_reach_max_round": lambda state: EarlyExit(result, summary, "unfinished")}
    made = bed(with_branches(inner={"flow": inner}), [choose("inner", goal="go"), choose("note", text="a"), FINISH])
    await made.start({"goal": "Work"})
    assert f'"result": {{"error": "{error}"}}' in prompts(made)[-1]


def test_graphs_are_real_subgraphs_that_studio_expands() -> None:
    config = {"branches": {"research": {"flow": {"name": "inner"}}, "shout": {"graph": shouting()}}}
    graph = build_controller_executor({"subflows_config": {"Executor": config}}).compile()
    assert {name for name, _ in graph.get_subgraphs()} == {"research", "shout"}
    assert "research\\3aCONTROLLER" in graph.get_graph(xray=1).draw_mermaid()


async def test_a_question_waits_for_a_person_and_their_answer_is_the_result(bed: Make) -> None:
    made = bed(flow(), [choose("ask_user", question="Which colour?"), FINISH])
    await made.start({"goal": "Paint"})
    assert await made.question() == {"kind": "question", "question": "Which colour?", "by_segue": True}
    await made.answer("")
    assert "does not fit" in (await made.question())["problem"]
    out = await made.answer({"answer": "blue"})
    assert out["status"] == "finished" and '"success": "blue"' in prompts(made)[1]


async def test_a_person_ends_the_flow_instead_of_an_answer(bed: Make) -> None:
    made = bed(flow(), [choose("ask_user", question="Which colour?")])
    await made.start({"goal": "Paint"})
    out = await made.answer({"manual_finish": True})
    assert out["status"] == "unfinished" and "terminated explicitly by the user" in out["summary"]


async def test_the_controller_ends_the_flow_when_the_person_asked_for_it(bed: Make) -> None:
    out = await bed(flow(), [choose("manual_finish")]).start({"goal": "Paint"})
    assert out["status"] == "unfinished" and "terminated explicitly by the user" in out["summary"]


async def test_answers_are_streamed_and_the_thought_too(bed: Make) -> None:
    made = bed(
        flow(), [choose("intermediate_answer", answer="So far 4."), choose("final_answer", "Done.", answer="8.")]
    )
    out = await made.start({"goal": "Double 4"})
    said = "".join(event.data["content"] for event in made.deltas if event.type == "token")
    assert out["result"] == "8." and said == "So far 4.\n\n8."
    assert "Done." in "".join(event.data["content"] for event in made.deltas if event.type == "thinking")


async def test_the_budget_of_tool_calls_is_an_error_that_the_controller_sees(bed: Make) -> None:
    script = [choose("note", text="a"), choose("note", text="b"), FINISH]
    made = bed(flow(), script, budget=Budget(tool_calls=1))
    await made.start({"goal": "Note"})
    assert "the limit of 1 tool calls was reached" in prompts(made)[2]


ran: list[int] = []
NODES = ["INIT", "MEMORY_READING", "CONTROLLER", "EXECUTOR", "PLAN", "MEMORY_WRITING", "inner"]


@pytest.mark.parametrize("node", NODES)
async def test_a_pause_behind_any_node_repeats_nothing(bed: Make, node: str) -> None:
    ran.clear()

    @tool
    def count(number: int) -> str:
        """Count."""
        ran.append(number)
        return str(number)

    script = [
        choose("count", number=1),
        choose("update_plan", updates=[{"step_id": "1", "status": "done"}]),
        choose("inner", goal="count on"),
        choose("count", number=2),
        choose("finish", summary="counted on"),
        FINISH,
    ]
    made = bed(with_branches(inner={"flow": {"name": "inner"}}), script, tools=(count,))
    made.pause_after = node
    out = await made.start({"goal": "Count", "plan": "1. count", "memory_files": FILES})
    while not out.get("status"):
        out = await made.resume()
    assert (out["status"], ran) == ("finished", [1, 2])
    assert (await made.services.memory.read(["logs.md"], "", 2_000)).count("· round ") == 4


@cases(
    "config, fix",
    [
        ({"max_round": -1}, "max_round"),
        ({"topology": [{"flow": "Executor"}]}, "add an entry with flow = 'Controller'"),
        (
            {"topology": [{"flow": "Executor"}, {"flow": "Controller"}, {"flow": "MemoryReading"}]},
            "write MemoryReading → Controller → Executor",
        ),
        ({"topology": ["Executor", "Controller"]}, "write Controller → Executor"),
        ({"topology": ["MemoryWriting", "Controller", "Executor"]}, "write Controller → Executor → MemoryWriting"),
        ({"topology": [{"flow": "Planner"}]}, "topology.0.flow"),
        ({"subflows_config": {"Executor": {"built_ins": ["fly"]}}}, "use some of: ask_user"),
        ({"subflows_config": {"Executor": {"built_ins": ["ask_user"]}}}, "keep finish or final_answer"),
        ({"subflows_config": {"Executor": {"branches": {"a": {}}}}}, "exactly one of agent, graph and flow"),
        ({"subflows_config": {"Executor": {"branches": {"finish": {"agent": "a"}}}}}, "rename it"),
        ({"subflows_config": {"Executor": {"branches": {"a": {"graph": 7}}}}}, "is not a LangGraph graph"),
        ({"subflows_config": {"Executor": {"branches": {"a": {"graph": "nowhere:g"}}}}}, "cannot be imported"),
        ({"subflows_config": {"Executor": {"branches": {"a": {"flow": "b"}}}}}, "write [flows.b]"),
        ({"on_reach_max_round": 7}, "give a callable or 'module:function'"),
        ({"rounds": 7}, "rounds"),
    ],
)
def test_a_wrong_configuration_names_the_fix(config: dict[str, Any], fix: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        build_controller_executor(config)
    assert fix in str(raised.value)


async def test_a_tool_with_the_name_of_a_branch_is_refused(bed: Make) -> None:
    @tool
    def finish(text: str) -> str:
        """Finish."""
        return text

    with pytest.raises(ConfigurationError, match="rename it"):
        await bed(flow(), [], tools=(finish,)).start({"goal": "Finish"})
