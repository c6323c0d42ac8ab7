"""Plan first, then carry it out."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import segue
from segue.core.agents import Agent, Budget
from segue.core.calls import CallKey
from segue.core.errors import TaskError
from segue.graphs.plan import build_plan
from segue.graphs.plan_react import build_plan_react
from segue.tools.registry import tool
from tests.fakes import MemoryLedger, ScriptedChatModel, answer, call_tool, plan_json
from tests.graphs.conftest import Bed, Crowd, Make, double, note


def step(action: str, params: Any = None, **more: Any) -> dict[str, Any]:
    return {"action": action, "params": params or {}, "description": f"{action} it", "phase": "execution", **more}


async def test_nothing_waits_for_a_step_without_a_tool_and_nobody_says_that_it_is_done(bed: Make) -> None:
    steps = [step("none"), step("double", {"number": 2}), step("none"), step("note", {"text": "4"})]
    steps.append(step("none", phase="generation"))
    out = (await bed(build_plan, [plan_json("g", steps), "4"]).send("go"))["result"]
    assert [item["status"] for item in out["plan"]] == ["pending", "done", "pending", "done", "done"]
    assert (out["open_steps"], out["reasoning"]["total_steps"], len(out["history"])) == (2, 2, 2)


async def test_independent_read_only_steps_run_together(bed: Make) -> None:
    meeting = asyncio.Barrier(2)

    @tool(read_only=True)
    async def meet(name: str) -> str:
        """Wait for the other one."""
        await meeting.wait()
        return name

    steps = [step("meet", {"name": "a"}, depends_on=[]), step("meet", {"name": "b"}, depends_on=[])]
    script = [plan_json("g", steps), "met"]
    out = await bed(build_plan, script, tools=(meet,), budget=Budget(tool_seconds=60)).send("go")
    assert out["result"]["success"] is True


async def test_a_step_that_ended_is_shown_while_its_wave_runs() -> None:
    shown = asyncio.Event()

    @tool(read_only=True)
    async def look(name: str) -> str:
        """Look."""
        await (shown.wait() if name == "slow" else asyncio.sleep(0))
        return name

    steps = [step("look", {"name": name}, depends_on=[]) for name in ("slow", "fast")]
    model, ended = ScriptedChatModel([plan_json("g", steps), "seen"]), []
    agent = Agent(agent_id="a", model=model, tools=(look,), mode="plan", budget=Budget(tool_seconds=60))
    async with segue.open(":memory:", agents=[agent]) as app:
        async for event in app.chat("go", agent="a"):
            if event.type == "step_update" and event.status != "running":
                ended.append((event.step_id, event.status))
                shown.set()
    assert ended == [("2", "done"), ("1", "done")]


async def test_a_wave_runs_at_most_so_many_calls_at_once_as_the_budget_says(bed: Make, crowd: Crowd) -> None:
    steps = [step("visit", {"name": str(n)}, depends_on=[]) for n in range(7)]
    out = await bed(build_plan, [plan_json("g", steps), "met"], tools=(crowd.visit,)).send("go")
    assert crowd.most == Budget().parallel_calls == 4
    assert [entry["result"] for entry in out["result"]["history"]] == [{"success": str(n)} for n in range(7)]


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
    assert "names the unknown tool 'nope'" in asked[2] and "depends on '9'" in asked[2]


async def test_a_failure_that_cannot_be_mended_is_told_and_what_needs_it_is_skipped(bed: Make) -> None:
    failing = plan_json("g", [step("fail", {"reason": "x"}), step("note", {"text": "b"})])
    test = bed(build_plan, [failing, failing, failing, "It failed."])
    with test.model:
        out = await test.send("go")
    assert out["result"]["success"] is False
    assert [s["status"] for s in out["result"]["plan"]] == ["error", "skipped"]
    assert "failed" in out["result"]["error"]
    assert len(out["result"]["history"]) == 3


async def test_a_failed_step_stays_in_the_mended_plan_and_is_not_asked_about_again(bed: Make) -> None:
    first = plan_json("g", [step("double", {"number": 1}), step("fail", {"reason": "x"}), step("note", {"text": "a"})])
    second = plan_json("g", [step("double", {"number": 1}, step="1"), step("note", {"text": "b"}, step="2")])
    with (test := bed(build_plan, [first, second, "repaired"])).model:
        out = await test.send("go")
    kept = [("1", "double", "done"), ("2", "fail", "error"), ("3", "note", "done")]
    assert [(s["step_id"], s["action"], s["status"]) for s in out["result"]["plan"]] == kept
    assert out["result"]["plan"][1]["note"] == "RuntimeError: x"
    assert [(s["step_id"], s["status"]) for s in test.of_type("plan_update")[-1]["data"]["steps"]] == [
        ("1", "done"), ("2", "error"), ("3", "pending"),
    ]  # fmt: skip
    assert out["result"]["success"] is True and test.of_type("task_complete")[0]["data"]["status"] == "done"
    assert [entry["action"] for entry in out["result"]["history"]] == ["double", "fail", "note"]


async def test_what_needs_a_failed_step_that_is_not_written_again_cannot_run(bed: Make) -> None:
    first = plan_json("g", [step("fail", {"reason": "x"}), step("note", {"text": "a"})])
    needing = plan_json("g", [step("note", {"text": "b"}, step="3", depends_on=[1])])
    second = plan_json("g", [step("note", {"text": "b"}, step="3", depends_on=[])])
    with (test := bed(build_plan, [first, needing, second, "repaired"])).model:
        out = await test.send("go")
    assert "step 3 depends on '1', which is not a step" in str(test.model.calls[2][0].content)
    assert [(s["step_id"], s["status"]) for s in out["result"]["plan"]] == [("1", "error"), ("3", "done")]


async def test_two_failures_stay_through_two_new_plans(bed: Make) -> None:
    plans = [plan_json("g", [step("fail", {"reason": reason}, step="1")]) for reason in "xy"]
    with (test := bed(build_plan, [*plans, plan_json("g", [step("note", {"text": "b"}, step="2")]), "ok"])).model:
        out = await test.send("go")
    assert [(s["step_id"], s["params"], s["status"]) for s in out["result"]["plan"]] == [
        ("1", {"reason": "x"}, "error"), ("2", {"reason": "y"}, "error"), ("3", {"text": "b"}, "done"),
    ]  # fmt: skip
    assert out["result"]["success"] is True


async def test_a_step_whose_outcome_is_unknown_stays_in_the_plan_and_says_so(bed: Make) -> None:
    @tool
    def pay(order: int) -> str:
        """Pay an order."""
        return "paid"

    first = plan_json("g", [step("pay", {"order": n}) for n in (1, 2, 3)])
    second = plan_json("g", [step("pay", {"order": 1}, step="1"), step("pay", {"order": 3}, step="3", depends_on=[1])])
    with (test := bed(build_plan, [first, second, "paid"], tools=(pay,))).model:
        test.services.ledger = ledger = MemoryLedger()
        await ledger.claim(CallKey("task-1", "2#1", 0), "pay", {"order": 2})
        out = await test.send("go")
    assert [(s["step_id"], s["status"]) for s in out["result"]["plan"]] == [
        ("1", "done"),
        ("2", "error"),
        ("3", "done"),
    ]
    assert out["result"]["plan"][1]["note"].startswith("unknown_outcome: pay was under way when its process stopped")
    assert [entry["action"] for entry in out["result"]["history"]] == ["pay"] * 3


PAYING = [step("pay", {"order": 1}), step("note", {"text": "paid"}), step("double", {"number": 1}, depends_on=[])]


async def test_a_plan_that_repeats_a_call_of_unknown_outcome_ends_without_it(bed: Make) -> None:
    paid: list[int] = []

    @tool
    async def pay(order: int) -> str:
        """Pay an order."""
        paid.append(order)
        return "paid"

    same = plan_json("g", PAYING)
    with (test := bed(build_plan, [same, same, "It is not known."], tools=(pay, note, double))).model:
        test.services.ledger = ledger = MemoryLedger()
        await ledger.claim(CallKey("task-1", "1#1", 0), "pay", {"order": 1})
        out = await test.send("go")
    assert paid == []
    assert [s["status"] for s in sorted(out["result"]["plan"], key=lambda s: str(s["step_id"]))] == [
        "error", "skipped", "done",
    ]  # fmt: skip
    assert "whose outcome is unknown" in next(s for s in out["result"]["plan"] if s["step_id"] == "2")["note"]
    assert out["result"]["success"] is False and test.of_type("task_complete")[0]["data"]["status"] == "error"
    assert out["result"]["answer"].startswith("It is not known.\n\nNote: pay may or may not have taken effect")
    assert "So these steps did not run:" in out["result"]["answer"] and "Shall I check" in out["result"]["answer"]


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
    assert "budget ran out" in out["result"]["error"]


async def test_many_large_results_still_fit_into_the_answers_prompt(bed: Make) -> None:
    def large(size: int) -> str:
        """Give a long text."""
        return "x" * size

    steps = [step("large", {"size": 5000}, depends_on=[]) for _ in range(20)]
    budget = Budget(prompt_tokens=4000)
    test = bed(build_plan, [plan_json("g", steps), "ok"], tools=(large,), budget=budget)
    await test.send("go")
    assert len(str(test.model.calls[1][0].content)) / 3 < 4000


Change = Callable[[dict[str, Any]], list[dict[str, Any]]]


async def changed(test: Bed, change: Change) -> None:
    """Send a message, stop between SCHEDULE and EXECUTE_STEP, and update the plan in between."""
    test.pause_after = "SCHEDULE"
    await test.send("go")
    config = {"configurable": {"thread_id": "t"}}
    state = await test.graph.aget_state(config)
    assert state.next == ("EXECUTE_STEP",)
    await test.graph.aupdate_state(config, {"plan": change(state.values["plan"][0])})


async def test_a_dispatched_step_whose_parameters_are_updated_runs_with_the_new_ones(bed: Make) -> None:
    with (test := bed(build_plan, [plan_json("g", [step("double", {"number": 1})]), "ok"])).model:
        await changed(test, lambda planned: [{**planned, "params": {"number": 21}}])
        out = await test.resume()
    assert [entry["result"] for entry in out["result"]["history"]] == [{"success": {"doubled": 42}}]
    assert [entry["params"] for entry in out["result"]["plan"]] == [{"number": 21}]
    assert [event["data"]["arguments"] for event in test.of_type("tool_result")] == [{"number": 21}]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda planned: [], "it is under way in this state"),
        (lambda planned: [{**planned, "status": "skipped"}], "it is under way in this state"),
        (lambda planned: [{**planned, "params": {"number": {"$ref": "steps.9.result.n"}}}], "step 9 has no result"),
    ],
)
async def test_an_update_that_a_dispatched_step_cannot_follow_is_refused(bed: Make, change: Change, why: str) -> None:
    with (test := bed(build_plan, [plan_json("g", [step("double", {"number": 1})]), "ok"])).model:
        with pytest.raises(TaskError, match=f"Step 1 of the plan cannot be changed like this: .*{why}"):
            await changed(test, change)
        out = await test.resume()
    assert [entry["result"] for entry in out["result"]["history"]] == [{"success": {"doubled": 2}}]


async def test_a_call_that_a_person_approved_is_not_exchanged_for_another_one(bed: Make) -> None:
    @tool(needs_approval=True)
    def pay(order: int) -> str:
        """Pay an order."""
        return f"paid {order}"

    with (test := bed(build_plan, [plan_json("g", [step("pay", {"order": 1})]), "ok"], tools=(pay,))).model:
        await test.send("go")
        test.pause_after = "SCHEDULE"
        await test.answer("approve")
        config = {"configurable": {"thread_id": "t"}}
        (planned,) = (await test.graph.aget_state(config)).values["plan"]
        with pytest.raises(TaskError, match="a person decided about its call"):
            await test.graph.aupdate_state(config, {"plan": [{**planned, "params": {"order": 2}}]})
        out = await test.resume()
    assert [entry["result"] for entry in out["result"]["history"]] == [{"success": "paid 1"}]


# A plan that the react graph carries out.


STEPS = [{"action": "double", "params": {"number": 1}, "description": "double it"}, {"action": "none"}]


async def test_a_call_counts_for_the_step_that_plans_it(bed: Make) -> None:
    steps = [
        {"action": "double", "params": {"number": 1}, "description": "one"},
        {"action": "double", "params": {"number": 2}, "description": "two"},
        {"action": "double", "params": {"number": {"$ref": "steps.2.result.doubled"}}, "description": "three"},
        {"action": "note", "params": {"text": "x"}, "description": "four"},
    ]
    calls = [call_tool(("double", {"number": 2})), call_tool(("double", {"number": 4}), step_id="4")]
    with (test := bed(build_plan_react, [plan_json("grow", steps), *calls, answer("eight")])).model:
        out = await test.send("go")
    assert [s["status"] for s in out["result"]["plan"]] == ["pending", "done", "done", "pending"]


async def test_without_a_plan_it_gives_up(bed: Make) -> None:
    out = await bed(build_plan_react, ["x", "y", "z"]).send("go")
    assert out["gave_up"]
