"""What a person adds to a task under way: the next node that can takes it up, once, and nothing is done twice."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from segue.core.agents import Budget
from segue.core.errors import ModelRefused
from segue.graphs.chat import build_chat
from segue.graphs.direct import build_direct
from segue.graphs.plan import build_plan
from segue.graphs.plan_react import build_plan_react
from segue.graphs.react import build_react
from segue.tools.registry import tool
from tests.fakes import answer, call_tool, plan_json
from tests.graphs.conftest import Bed, Make, fail

pytestmark = pytest.mark.parametrize("saver", ["memory", "sqlite"], indirect=True)


def spoken(out: dict[str, Any]) -> list[tuple[str, str]]:
    return [(m.type, m.text) for m in out["messages"] if m.type != "tool" and m.text]


def with_pause(bed: Make, build: Any, script: list[Any], **fields: Any) -> Bed:
    """An agent with a tool during whose call the person presses pause."""

    def work(number: int) -> int:
        """Work."""
        test.pause()
        return number

    test = bed(build, script, tools=(work,), **fields)
    return test


async def test_react_takes_it_up_before_its_next_decision(bed: Make) -> None:
    script = [call_tool(("work", {"number": 4})), answer("in euros: 4"), answer("bye")]
    test = with_pause(bed, build_react, script)
    assert await test.send("what is it?") == {}
    test.notes.append("in euros")
    out = await test.resume()
    assert out["result"]["answer"] == "in euros: 4"
    assert test.model.calls[0][0].content == "what is it?"
    assert test.model.calls[1][0].content == "what is it?\nin euros"
    assert '"objective": "what is it?\\nin euros"' in str(test.model.calls[1][1].content)
    assert spoken(out) == [("human", "what is it?"), ("human", "in euros"), ("ai", "in euros: 4")]
    test.notes.clear()
    await test.send("bye")
    last = test.model.calls[2]
    assert last[0].content == "bye"
    assert '{"role": "user", "content": "in euros"}' in str(last[1].content)


async def test_an_addition_while_it_runs_needs_no_pause_and_is_taken_up_once(bed: Make) -> None:
    script = [call_tool(("tell", {"text": "a"})), call_tool(("tell", {"text": "b"})), answer("ok")]

    def tell(text: str) -> str:
        """Tell."""
        test.notes.append(f"and {text}")
        return text

    test = bed(build_react, script, tools=(tell,))
    out = await test.send("go")
    assert [str(call[0].content) for call in test.model.calls] == ["go", "go\nand a", "go\nand a\nand b"]
    assert [text for kind, text in spoken(out) if kind == "human"] == ["go", "and a", "and b"]


async def test_an_addition_survives_a_reply_that_cannot_be_read_and_a_failed_call(bed: Make) -> None:
    script = ["I would rather chat", ModelRefused("no"), answer("ok")]
    test = bed(build_react, script)
    test.notes.append("quickly")
    try:
        await test.send("go")
    except ModelRefused:
        test.notes.append("please")
    out = await test.resume()
    assert [str(call[0].content) for call in test.model.calls] == ["go\nquickly"] * 2 + ["go\nquickly\nplease"]
    assert [text for kind, text in spoken(out) if kind == "human"] == ["go", "quickly", "please"]


async def test_in_the_native_protocol_it_stands_in_the_thread_at_its_place(bed: Make) -> None:
    call = AIMessage("", tool_calls=[{"id": "c", "name": "work", "args": {"number": 4}, "type": "tool_call"}])
    test = with_pause(bed, build_react, [call, AIMessage("4 EUR"), AIMessage("bye")], protocol="native")
    await test.send("what is it?")
    test.notes.append("in euros")
    await test.resume()
    test.notes.clear()
    await test.send("thanks")
    first, second, third = test.model.calls
    assert [m.text for m in second if m.type == "human"] == ["what is it?", "in euros"]
    assert [m.type for m in second] == ["system", "human", "ai", "tool", "human"]
    assert [m.type for m in third] == ["system", "human", "ai", "tool", "human", "ai", "human"]
    assert second[:2] == first[:2] and third[:5] == second[:5]


async def test_direct_answers_with_it(bed: Make) -> None:
    test = bed(build_direct, ["Salut."])
    test.notes.append("in French")
    out = await test.send("hello")
    assert [m.text for m in test.model.calls[0][1:]] == ["hello", "in French"]
    assert spoken(out) == [("human", "hello"), ("human", "in French"), ("ai", "Salut.")]


async def test_a_mode_that_takes_over_knows_what_was_added_and_adds_it_no_second_time(bed: Make) -> None:
    test = bed(build_chat, [ModelRefused("no"), answer("from react")])
    test.notes.append("in French")
    out = await test.send("hello")
    assert test.model.calls[1][0].content == "hello\nin French"
    assert spoken(out) == [("human", "hello"), ("human", "in French"), ("ai", "from react")]


def step(action: str, place: int, /, **params: Any) -> dict[str, Any]:
    return {"step": place, "action": action, "params": params, "description": f"{action} it", "phase": "execution"}


async def test_a_plan_is_mended_for_it_and_keeps_what_is_done(bed: Make) -> None:
    first = plan_json("g", [step("work", 1, number=1), step("double", 2, number=1), step("none", 3)])
    mended = plan_json("g", [step("work", 1, number=1), step("double", 4, number=9), step("none", 5)])
    ran: list[int] = []

    def work(number: int) -> int:
        """Work."""
        ran.append(number)
        test.pause()
        return number

    @tool(read_only=True)
    def double(number: int) -> int:
        """Double."""
        return number * 2

    test = bed(build_plan, [first, mended, "eighteen"], tools=(work, double))
    await test.send("go")
    test.notes.append("take nine")
    out = await test.resume()
    assert (out["result"]["answer"], ran) == ("eighteen", [1])
    asked = test.model.calls[1]
    assert asked[1].content == "go\ntake nine"
    assert '"problem": "the user added: take nine"' in str(asked[0].content)
    assert [entry["result"] for entry in out["result"]["history"]] == [{"success": 1}, {"success": 18}]
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "human", "ai", "tool", "ai"]


async def test_additions_do_not_use_up_what_a_failing_plan_may_be_mended(bed: Make) -> None:
    def work(number: int) -> int:
        """Work."""
        test.notes.append(f"and {number}")
        return number

    more = [plan_json("g", [step("work", n, number=n)]) for n in (1, 2, 3)]
    failing = plan_json("g", [step("fail", 9, reason="x")])
    test = bed(build_plan, [*more, failing, failing, failing, "It failed."], tools=(fail, work))
    with test.model:
        out = await test.send("go")
    assert out["result"]["success"] is False
    assert test.notes == ["and 1", "and 2", "and 3"]


async def test_a_plan_in_chinese_is_told_in_chinese(bed: Make) -> None:
    test = with_pause(bed, build_plan, [plan_json("g", [step("work", 1, number=1)])] * 2 + ["好"])
    await test.send("开始")
    test.notes.append("快一点")
    await test.resume()
    assert '"problem": "用户补充：快一点"' in str(test.model.calls[1][0].content)


async def test_an_addition_before_the_plan_or_with_its_last_answer_is_in_the_request(bed: Make) -> None:
    test = bed(build_plan, [plan_json("g", [step("none", 1)]), "done"])
    test.notes.append("early")
    test.pause_after = "SCHEDULE"
    assert await test.send("go") == {}
    test.notes.append("late")
    out = await test.resume()
    assert [str(call[1].content) for call in test.model.calls] == ["go\nearly", "go\nearly\nlate"]
    assert spoken(out) == [("human", "go"), ("human", "early"), ("human", "late"), ("ai", "done")]


async def test_a_plan_whose_budget_is_spent_is_not_mended_but_answered_with_it(bed: Make) -> None:
    test = with_pause(bed, build_plan, [plan_json("g", [step("work", 1, number=1)]), "ok"], budget=Budget(tool_calls=1))
    await test.send("go")
    test.notes.append("more")
    out = await test.resume()
    assert out["result"]["answer"] == "ok"
    assert test.model.calls[1][1].content == "go\nmore"


async def test_a_plan_that_react_carries_out_knows_what_was_added_to_either(bed: Make) -> None:
    script = [plan_json("g", [step("work", 1, number=1)]), call_tool(("work", {"number": 1})), answer("ok")]
    test = with_pause(bed, build_plan_react, script)
    test.notes.append("one")
    await test.send("go")
    test.notes.append("two")
    out = await test.resume()
    assert [str(call[place].content) for call, place in zip(test.model.calls, (1, 0, 0), strict=True)] == [
        "go\none",
        "go\none",
        "go\none\ntwo",
    ]
    assert [text for kind, text in spoken(out) if kind == "human"] == ["go", "one", "two"]
