"""Success and failure of recorded tasks, then and now: by rating, by a rehearsal's scenario."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

import segue
from segue.core.agents import Agent
from segue.core.conversation import ConversationConfig
from segue.testing.backtest import Backtest
from segue.testing.backtest.run import Change
from segue.testing.rehearsal import converse
from tests.fakes import ScriptedChatModel, answer, call_tool

CALLS = (
    ("find_booking", {"reference": "QP6618", "surname": "Lindqvist"}),
    ("verify_passenger", {"reference": "QP6618", "birth_date": "1995-09-09"}),
    ("quote_cancellation", {"reference": "QP6618"}),
    ("cancel_booking", {"reference": "QP6618"}),
)
CANCELS = [*map(call_tool, CALLS), answer("It is cancelled.")]
THANKS = answer("You are welcome.")


@segue.tool(read_only=True)
def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is late"


@segue.tool
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


def agent(model: Any, agent_id: str = "desk") -> Agent:
    return Agent(agent_id=agent_id, mode="react", model=model, tools=(look, refund))


async def hold(database: Path, replies: Sequence[Any], **config: Any) -> None:
    """Hold a conversation whose bot gives these replies."""
    with ScriptedChatModel(replies) as model:
        async with segue.open(database, agents=[agent(model)]) as app:
            given = {
                "user_mode": "scripted_user",
                "bot_mode": "segue:react",
                "bot_agent": "desk",
                "bot_action_limit": 9,
            }
            await converse(app, ConversationConfig(**given, **config), conversation_id="talk")


async def again(database: Path, script: Sequence[Any], **options: Any) -> Backtest:
    """The backtest of an agent that says the script."""
    with ScriptedChatModel(script) as model:
        async with segue.open(f"file:{database}?mode=ro", agents=[agent(model)]) as app:
            return await app.backtest(concurrency=1, **options)


async def test_a_rehearsed_conversation_succeeds_as_its_scenario_says(tmp_path: Path) -> None:
    database = tmp_path / "segue.db"
    scenario: dict[str, Any] = {"workflow": "travel_change", "scenario": "cancel_flexible", "api_mode": "backend"}
    script = ("I have to cancel my trip.", "Thanks")
    await hold(database, [*CANCELS, THANKS], **scenario, script=script, conversation_turn_limit=2, seed=1)
    made = await again(database, [*CANCELS, THANKS])
    assert [task.success for task in made.tasks] == [(None, None), (True, True)]
    assert made.success == Change(worse=0, better=0)
    made = await again(database, [*CANCELS[:3], answer("It is cancelled."), THANKS])
    assert made.tasks[1].success == (True, False)
    assert made.success == Change(worse=1, better=0)
    made = await again(database, [*CANCELS[:3], call_tool(("cancel_booking", {"reference": "other"})), THANKS])
    assert made.tasks[1].success == (True, None)  # the turn stopped there


async def test_a_rating_is_success_or_failure(tmp_path: Path) -> None:
    database, rated = tmp_path / "segue.db", {"a": 5, "b": 1, "c": 3}
    with ScriptedChatModel([THANKS] * 3) as model:
        async with segue.open(database, agents=[agent(model)]) as app:
            for session, rating in rated.items():
                task = await app.ask("Thanks", session_id=session, agent="desk")
                await app.sessions.rate(task["task_id"], rating)
    made = await again(database, [THANKS] * 3)
    assert [task.success for task in made.tasks] == [(True, True), (False, False), (None, None)]
    made = await again(database, [answer("Bye.")] * 3)
    assert [task.success for task in made.tasks] == [(True, None), (False, None), (None, None)]
    assert made.success is None


async def test_a_tool_that_only_reads_has_no_effect_in_a_conversation(tmp_path: Path) -> None:
    database = tmp_path / "segue.db"
    said = [call_tool(("look", {"order": 17})), answer("It is late.")]
    await hold(database, said, script=("Where is order 17?",), api_mode="tools", conversation_turn_limit=1)
    assert (await again(database, said)).summary["same"] == 1
    (task,) = (await again(database, [call_tool(("look", {"order": 18}))], live_reads=True)).tasks
    assert (task.verdict, task.status) == ("other_calls", "stopped")
    (task,) = (await again(database, [call_tool(("refund", {"order": 17}))])).tasks
    assert task.verdict == "other_effects"


async def test_a_message_that_named_a_model_is_answered_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "segue.db"
    monkeypatch.setenv("SEGUE_MODEL", "openai:other")
    with ScriptedChatModel([THANKS]) as model:
        async with segue.open(database, agents=[agent(model)]) as app:
            await app.ask("Thanks", session_id="own", agent="desk")
            await app.ask("What is 2 + 3?", session_id="named", model="offline", agent="desk")
    made = await again(database, [THANKS])
    assert made.summary["same"] == 2
    made = await again(database, [], model="offline")
    assert [task.verdict == "same" for task in made.tasks] == [True, False]
