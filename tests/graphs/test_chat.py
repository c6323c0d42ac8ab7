"""Modes over one thread, and what happens when one gives up."""

import pytest

from segue.core.errors import ModelRefused, UnknownMode
from segue.graphs.chat import build_chat
from tests.fakes import answer, call_tool, plan_json
from tests.graphs.conftest import Make

pytestmark = pytest.mark.parametrize("saver", ["memory", "sqlite"], indirect=True)


async def test_all_modes_share_the_threads_history_and_other_threads_see_nothing(bed: Make) -> None:
    script = [
        "Hello!",
        call_tool(("double", {"number": 4})),
        answer("eight"),
        plan_json("g", [{"action": "none"}]),
        "so",
    ]
    test = bed(build_chat, [*script, "?"])
    await test.send("hello", mode="direct")
    await test.send("double four", mode="react")
    out = await test.send("plan it", mode="plan")
    await test.send("and?", thread="other", mode="direct")
    assert [m.type for m in out["messages"]] == ["human", "ai", "human", "ai", "tool", "ai", "human", "ai"]
    assert '"content": "eight"' in str(test.model.calls[3][0].content)
    assert len(test.model.calls[5]) == 2
    assert out["result"]["mode"] == "plan"


async def test_a_refused_direct_answer_falls_back_to_react(bed: Make) -> None:
    test = bed(build_chat, [ModelRefused("no"), answer("from react")])
    out = await test.send("hello")
    assert out["result"]["answer"] == "from react"
    fallback = test.of_type("fallback")[0]["data"]
    assert (fallback["from_mode"], fallback["to_mode"]) == ("direct", "react")
    assert [m.type for m in out["messages"]] == ["human", "ai"]


async def test_an_unknown_mode_lists_the_modes(bed: Make) -> None:
    with pytest.raises(UnknownMode, match="direct, react, plan, plan_react, lifecycle, controller, auto"):
        await bed(build_chat, []).send("go", mode="fast")


async def test_what_a_plan_did_before_it_gave_up_is_known_to_react_and_counted(bed: Make) -> None:
    first = plan_json(
        "g", [{"action": "note", "params": {"text": "paid"}}, {"action": "fail", "params": {"reason": "x"}}]
    )
    test = bed(build_chat, [first, "x", "y", "z", answer("paid once")])
    out = await test.send("plan it")
    assert (out["result"]["mode"], out["result"]["usage"]["calls"]) == ("react", 5)
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert "noted paid" in str(test.model.calls[-1][2].content)
