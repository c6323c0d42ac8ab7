"""Modes over one thread, and what happens when one gives up."""

import pytest

from segue.core.errors import UnknownMode
from segue.graphs.chat import build_chat
from tests.fakes import answer, plan_json
from tests.graphs.conftest import Make

pytestmark = pytest.mark.parametrize("saver", ["memory", "sqlite"], indirect=True)


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
