"""What a replay notices, and what goes on live."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from pydantic import Field

import segue
from segue.core.agents import Agent
from segue.core.calls import CallResult, Execution
from segue.core.errors import ConfigurationError, ThreadExists
from segue.testing.cassette import Cassette, Difference, RecordedExecutor, record, replay
from segue.testing.cassette.cassette import ToolCall
from segue.tools.calls import ToolExecutor
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.loopback import LoopbackServer, Text

LOOK, REFUND = ("look", {"order": 17}), ("refund", {"order": 17})
REPLIES = [call_tool(LOOK), call_tool(REFUND), answer("Refunded."), answer("You are welcome.")]


def look(order: int) -> str:
    """Look an order up."""
    RAN.append(f"look {order}")
    return f"order {order} is late"


@segue.tool(needs_approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    RAN.append(f"refund {order}")
    return f"refunded {order}"


RAN: list[str] = []
AGENT = Agent(agent_id="shop", model="openai:m", base_url="http://127.0.0.1:9/v1", tools=(look, refund), mode="react")


async def _held() -> Cassette:
    async with LoopbackServer([Text(reply) for reply in REPLIES]) as server, segue.open(":memory:") as app:
        app.register(AGENT.model_copy(update={"base_url": server.base_url}))
        waiting = await app.ask("My order 17 is late", session_id="s", agent="shop")
        await app.answer(waiting["task_id"], "approve")
        await app.ask("Thanks", session_id="s", agent="shop")
        return await record(app, "s")


@pytest.fixture(scope="module")
def cassette() -> Cassette:
    made = asyncio.run(_held())
    RAN.clear()
    return made


def look_in(order: Annotated[int, Field(ge=1)]) -> str:
    """Look an order up."""
    return ""


def look_up(order: int) -> str:
    """Look an order of this week up."""
    return ""


@segue.tool(needs_approval=True)
def look_asking(order: int) -> str:
    """Look an order up."""
    return ""


look_in.__name__ = look_up.__name__ = look_asking.__name__ = "look"


def refund_at_once(order: int) -> str:
    """Refund an order."""
    RAN.append(f"refund {order}")
    return f"refunded {order}"


refund_at_once.__name__ = "refund"

CHANGED: dict[str, tuple[dict[str, Any], str, int, int, str]] = {
    "prompt": ({"prompt": "Be kind."}, "request", 1, 1, "+Be kind."),
    "schema of a tool": ({"tools": (look_in, refund)}, "request", 1, 1, '+    "minimum": 1,'),
    "description of a tool": ({"tools": (look_up, refund)}, "request", 1, 1, "+- `look`"),
    "tool that is gone": ({"tools": (look,)}, "request", 1, 1, "-[tool refund]"),
    "model": ({"model": "openai:n"}, "request", 1, 1, "+model: openai:n"),
    "temperature": ({"temperature": 0.5}, "request", 1, 1, "+temperature: 0.5"),
    "seed": ({"seed": 1}, "request", 1, 1, "+seed: 1"),
    "approval that is not needed": ({"tools": (look, refund_at_once)}, "question", 1, 0, '-refund({"order": 17})'),
    "approval that is needed": ({"tools": (look_asking, refund)}, "question", 1, 0, '+look({"order": 17})'),
    "fewer rounds": ({"max_iteration": 2}, "request", 1, 1, "max_iteration"),
}


@pytest.mark.parametrize("name", CHANGED)
async def test_a_change_is_shown_where_it_first_matters(name: str, cassette: Cassette) -> None:
    change, kind, turn, call, line = CHANGED[name]
    made = await replay(cassette, agents=[AGENT.model_copy(update=change)])
    found = made.difference
    assert found is not None
    assert (found.kind, found.turn, found.call) == (kind, turn, call)
    assert any(line in shown for shown in found.describe().splitlines()), found.describe()
    assert RAN == []


def edited(cassette: Cassette, turn: int, **changes: Any) -> Cassette:
    turns = [*cassette.turns]
    turns[turn - 1] = turns[turn - 1].model_copy(update=changes)
    return cassette.model_copy(update={"turns": tuple(turns)})


def with_result(cassette: Cassette, outcome: dict[str, Any]) -> Cassette:
    first, *others = cassette.turns[0].tool_calls
    return edited(cassette, 1, tool_calls=(first.model_copy(update={"outcome": outcome}), *others))


EDITS: dict[str, tuple[Callable[[Cassette], Cassette], str, int]] = {
    "a result": (lambda c: with_result(c, {"success": "lost"}), "request", 1),
    "a call that is not recorded": (lambda c: edited(c, 1, tool_calls=()), "tool_call", 1),
    "a reply that is not recorded": (lambda c: edited(c, 2, model_calls=()), "model_call", 2),
    "an answer": (lambda c: edited(c, 2, answer="No."), "outcome", 2),
    "a message": (lambda c: c.model_copy(update={"messages": c.messages[:-1]}), "messages", 2),
}


@pytest.mark.parametrize("name", EDITS)
async def test_what_the_agent_does_otherwise_is_shown(name: str, cassette: Cassette) -> None:
    edit, kind, turn = EDITS[name]
    found = (await replay(edit(cassette), agents=[AGENT])).difference
    assert isinstance(found, Difference) and (found.kind, found.turn) == (kind, turn)
    assert RAN == []


async def test_from_a_turn_on_results_are_reused_until_a_call_differs(cassette: Cassette) -> None:
    told: list[tuple[str, bool]] = []

    def tell(call: ToolCall, reused: bool) -> None:
        told.append((call.text, reused))

    script = [call_tool(LOOK), call_tool(("refund", {"order": 18})), call_tool(REFUND), answer("Done."), answer("Bye.")]
    with ScriptedChatModel(script) as model:
        live = AGENT.model_copy(update={"model": model, "tools": (look, refund_at_once), "prompt": "Be kind."})
        made = await replay(cassette, agents=[live], live_from=1, on_call=tell)
    assert told == [('look({"order": 17})', True), ('refund({"order": 18})', False), ('refund({"order": 17})', False)]
    assert RAN == ["refund 18", "refund 17"]
    RAN.clear()
    assert [(turn.number, turn.answer) for turn in made.live] == [(1, "Done."), (2, "Bye.")]


async def test_earlier_turns_are_replayed_and_a_new_question_waits(cassette: Cassette, tmp_path: Any) -> None:
    file = tmp_path / "live.db"
    with ScriptedChatModel([call_tool(REFUND)]) as model:
        live = AGENT.model_copy(update={"model": model, "prompt": "Be kind."})
        made = await replay(cassette, agents=[live], live_from=2, database=file)
        assert [message.text for message in model.calls[0] if "Refunded." in message.text]
    assert [(turn.number, turn.status) for turn in made.live] == [(2, "waiting")]
    assert RAN == []
    async with segue.open(file, agents=[live]) as app:
        assert [task.status for task in await app.tasks.list(session_id="s")] == ["waiting", "done"]
    with pytest.raises(ThreadExists):
        await replay(cassette, agents=[live], live_from=2, database=file)
    with pytest.raises(ConfigurationError, match="turns 1 to 2"):
        await replay(cassette, live_from=3)


def pay_back(order: int) -> str:
    """Refund an order."""
    RAN.append(f"refund {order}")
    return f"refunded {order}"


class Refuses(ToolExecutor):
    """Runs nothing."""

    async def execute(self, execution: Execution) -> CallResult:
        return CallResult.failed(f"{execution.name} was not recorded and did not run")


class Kept:
    """Results by name and arguments, each used once."""

    def __init__(self, *calls: ToolCall) -> None:
        self._left = [*calls]

    async def result_of(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        found = next((c for c in self._left if (c.name, c.arguments) == (name, dict(arguments))), None)
        if found is None:
            return None
        self._left.remove(found)
        return found.outcome


async def test_a_recording_carries_out_the_calls_of_an_agent_in_any_order_and_no_other_effect_runs() -> None:
    RAN.clear()
    kept = Kept(
        ToolCall(name="pay_back", arguments={"order": 17}, at=0.0, outcome={"success": "refunded 17"}),
        ToolCall(name="look", arguments={"order": 17}, at=0.0, outcome={"error": "no such order"}),
    )
    other, back = ("look", {"order": 18}), ("pay_back", {"order": 17})
    script = [*(call_tool(call) for call in (LOOK, other, back, back)), answer("Done.")]
    agent = Agent(agent_id="shop", model=ScriptedChatModel(script), tools=(look, pay_back), mode="react")
    async with segue.open(":memory:") as app:
        app.register(agent, RecordedExecutor(kept, Refuses()))
        result = await app.ask("My order 17 is late", session_id="s", agent="shop")
    results = [entry["result"] for entry in result["history"]]
    assert [*results[0].values(), *results[2].values()] == ["no such order", "refunded 17"]
    assert all("was not recorded" in results[place]["error"] for place in (1, 3)) and RAN == []
