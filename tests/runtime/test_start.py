"""An answer as an object of the caller's model, and what tasks cost."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

import segue
from segue.core.agents import Agent, Prices
from segue.core.errors import ModelRefused, UnreadableReply
from tests.fakes import ScriptedChatModel, answer


class Trip(BaseModel):
    city: str
    days: int


def agent(*script: object, **fields: object) -> Agent:
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "mode": "react", **fields})  # type: ignore[arg-type]


async def test_an_answer_is_rewritten_as_the_object_and_asked_again_with_the_error(tmp_path: Path) -> None:
    wrong = '{"city": "Chengdu", "days": "many"}'
    model = agent(answer("Three days in Chengdu."), wrong, '{"city": "Chengdu", "days": 3}')
    async with segue.open(tmp_path / "a.db", agents=[model]) as app:
        result = await app.ask("plan", agent="a", response_model=Trip)
    assert result["object"] == Trip(city="Chengdu", days=3)
    assert result["answer"] == "Three days in Chengdu."
    assert result["usage"]["calls"] == 3
    assert "valid integer" in str(model.model.calls[2][-1].content)


async def test_an_answer_that_is_the_object_already_costs_no_call(tmp_path: Path) -> None:
    model = agent(answer('{"city": "Xiamen", "days": 2}'))
    async with segue.open(tmp_path / "a.db", agents=[model]) as app:
        result = await app.ask("plan", agent="a", response_model=Trip)
    assert result["object"] == Trip(city="Xiamen", days=2)
    assert result["usage"]["calls"] == 1


async def test_three_tries_are_the_most_and_the_answer_stays_in_the_history(tmp_path: Path) -> None:
    model = agent(answer("somewhere"), "no", "no", "no")
    async with segue.open(tmp_path / "a.db", agents=[model]) as app:
        with pytest.raises(UnreadableReply, match="3 tries"):
            await app.ask("plan", agent="a", session_id="s", response_model=Trip)
        assert (await app.history("s"))[-1]["content"] == "somewhere"


async def test_the_offline_planner_says_that_it_cannot(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "a.db") as app:
        with pytest.raises(ModelRefused, match=r"Structured output \(Trip\) needs a language model"):
            await app.ask("你好", response_model=Trip)


async def test_tokens_and_cost_are_counted_per_call_task_and_agent(tmp_path: Path) -> None:
    def counted(text: str) -> AIMessage:
        usage = {"input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500}
        return AIMessage(text, usage_metadata=usage)  # type: ignore[arg-type]

    model = agent(counted(answer("one")), counted(answer("two")), prices=Prices(input=1.0, output=2.0))
    async with segue.open(tmp_path / "a.db", agents=[model]) as app:
        first = await app.ask("one", agent="a")
        await app.ask("two", agent="a")
        calls = [e for e in (await app.trace(first["task_id"])).events if e.type == "model_called"]
        assert [(c.data["input"], c.data["output"], c.data["cost"]) for c in calls] == [(1000, 500, 0.002)]
        assert first["usage"]["cost"] == 0.002
        used = await app.tasks.usage("a")
        assert (used.tasks, used.input, used.output, used.calls) == (2, 2000, 1000, 2)
        assert (used.cost, used.currency) == (0.004, "USD")
        assert (await app.tasks.usage("travel")).tasks == 0
