"""Modes over one thread, and what happens when one gives up."""

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from segue.core.errors import ModelRefused, UnknownMode
from segue.graphs.chat import MODES, build_chat
from segue.graphs.direct import build_direct
from tests.fakes import answer, call_tool, plan_json
from tests.graphs.conftest import Make

pytestmark = pytest.mark.parametrize("saver", ["memory", "sqlite"], indirect=True)


async def test_direct_answers_without_tools_and_streams(bed: Make) -> None:
    test = bed(build_direct, ["Good day to you."])
    out = await test.send("hello")
    assert out["result"]["answer"] == "Good day to you."
    assert out["result"]["reasoning"]["total_steps"] == 0
    assert [m.type for m in test.model.calls[0]] == ["system", "human"]
    assert "".join(e.content for e in test.deltas if e.type == "token") == "Good day to you."


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


async def test_a_plan_that_cannot_be_had_falls_back_to_react(bed: Make) -> None:
    test = bed(build_chat, ["x", "y", "z", answer("from react")])
    out = await test.send("plan it")
    assert (out["result"]["mode"], out["result"]["success"]) == ("react", True)
    assert test.types.count("task_complete") == 1


async def test_an_unknown_mode_lists_the_modes(bed: Make) -> None:
    with pytest.raises(UnknownMode, match="direct, react, plan, plan_react, lifecycle, controller, auto"):
        await bed(build_chat, []).send("go", mode="fast")


async def test_a_graph_of_ones_own_is_a_mode(bed: Make) -> None:
    async def shout(state: MessagesState) -> dict[str, list[AIMessage]]:
        return {"messages": [AIMessage(state["messages"][-1].text.upper())]}

    own = StateGraph(MessagesState)
    own.add_node("shout", shout)
    own.add_edge(START, "shout")
    own.add_edge("shout", END)
    test = bed(lambda: build_chat({**MODES, "shout": own.compile()}), [])
    out = await test.send("hear me", mode="shout")
    assert (out["result"]["answer"], out["result"]["mode"]) == ("HEAR ME", "shout")


async def test_what_a_plan_did_before_it_gave_up_is_known_to_react_and_counted(bed: Make) -> None:
    first = plan_json(
        "g", [{"action": "note", "params": {"text": "paid"}}, {"action": "fail", "params": {"reason": "x"}}]
    )
    test = bed(build_chat, [first, "x", "y", "z", answer("paid once")])
    out = await test.send("plan it")
    assert (out["result"]["mode"], out["result"]["usage"]["calls"]) == ("react", 5)
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert "noted paid" in str(test.model.calls[-1][2].content)
