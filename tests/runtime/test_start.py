"""What starts a task: an answer as an object, a repeated request, and the session's title."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import BaseModel
from rich.cells import cell_len
from typer.testing import CliRunner

import segue
from segue.app import App
from segue.cli import app as command_line
from segue.core.agents import Agent, Prices
from segue.core.errors import KeyUsed, ModelRefused, TaskError, UnknownThread, UnreadableReply
from segue.core.records import Task
from segue.core.task import TITLE_COLUMNS, title_of
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import until
from tests.server.serving import Served


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


# Idempotency keys: the same request twice starts one task.


class Shop:
    """An agent whose orders can be counted, and held up."""

    def __init__(self) -> None:
        self.ordered: list[str] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()

    async def order(self, item: str) -> str:
        """Order an item."""
        self.entered.set()
        await self.gate.wait()
        self.ordered.append(item)
        return f"{item} is ordered"

    def agent(self) -> Agent:
        replies = [call_tool(("order", {"item": "tea"})), answer("Ordered."), answer("Anything else?")]
        return Agent(agent_id="shop", tools=[self.order], model=ScriptedChatModel(replies), mode="react")


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_a_request_that_comes_again_gives_the_task_that_it_began(shop: Shop, tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[shop.agent()]) as app:
        first = asyncio.create_task(app.ask("order tea", session_id="s", agent="shop", idempotency_key="k"))
        await shop.entered.wait()
        again = asyncio.create_task(app.ask("order tea", session_id="s", agent="shop", idempotency_key="k"))
        await asyncio.sleep(0)
        shop.gate.set()
        results = await asyncio.gather(first, again)
    assert results[0] == results[1]
    async with segue.open(tmp_path / "segue.db", agents=[shop.agent()]) as app:
        assert await app.ask("order tea", agent="shop", idempotency_key="k") == results[0]
        assert len(await app.tasks.list()) == 1
    assert shop.ordered == ["tea"]


async def test_requests_that_come_at_once_in_sessions_of_their_own_start_one_task(shop: Shop) -> None:
    shop.gate.set()
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        results = await asyncio.gather(*(app.ask("order tea", agent="shop", idempotency_key="k") for _ in range(5)))
        assert len(await app.tasks.list()) == 1
    assert {result.task_id for result in results} == {results[0].task_id}
    assert shop.ordered == ["tea"]


async def test_a_message_that_steers_is_taken_once(shop: Shop) -> None:
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        task = await app.start("order tea", session_id="s", agent="shop")
        await shop.entered.wait()
        steering = asyncio.create_task(
            app.start("green", session_id="s", steer=True, agent="shop", idempotency_key="k")
        )
        await until(lambda: _has_note(app, task.task_id))
        shop.gate.set()
        steered = await steering
        again = await app.start("green", session_id="s", steer=True, agent="shop", idempotency_key="k")
        assert steered.task_id == again.task_id == task.task_id
        assert (await _ended(app, task.task_id)).notes == ["green"]


async def test_a_message_that_steers_twice_at_once_is_taken_once(shop: Shop) -> None:
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        task = await app.start("order tea", session_id="s", agent="shop")
        await shop.entered.wait()
        steering = [
            asyncio.create_task(app.start("green", session_id="s", steer=True, agent="shop", idempotency_key="k"))
            for _ in range(2)
        ]
        await until(lambda: _has_note(app, task.task_id))
        shop.gate.set()
        assert {steered.task_id for steered in await asyncio.gather(*steering)} == {task.task_id}
        ended = await _ended(app, task.task_id)
        assert (ended.status, ended.notes) == ("done", ["green"])


async def test_a_key_that_began_another_message_is_refused(shop: Shop) -> None:
    shop.gate.set()
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        await app.ask("order tea", session_id="s", agent="shop", idempotency_key="k")
        with pytest.raises(KeyUsed, match="'k' was used for another request"):
            await app.ask("order coffee", session_id="s", agent="shop", idempotency_key="k")
        await app.sessions.delete("s")
        assert (await app.ask("hello", agent="shop", idempotency_key="k")).answer == "Anything else?"


async def _ended(app: App, task_id: str) -> Task:
    async for _ in app.follow(task_id):
        pass
    return await app.task(task_id)


async def _has_note(app: App, task_id: str) -> bool:
    """Whether the message that steers is stored."""
    return (await app.task(task_id)).notes == ["green"]


# Titles of sessions: the first message, shortened; on request a model's, once; and a person's before all.


LONG = "Please find me a quiet hotel in the old town of Rome for three nights in the last week of May"
LONG_ZH = "请帮我在罗马老城区找一家安静的酒店，五月最后一周入住三晚，预算每晚一百欧元左右，最好含早餐"


def test_a_message_is_shortened_at_a_word_or_a_character_by_its_width() -> None:
    assert title_of("Hello\n there ") == "Hello there"
    assert title_of(LONG) == "Please find me a quiet hotel in the old town of Rome for…"
    assert title_of(LONG_ZH) == "请帮我在罗马老城区找一家安静的酒店，五月最后一周入住三晚，预…"
    assert all(cell_len(title_of(text)) <= TITLE_COLUMNS + 1 for text in (LONG, LONG_ZH, "x" * 200, "한" * 99))


async def test_a_session_has_the_shortened_first_message_and_its_fork_too() -> None:
    async with segue.open(":memory:") as app:
        await app.ask(LONG, session_id="s", mode="direct")
        await app.ask("hello", session_id="s", mode="direct")
        assert (await app.sessions.get("s")).title == title_of(LONG)
        snapshot = (await app.sessions.snapshots("s", 1))[0]
        await app.rewind.fork("s", snapshot.checkpoint_id, "t")
        assert (await app.sessions.get("t")).title == f"↳ {title_of(LONG)}"
        await app.sessions.rename("s", LONG)
        assert (await app.sessions.make_title("s")) == (await app.sessions.get("s")).title == title_of(LONG)
        assert (await app.sessions.make_title("t")) == f"↳ {title_of(LONG)}"


async def test_a_model_writes_a_title_once_and_it_is_counted() -> None:
    with ScriptedChatModel(["Fine.", '"Hotel in Rome."\nIt is a title.']) as chat:
        async with segue.open(":memory:", agents=[Agent(agent_id="guide", model=chat)]) as app:
            with pytest.raises(UnknownThread):
                await app.sessions.make_title("s")
            task = await app.ask(LONG, session_id="s", mode="direct", agent="guide")
            assert [await app.sessions.make_title("s") for _ in range(2)] == ["Hotel in Rome"] * 2
            stored = (await app.task(task["task_id"])).result
            assert stored and stored["usage"]["calls"] == 2
            await app.sessions.rename("s", "Mine")
            assert await app.sessions.make_title("s") == "Mine"


async def test_a_title_and_what_a_model_remembers_are_both_counted_when_they_end_together(tmp_path: Path) -> None:
    asked: list[int] = []
    both = asyncio.Event()

    class Together(ScriptedChatModel):
        async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
            asked.append(1)
            if len(asked) == 3:
                both.set()
            if len(asked) > 1:
                await both.wait()
            async for piece in super()._astream(*args, **options):
                yield piece

    chat = Together(["Fine.", '{"facts": []}', '{"facts": []}'])
    agents = [Agent(agent_id="guide", model=chat, remember="model")]
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        task = await app.ask("My name is Ann.", session_id="s", mode="direct", agent="guide", user_id="ann")
        await app.sessions.make_title("s")
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        stored = (await app.task(task["task_id"])).result
    assert stored and stored["usage"]["calls"] == 3


async def test_a_name_that_a_person_gives_meanwhile_wins() -> None:
    async with segue.open(":memory:") as app:
        chat = ScriptedChatModel(["Fine.", "Hotel in Rome"])
        app.register(Agent(agent_id="guide", model=chat))
        await app.ask(LONG, session_id="s", mode="direct", agent="guide")
        await app.sessions.rename("s", "Mine")
        from segue.core.records import SessionChanges

        await app.sessions.change("s", SessionChanges(title="Hotel in Rome", is_made=True))
        assert (await app.sessions.get("s")).title == "Mine"


async def test_a_title_needs_an_answer() -> None:
    async with segue.open(
        ":memory:", agents=[Agent(agent_id="guide", model=ScriptedChatModel([ValueError("no")]))]
    ) as app:
        with pytest.raises(ValueError, match="no"):
            await app.ask(LONG, session_id="s", mode="direct", agent="guide")
        with pytest.raises(TaskError, match="has no answer yet"):
            await app.sessions.make_title("s")


def test_titles_over_http_and_in_the_terminal(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with Served() as served, served.client() as client:
        client.post("/api/chat", json={"message": LONG, "session_id": "s", "mode": "direct"})
        assert client.post("/api/sessions/s/title").json() == {"title": title_of(LONG)}
        assert client.get("/api/sessions/s").json()["title"] == title_of(LONG)
        assert client.post("/api/sessions/none/title").status_code == 404
    monkeypatch.chdir(str(tmp_path))

    def run(*arguments: str) -> str:
        return CliRunner().invoke(command_line, arguments).output

    run("chat", LONG, "--session", "s", "--mode", "direct")
    assert run("title", "s") == run("title", "s", "--make") == f"{title_of(LONG)}\n"
    assert run("title", "s", "Rome") == run("title", "s", "--make") == "Rome\n"
    assert "Rome" in run("sessions")
    assert run("title", "s", "") == f"{title_of(LONG)}\n"
