"""A plan that the react graph carries out."""

from segue.graphs.plan_react import build_plan_react
from tests.fakes import answer, call_tool, plan_json
from tests.graphs.conftest import Make

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
