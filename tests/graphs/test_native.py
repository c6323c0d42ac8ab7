"""The native protocol: real tool calls, a static prompt prefix, paired history."""

import json
from typing import Any

from langchain_core.messages import AIMessage

from segue.core.agents import Budget, Prices
from segue.graphs.chat import build_chat
from segue.graphs.react import build_react
from tests.graphs.conftest import Bed, Make


def calls(*wanted: tuple[str, str, dict[str, Any]], text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=[{"id": i, "name": n, "args": a, "type": "tool_call"} for i, n, a in wanted])


def native(bed: Make, script: list[Any], build: Any = build_react, **fields: Any) -> Bed:
    return bed(build, script, protocol="native", **fields)


async def test_the_state_and_the_control_tools_are_sent_where_they_say_something(bed: Make) -> None:
    script = [calls(("c", "double", {"number": 4})), calls(("f", "fail", {"reason": "x"})), AIMessage("8")]
    test = native(bed, script)
    await test.send("double four")
    first, second, third = test.model.calls
    assert [m.type for m in first] == ["system", "human"]
    assert [m.type for m in second] == ["system", "human", "ai", "tool"]
    assert [m.type for m in third] == ["system", "human", "ai", "tool", "ai", "tool", "human"]
    assert third[:4] == second and second[:2] == first
    assert '"iteration": 3' in str(third[-1].content) and '"failed": true' in str(third[-1].content)
    offered = [[spec["function"]["name"] for spec in specs][3:] for specs in test.model.bound_tools]
    assert offered == [["ask_user", "plan"], ["ask_user"], ["ask_user", "plan", "remend"]]


async def test_the_last_rounds_say_how_many_are_left(bed: Make) -> None:
    test = native(bed, [calls(("c", "double", {"number": 4})), AIMessage("8")], max_iteration=4)
    await test.send("double four")
    assert [m.type for m in test.model.calls[0]] == ["system", "human"]
    assert '{"iteration": 2, "max_iteration": 4}' in str(test.model.calls[1][-1].content)


async def test_control_tools_plan_and_remend(bed: Make) -> None:
    plan = {"plan": [{"step_id": "1", "description": "try", "status": "pending"}]}
    mend = {"diagnosis": "wrong tool", "tool_calls": [{"name": "double", "arguments": {"number": 1}}]}
    script = [
        calls(("p", "plan", plan)),
        calls(("f", "fail", {"reason": "x"})),
        calls(("r", "remend", mend)),
        AIMessage("two"),
    ]
    with (test := native(bed, script)).model:
        out = await test.send("go")
    assert out["result"]["answer"] == "two"
    assert [e["data"]["action_type"] for e in test.of_type("action")] == ["PLAN", "CALL_TOOL", "REMEND", "ANSWER"]
    paired = [m.tool_call_id for m in out["messages"] if m.type == "tool"]
    assert paired == ["p", "f", "r"]
    assert out["result"]["reasoning"]["tools_used"] == ["fail", "double"]


async def test_plan_reports_progress_and_remend_names_its_step(bed: Make) -> None:
    steps = [{"step_id": n, "description": "try", "status": "pending"} for n in "123"]
    update = {"step_status_update": [{"step_id": "2", "status": "done"}]}
    repair = {"diagnosis": "x", "tool_calls": [{"name": "double", "arguments": {"number": 1}}], "step_id": "3"}
    script = [calls(("p", "plan", {"plan": steps})), calls(("q", "plan", update)), calls(("r", "remend", repair))]
    with (test := native(bed, [*script, AIMessage("two")])).model:
        out = await test.send("go")
    assert [step["status"] for step in out["result"]["plan"]] == ["pending", "done", "done"]
    assert [event["step_id"] for event in test.of_type("tool_result")] == ["3"]


async def test_cut_or_broken_calls_are_never_run_and_leave_no_trace_in_the_history(bed: Make) -> None:
    cut = calls(("c", "note", {"text": "half"}))
    cut.response_metadata["finish_reason"] = "length"
    broken = AIMessage(
        "",
        invalid_tool_calls=[
            {"id": "b", "name": "note", "args": '{"text": "x', "error": None, "type": "invalid_tool_call"}
        ],
    )
    with (test := native(bed, [cut, broken, AIMessage("ok")])).model:
        out = await test.send("go")
    assert test.of_type("tool_call") == []
    assert [m.type for m in out["messages"]] == ["human", "ai"]
    errors = [e["data"]["message"] for e in test.of_type("error")]
    assert "length limit" in errors[0] and "not valid JSON" in errors[1]
    assert "not valid JSON" in str(test.model.calls[2][-1].content)


async def test_control_tools_are_called_alone(bed: Make) -> None:
    both = calls(("p", "plan", {"plan": [{"step_id": "1", "description": "x"}]}), ("d", "double", {"number": 1}))
    test = native(bed, [both, AIMessage("ok")])
    await test.send("go")
    assert "Call plan alone" in test.of_type("error")[0]["data"]["message"]


async def test_history_stays_paired_across_turns_and_protocols(bed: Make) -> None:
    repeated = [calls(("call_1", "double", {"number": 1})), AIMessage("2"), calls(("call_1", "double", {"number": 2}))]
    test = native(bed, [*repeated, AIMessage("4")], build_chat, mode="react")
    await test.send("one")
    out = await test.send("two")
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "ai"] * 2
    assert [m.type for m in test.model.calls[3]] == [
        "system", "human", "ai", "tool", "ai", "human", "ai", "tool",
    ]  # fmt: skip


async def test_context_stays_within_its_budget_for_twenty_rounds_and_pairs_are_whole(bed: Make) -> None:
    def page(number: int) -> str:
        """Read a page."""
        return f"page {number} " + "word " * 200

    script = [calls((f"c{n}", "page", {"number": n})) for n in range(20)]
    budget = Budget(prompt_tokens=3500, tool_calls=100)
    test = native(bed, [*script, AIMessage("read")], tools=(page,), max_iteration=30, budget=budget)
    out = await test.send("read the book")
    assert out["result"]["answer"] == "read"
    for sent in test.model.calls:
        text = "".join(str(m.content) + json.dumps(getattr(m, "tool_calls", [])) for m in sent)
        assert len(text) / 3 < 3500
        assert "read the book" in [message.content for message in sent[1:3]], "behind the digest, if there is one"
        open_calls = {c["id"] for m in sent for c in getattr(m, "tool_calls", [])}
        assert open_calls == {m.tool_call_id for m in sent if m.type == "tool"}  # type: ignore[attr-defined]
    assert len(out["messages"]) == 42


async def test_usage_and_cost_are_counted(bed: Make) -> None:
    counted = AIMessage("hi", usage_metadata={"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100})
    test = native(bed, [counted], prices=Prices(input=2.0, output=10.0))
    out = await test.send("go")
    assert out["result"]["usage"] == {"input": 1000, "output": 100, "calls": 1, "cost": 0.003, "currency": "USD"}
    assert test.of_type("model_called")[0]["data"]["cost"] == 0.003


async def test_a_model_call_says_how_much_of_its_prompt_began_the_one_before(bed: Make) -> None:
    test = native(bed, [calls(("c", "double", {"number": 4})), AIMessage("8")])
    await test.send("double four")
    first, second = (event["data"] for event in test.of_type("model_called"))
    assert first["prefix_chars"] == 0 < first["prompt_chars"]
    begun = sum(len(str(message.content)) for message in test.model.calls[0])
    assert begun < second["prefix_chars"] < second["prompt_chars"]
