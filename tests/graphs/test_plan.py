"""Plan first, then carry it out."""

import asyncio
from typing import Any

from segue.agents import Budget
from segue.graphs.plan import build_plan
from segue.tools.registry import tool
from tests.fakes import plan_json
from tests.graphs.conftest import Make

REF = {"$ref": "steps.1.result.doubled"}


def step(action: str, params: Any = None, **more: Any) -> dict[str, Any]:
    return {"action": action, "params": params or {}, "description": f"{action} it", "phase": "execution", **more}


async def test_steps_run_in_order_with_earlier_results_and_the_answer_sees_them(bed: Make) -> None:
    steps = [step("double", {"number": 3}), step("double", {"number": REF}), step("none", phase="generation")]
    with (test := bed(build_plan, [plan_json("grow", steps), "It is twelve."])).model:
        out = await test.send("grow three")
    assert out["result"]["answer"] == "It is twelve."
    assert [entry["result"] for entry in out["result"]["history"]] == [
        {"success": {"doubled": 6}},
        {"success": {"doubled": 12}},
    ]
    assert [s["status"] for s in out["result"]["plan"]] == ["done"] * 3
    assert '{"doubled": 12}' in str(test.model.calls[1][0].content)
    assert test.types == [
        "model_called", "plan_update", "step_update", "tool_call", "tool_result", "step_update", "step_update",
        "tool_call", "tool_result", "step_update", "model_called", "step_update", "answer", "task_complete",
    ]  # fmt: skip


async def test_the_planner_is_told_the_tools_and_their_schemas(bed: Make) -> None:
    test = bed(build_plan, [plan_json("g", [step("double", {"number": 1})]), "ok"])
    await test.send("go")
    assert '`double` {"number": {"type": "integer"}}' in str(test.model.calls[0][0].content)


async def test_a_fenced_plan_is_read(bed: Make) -> None:
    fenced = f"```json\n{plan_json('g', [step('double', {'number': 1})])}\n```"
    out = await bed(build_plan, [fenced, "ok"]).send("go")
    assert out["result"]["success"] is True


async def test_independent_read_only_steps_run_together(bed: Make) -> None:
    meeting = asyncio.Barrier(2)

    @tool(read_only=True)
    async def meet(name: str) -> str:
        """Wait for the other one."""
        await meeting.wait()
        return name

    steps = [step("meet", {"name": "a"}, depends_on=[]), step("meet", {"name": "b"}, depends_on=[])]
    script = [plan_json("g", steps), "met"]
    out = await bed(build_plan, script, tools=(meet,), budget=Budget(tool_seconds=5)).send("go")
    assert out["result"]["success"] is True


async def test_writing_steps_never_run_together(bed: Make) -> None:
    running: list[str] = []

    @tool
    async def write(name: str) -> str:
        """Write."""
        assert not running
        running.append(name)
        await asyncio.sleep(0.01)
        running.remove(name)
        return name

    steps = [step("write", {"name": n}, depends_on=[]) for n in "abc"]
    out = await bed(build_plan, [plan_json("g", steps), "ok"], tools=(write,)).send("go")
    assert out["result"]["success"] is True


async def test_an_unreadable_or_impossible_plan_is_asked_again_with_the_reason(bed: Make) -> None:
    bad = plan_json("g", [step("nope"), step("double", {"number": 1}, depends_on=[9])])
    test = bed(build_plan, ["no plan", bad, plan_json("g", [step("double", {"number": 1})]), "ok"])
    out = await test.send("go")
    assert out["result"]["success"] is True
    asked = [str(call[0].content) for call in test.model.calls]
    assert "no JSON object" in asked[1]
    assert "names the tool 'nope'" in asked[2] and "depends on '9'" in asked[2]


async def test_after_three_bad_plans_it_gives_up_and_says_why(bed: Make) -> None:
    with (test := bed(build_plan, ["one", "two", "three"])).model:
        out = await test.send("go")
    assert "no JSON object" in out["gave_up"]
    assert out["result"]["success"] is False


async def test_a_failed_step_is_replanned_and_finished_steps_are_kept(bed: Make) -> None:
    first = plan_json("g", [step("double", {"number": 1}), step("fail", {"reason": "x"}), step("none")])
    second = plan_json("g", [step("double", {"number": 1}), step("note", {"text": "b"}, step="4")])
    test = bed(build_plan, [first, second, "mended"])
    out = await test.send("go")
    assert out["result"]["success"] is True
    assert [(e["action"]) for e in out["result"]["history"]] == ["double", "fail", "note"]
    assert "step 2 (fail it) failed: RuntimeError: x" in str(test.model.calls[1][0].content)


async def test_a_failure_that_cannot_be_mended_is_told_and_what_needs_it_is_skipped(bed: Make) -> None:
    failing = plan_json("g", [step("fail", {"reason": "x"}), step("note", {"text": "b"})])
    test = bed(build_plan, [failing, failing, failing, "It failed."])
    with test.model:
        out = await test.send("go")
    assert out["result"]["success"] is False
    assert [s["status"] for s in out["result"]["plan"]] == ["error", "skipped"]
    assert "failed" in out["result"]["error"]
    assert len(out["result"]["history"]) == 3


async def test_a_reference_that_leads_nowhere_is_that_steps_error(bed: Make) -> None:
    dangling = {"$ref": "steps.1.result.tripled"}
    first = plan_json("g", [step("double", {"number": 1}), step("double", {"number": dangling})])
    second = plan_json("g", [step("double", {"number": 2}, step="3")])
    test = bed(build_plan, [first, second, "ok"])
    out = await test.send("go")
    assert out["result"]["success"] is True
    assert "breaks off at 'tripled'; there is: ['doubled']" in str(test.model.calls[1][0].content)


async def test_history_pairs_every_call_with_its_result(bed: Make) -> None:
    steps = [step("double", {"number": 1}, depends_on=[]), step("double", {"number": 2}, depends_on=[])]
    out = await bed(build_plan, [plan_json("g", steps), "ok"]).send("go")
    ai, *results = out["messages"][1:4]
    assert [call["id"] for call in ai.tool_calls] == [m.tool_call_id for m in results]


async def test_the_budget_stops_a_plan_and_says_which_steps_were_not_reached(bed: Make) -> None:
    steps = [step("double", {"number": n}) for n in range(3)]
    out = await bed(build_plan, [plan_json("g", steps), "cut"], budget=Budget(tool_calls=2)).send("go")
    assert [s["status"] for s in out["result"]["plan"]] == ["done", "done", "skipped"]
    assert "budget was spent" in out["result"]["error"]


async def test_many_large_results_still_fit_into_the_answers_prompt(bed: Make) -> None:
    def large(size: int) -> str:
        """Give a long text."""
        return "x" * size

    steps = [step("large", {"size": 5000}, depends_on=[]) for _ in range(20)]
    budget = Budget(prompt_tokens=4000)
    test = bed(build_plan, [plan_json("g", steps), "ok"], tools=(large,), budget=budget)
    await test.send("go")
    assert len(str(test.model.calls[1][0].content)) / 3 < 4000
