"""Versions of an agent: which one continues a task, where several are registered, and where its own is gone."""

import asyncio
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.app import App
from segue.core.agents import Agent, Budget, load_agents
from segue.core.errors import ConfigurationError, InvalidAnswer, TaskError, TaskPinned
from segue.runtime.history import checked_edit
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.runtime.test_leases import database, reported, working

__all__ = ["database"]


def look() -> str:
    """Look."""
    return "seen"


def support(version: str, *replies: Any, older: Sequence[Agent] = (), **options: Any) -> Agent:
    model = ScriptedChatModel(replies)
    return Agent(agent_id="a", version=version, model=model, tools=(look,), mode="react", older=older, **options)


def asks(version: str, *replies: Any, **options: Any) -> Agent:
    """An agent whose task waits for an answer of its client's tool."""
    return support(version, call_tool(("show", {})), *replies, **options)


SHOW = {"name": "show", "description": "Show.", "parameters": {"type": "object", "properties": {}}}


async def waiting(file: Path, agent: Agent) -> str:
    async with segue.open(file, agents=[agent]) as app:
        return str((await app.ask("look", agent="a", session_id="s", client_tools=[SHOW]))["task_id"])


async def version_of(app: App, task_id: str) -> Any:
    return (await app.task(task_id)).agent_version


async def test_a_task_continues_with_the_version_that_is_there_now(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("2", answer("by 2"))]) as app:
        assert await version_of(app, task_id) == "1"
        assert (await app.answer(task_id, "shown"))["answer"] == "by 2"
        assert await version_of(app, task_id) == "2"


async def test_a_raised_limit_counts_for_a_task_that_is_pinned_to_its_version(tmp_path: Path) -> None:
    few = asks("", on_upgrade="pin", max_iteration=1, budget=Budget(tool_calls=1))
    task_id = await waiting(tmp_path / "s.db", few)
    more = support("", call_tool(("look", {})), answer("seen"), on_upgrade="pin")
    async with segue.open(tmp_path / "s.db", agents=[more]) as app:
        result = await app.answer(task_id, "shown")
        assert (result["answer"], result.get("limit")) == ("seen", None)
        assert await version_of(app, task_id) == app.agents.current_version("a")


async def test_a_task_runs_with_its_version_where_several_are_registered(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    both = support("2", answer("by 2"), older=[support("1", answer("by 1"))])
    async with segue.open(tmp_path / "s.db", agents=[both]) as app:
        assert (await app.answer(task_id, "shown"))["answer"] == "by 1"
        assert await version_of(app, task_id) == "1"
        assert (await app.ask("look", agent="a", session_id="t"))["answer"] == "by 2"


async def test_a_pinned_task_waits_for_its_version(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("2", answer("by 2"), on_upgrade="pin")]) as app:
        assert [task.task_id for task in await app.tasks.waiting_for_version()] == [task_id]
        with pytest.raises(TaskPinned, match="is pinned to version 1 of its agent a"):
            await app.answer(task_id, "shown")
        assert (await app.task(task_id)).status == "waiting"
    async with segue.open(tmp_path / "s.db", agents=[support("1", answer("by 1"))]) as app:
        assert not await app.tasks.waiting_for_version()
        assert (await app.answer(task_id, "shown"))["answer"] == "by 1"


async def test_what_is_chosen_for_a_task_takes_the_place_of_its_agents_choice(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("2", answer("by 2"))]) as app:
        await app.tasks.set_on_upgrade(task_id, "pin")
        with pytest.raises(TaskPinned):
            await app.answer(task_id, "shown")
    async with segue.open(tmp_path / "s.db", agents=[support("2", answer("by 2"), on_upgrade="pin")]) as app:
        await app.tasks.set_on_upgrade(task_id, "continue")
        assert not await app.tasks.waiting_for_version()
        assert (await app.answer(task_id, "shown"))["answer"] == "by 2"


async def test_a_worker_takes_no_pinned_task_and_starves_no_other(database: Path) -> None:
    async with segue.open(database, agents=[support("1")], dispatch="always") as sender:
        pinned = await sender.start("look", agent="a", session_id="s")
        async with working(database, support("2", answer("by 2"), on_upgrade="pin")) as (new, _):
            await reported(sender, 1)
            assert (await new.ask("look", agent="a", session_id="t"))["answer"] == "by 2"
            await asyncio.sleep(0.3)
            assert (await sender.task(pinned.task_id)).status == "pending"
            assert [task.task_id for task in await new.tasks.waiting_for_version()] == [pinned.task_id]
            async with working(database, support("1", answer("by 1"))):
                [_ async for _ in sender.follow(pinned.task_id)]
        assert (await sender.task(pinned.task_id)).result["answer"] == "by 1"


FILE = """
older = ["old.toml"]

[[agent]]
agent_id = "a"
version = "3"
prompt = "Three."

[[agent.older]]
version = "2"
prompt = "Two."
"""


def test_a_file_names_older_versions_and_files_of_them(tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text(FILE, encoding="utf-8")
    (tmp_path / "old.toml").write_text('[[agent]]\nagent_id = "a"\nprompt = "One."\n', encoding="utf-8")
    (agent,) = load_agents(tmp_path / "new.toml")
    assert [(each.version, each.prompt) for each in (agent, *agent.older)] == [
        ("3", "Three."),
        ("2", "Two."),
        ("", "One."),
    ]
    (tmp_path / "new.toml").write_text(FILE.replace('version = "2"', 'agent_id = "b"'), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="same agent_id"):
        load_agents(tmp_path / "new.toml")


async def asked(app: App, task_id: str) -> Any:
    """What stands in the list of tasks that wait for a person."""
    (waiting,) = await app.waiting()
    question = await app.question(task_id)
    assert waiting.question == question["question"] and waiting.interrupt_id == question["interrupt_id"]
    return question


async def test_a_person_is_asked_which_version_continues_a_task(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("2", answer("by 2"), on_upgrade="ask")]) as app:
        result = await app.answer(task_id, "shown")
        assert (result["status"], result["question"]["choices"]) == ("waiting", ["continue", "pin"])
        question = await asked(app, task_id)
        assert "now at version 2, but this task started with version 1" in question["question"]
        with pytest.raises(InvalidAnswer, match="continue or pin"):
            await app.answer(task_id, "maybe")
        done = await app.answer(task_id, "continue", interrupt_id=question["interrupt_id"])
        assert (done["answer"], await version_of(app, task_id)) == ("by 2", "2")
        results = [e.data["result"] for e in await app.events(task_id) if e.type == "tool_result"]
    assert results == [{"success": "shown"}]


async def test_a_person_pins_a_task_to_its_version(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("2", on_upgrade="ask")]) as app:
        await app.answer(task_id, "shown")
        assert (await app.answer(task_id, "pin"))["status"] == "paused"
        assert [task.task_id for task in await app.tasks.waiting_for_version()] == [task_id]
        with pytest.raises(TaskPinned):
            await app.resume(task_id)
    async with segue.open(tmp_path / "s.db", agents=[support("1", answer("by 1"))]) as app:
        assert (await app.resume(task_id))["answer"] == "by 1"


@pytest.mark.parametrize(("choice", "by"), [("continue", "2"), ("pin", "1")])
async def test_a_worker_asks_before_it_takes_a_task_of_another_version(database: Path, choice: str, by: str) -> None:
    async with segue.open(database, agents=[support("1")], dispatch="always") as sender:
        task_id = (await sender.start("look", agent="a", session_id="s")).task_id
        async with working(database, support("2", answer("by 2"), on_upgrade="ask")):
            [_ async for _ in sender.follow(task_id)]
            assert (await sender.task(task_id)).status == "waiting"
            answering = asyncio.create_task(sender.answer(task_id, choice))
            if choice == "pin":
                await asyncio.sleep(0.3)
                assert not answering.done()
                async with working(database, support("1", answer("by 1"))):
                    assert (await answering)["answer"] == f"by {by}"
            else:
                assert (await answering)["answer"] == f"by {by}"


async def test_a_fork_of_a_task_that_waits_for_a_version_asks_what_is_open(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("2", answer("by 2"), on_upgrade="ask")]) as app:
        assert (await app.answer(task_id, "shown"))["status"] == "waiting"
        (_, before, *_) = await app.sessions.snapshots("s")
        fork = (await app.rewind.fork("s", before.checkpoint_id, session_id="f")).task_id
        await app.tasks.set_on_upgrade(fork, "continue")
        assert (await app.resume(fork))["question"] == (await app.question(fork))
        assert (await app.answer(fork, "shown"))["answer"] == "by 2"


async def question_of_version(file: Path, **options: Any) -> tuple[str, Agent]:
    """A task that waits for the answer which version continues it, and the agent of version 2."""
    task_id = await waiting(file, asks("1"))
    new = support("2", answer("by 2"), on_upgrade="ask", **options)
    async with segue.open(file, agents=[new]) as app:
        assert (await app.answer(task_id, "shown"))["question"]["choices"] == ["continue", "pin"]
    return task_id, new


async def test_continue_answers_the_question_which_version_a_task_waits_with(tmp_path: Path) -> None:
    task_id, new = await question_of_version(tmp_path / "s.db")
    async with segue.open(tmp_path / "s.db") as elsewhere:  # without the agent
        assert (await elsewhere.tasks.set_on_upgrade(task_id, "continue")).status == "running"
        assert not await elsewhere.waiting()
    async with segue.open(tmp_path / "s.db", agents=[new]) as app:
        assert [each.task_id for each in await app.tasks.resumable()] == [task_id]
        assert (await app.resume(task_id))["answer"] == "by 2"


async def test_pin_answers_the_question_which_version_a_task_waits_with(tmp_path: Path) -> None:
    task_id, new = await question_of_version(tmp_path / "s.db")
    async with segue.open(tmp_path / "s.db", agents=[new]) as app:
        assert (await app.tasks.set_on_upgrade(task_id, "ask")).status == "waiting"
        assert (await app.tasks.set_on_upgrade(task_id, "pin")).status == "paused"
    async with segue.open(tmp_path / "s.db", agents=[support("1", answer("by 1"))]) as app:
        assert (await app.resume(task_id))["answer"] == "by 1"


async def test_a_worker_goes_on_with_a_task_once_it_may(database: Path) -> None:
    async with segue.open(database, agents=[support("1")], dispatch="always") as sender:
        task_id = (await sender.start("look", agent="a", session_id="s")).task_id
        async with working(database, support("2", answer("by 2"), on_upgrade="ask")):
            [_ async for _ in sender.follow(task_id)]
            assert (await sender.task(task_id)).status == "waiting"
            await sender.tasks.set_on_upgrade(task_id, "continue")
            [_ async for _ in sender.follow(task_id)]
    async with segue.open(database, agents=[]) as app:
        assert (await app.task(task_id)).result["answer"] == "by 2"


@pytest.mark.parametrize(("choice", "changed"), [("continue", True), ("pin", False)])
async def test_the_event_says_whether_the_agent_is_another_one(tmp_path: Path, choice: str, changed: bool) -> None:
    task_id, new = await question_of_version(tmp_path / "s.db", older=[support("3")])
    both = new.model_copy(update={"older": (support("1", answer("by 1")),)})
    async with segue.open(tmp_path / "s.db", agents=[new if changed else both]) as app:
        await app.answer(task_id, choice)
        events = await app.events(task_id)
    assert [event.data["agent_changed"] for event in events if event.type == "resumed"] == [changed]


async def test_an_imported_task_keeps_its_version_and_the_question_about_it(tmp_path: Path) -> None:
    task_id, new = await question_of_version(tmp_path / "s.db")
    async with segue.open(tmp_path / "s.db", agents=[new]) as app:
        document, asked = await app.sessions.export("s"), await app.question(task_id)
    async with segue.open(tmp_path / "t.db", agents=[new]) as app:
        row = await app.sessions.import_(document, session_id="t")
        assert (row.status, row.agent_version, row.offered_version) == ("waiting", "1", "2")
        assert (await app.question(row.task_id))["question"] == asked["question"]
        again = await app.answer(row.task_id, "continue")
        assert again["question"]["client_calls"]  # an import drops answers, so this one is asked for again
        assert (await app.answer(row.task_id, "shown"))["answer"] == "by 2"


async def test_an_imported_task_stays_pinned(tmp_path: Path) -> None:
    task_id = await waiting(tmp_path / "s.db", asks("1"))
    async with segue.open(tmp_path / "s.db", agents=[support("1")]) as app:
        await app.tasks.set_on_upgrade(task_id, "pin")
        document = await app.sessions.export("s")
    async with segue.open(tmp_path / "t.db", agents=[support("2")]) as app:
        row = await app.sessions.import_(document, session_id="t")
        with pytest.raises(TaskPinned, match="is pinned to version 1"):
            await app.answer(row.task_id, "shown")


# An approval and a permission count for the tool that a person saw; of a changed tool they are asked again.


PAY = call_tool(("pay", {"amount": 1}))
ALWAYS = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
paid: list[tuple[int, str]] = []


def cautious() -> Callable[..., Any]:
    @tool(needs_approval=True)
    def pay(amount: int, account: str = "own", fee: Decimal = Decimal("0.5")) -> str:
        """Pay."""
        paid.append((amount, account))
        return "paid"

    return pay


def changed() -> Callable[..., Any]:
    @tool(needs_approval=True)
    def pay(amount: int, account: str = "the company's", fee: Decimal = Decimal("0.5")) -> str:
        """Pay."""
        paid.append((amount, account))
        return "paid"

    return pay


def agent(source: Callable[..., Any], *script: str) -> Agent:
    return Agent(agent_id="a", model=ScriptedChatModel(script), tools=(source,), mode="react")


async def test_a_question_shows_every_default_of_the_tool(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY)]) as app:
        asked = await app.ask("pay", agent="a")
    (call,) = asked["question"]["calls"]
    assert call["arguments"] == {"amount": 1, "account": "own", "fee": "0.5"}


async def test_an_approval_of_a_tool_that_changed_is_asked_for_again(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY)]) as app:
        asked = await app.ask("pay", agent="a")
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), answer("paid"))]) as app:
        again = await app.answer(asked["task_id"], "approve")
        assert (again["status"], paid) == ("waiting", [])
        question = again["question"]
        assert question["calls"][0]["arguments"]["account"] == "the company's"
        assert question["problem"].startswith("pay has changed since you were asked")
        done = await app.answer(asked["task_id"], "approve")
    assert (done["status"], paid) == ("done", [(1, "the company's")])


async def test_an_earlier_approval_does_not_count_again_where_the_tool_is_what_it_was(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY)]) as app:
        asked = await app.ask("pay", agent="a")
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), answer("paid"))]) as app:
        assert (await app.answer(asked["task_id"], "approve"))["status"] == "waiting"
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), answer("not paid"))]) as app:
        again = await app.answer(asked["task_id"], "reject")
        assert (again["status"], paid) == ("waiting", [])
        assert again["question"]["problem"].startswith("pay has changed")
        done = await app.answer(asked["task_id"], "reject")
    assert (done["status"], done["answer"], paid) == ("done", "not paid", [])


async def test_a_permission_of_a_tool_that_changed_is_asked_for_again(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY, answer("1"), PAY, answer("2"))]) as app:
        asked = await app.ask("pay", agent="a", session_id="s")
        await app.answer(asked["task_id"], ALWAYS)
        assert (await app.ask("again", agent="a", session_id="s"))["status"] == "done"
    script = (PAY, answer("3"), PAY, answer("4"))
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), *script)]) as app:
        again = await app.ask("again", agent="a", session_id="s")
        assert again["question"]["problem"].startswith("pay has changed")
        assert (await app.answer(again["task_id"], ALWAYS))["status"] == "done"
        assert (await app.ask("once more", agent="a", session_id="s"))["status"] == "done"
    assert paid == [(1, "own"), (1, "own"), (1, "the company's"), (1, "the company's")]


async def test_a_changed_tool_takes_no_result_of_the_client_for_an_answer(tmp_path: Path) -> None:
    paid.clear()
    show = {"name": "show", "description": "Show a page.", "parameters": {"properties": {"page": {}}}}
    batch = call_tool(("show", {"page": "cart"}), ("pay", {"amount": 1}))
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), batch)]) as app:
        asked = await app.ask("pay", agent="a", client_tools=[show])
        assert asked["question"]["kind"] == "approval"
        waiting = await app.answer(asked["task_id"], "approve")
        assert waiting["question"]["client_calls"][0]["name"] == "show"
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), answer("paid"))]) as app:
        again = await app.answer(asked["task_id"], "shown the cart")
        assert again["question"]["problem"].startswith("pay has changed")
        done = await app.answer(asked["task_id"], "approve")
        results = [e.data["result"] for e in await app.events(asked["task_id"]) if e.type == "tool_result"]
    assert (done["status"], paid) == ("done", [(1, "the company's")])
    assert results == [{"success": "shown the cart"}, {"success": "paid"}]


def test_a_changed_state_keeps_the_calls_in_their_places() -> None:
    call = {"index": 0, "name": "pay", "arguments": {"amount": 1}, "scope": "r", "origin": "r/0", "step_id": ""}
    changed_call = {"arguments": {"amount": 2}, "scope": "another", "approved": "by nobody"}
    kept = {"calls": [{**call, "arguments": {"amount": 2}}]}
    assert checked_edit({"calls": [call]}, {"calls": [changed_call]}) == kept
    assert checked_edit({"call": call}, {"call": changed_call}) == {"call": kept["calls"][0]}
    for wrong in ([], [call, call], ["pay"]):
        with pytest.raises(TaskError, match="holds 1 calls"):
            checked_edit({"calls": [call]}, {"calls": wrong})
