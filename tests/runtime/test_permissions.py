"""Tools that a person always allows, in a task or in a session."""

from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.app import App
from segue.core.agents import Agent
from segue.core.digests import tool_digest
from segue.core.errors import InvalidAnswer, UnknownThread
from segue.tools.registry import as_tool
from tests.fakes import ScriptedChatModel, answer, call_tool

paid: list[int] = []
wiped: list[str] = []


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@tool(needs_approval=True)
def wipe(name: str) -> str:
    """Delete something."""
    wiped.append(name)
    return f"deleted {name}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    paid.clear()
    wiped.clear()


def pays(*amounts: int) -> str:
    return call_tool(*(("pay", {"amount": amount}) for amount in amounts))


def register(app: App, *script: Any, **fields: Any) -> None:
    model = ScriptedChatModel(script)
    app.register(Agent(**{"agent_id": "a", "model": model, "tools": (pay, wipe), "mode": "react", **fields}))


def always(scope: str, *indexes: int) -> dict[str, Any]:
    return {"verdicts": [{"index": index, "verdict": "approve", "always": scope} for index in indexes or (0,)]}


async def events(app: App, task_id: str, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in await app.events(task_id) if event.type == kind]


@pytest.mark.parametrize(("scope", "next_task"), [("task", "waiting"), ("session", "done")])
async def test_the_tool_runs_without_a_question_in_its_scope_and_only_there(
    tmp_path: Path, scope: str, next_task: str
) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), pays(2, 3), answer("paid"))
        asked = await app.ask("pay", session_id="s", agent="a")
        done = await app.answer(asked["task_id"], always(scope))
        assert (done["status"], paid) == ("done", [1, 2, 3])
        assert await events(app, done["task_id"], "permission_granted") == [
            {"agent_id": "a", "tool": "pay", "scope": scope, "version": tool_digest(as_tool(pay))}
        ]
        permitted = await events(app, done["task_id"], "call_permitted")
        assert permitted == [{"index": index, "name": "pay", "scope": scope} for index in (0, 1)]
        register(app, pays(4), answer("again"))
        assert (await app.ask("pay more", session_id="s", agent="a"))["status"] == next_task
        register(app, pays(5))
        assert (await app.ask("pay", session_id="other", agent="a"))["status"] == "waiting"
        assert paid == ([1, 2, 3, 4] if scope == "session" else [1, 2, 3])


async def test_it_is_listed_and_revoked(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), answer("paid"), pays(2))
        asked = await app.ask("pay", session_id="s", agent="a")
        assert await app.sessions.permissions("s") == []
        await app.answer(asked["task_id"], always("session"))
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(2))
        (listed,) = await app.sessions.permissions()
        named = {"session_id": "s", "agent_id": "a", "tool": "pay", "scope": "session", "task_id": asked["task_id"]}
        assert listed.json() == {**named, "granted_at": listed.granted_at}
        assert (await app.sessions.revoke("s", tool="wipe"), await app.sessions.revoke("s", tool="pay")) == (0, 1)
        assert (await app.ask("pay", session_id="s", agent="a"))["status"] == "waiting"
        for unknown in (app.sessions.permissions("nowhere"), app.sessions.revoke("nowhere")):
            with pytest.raises(UnknownThread):
                await unknown


def shell(command: str) -> str:
    return call_tool(("wipe", {"name": command}))


async def test_a_rule_allows_only_calls_whose_arguments_match(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, shell("tmp/a"), shell("tmp/b"), shell("home"), answer("deleted"))
        asked = await app.ask("wipe", session_id="s", agent="a")
        verdict = {"index": 0, "verdict": "approve", "always": "session", "only": {"name": {"prefix": "tmp/"}}}
        waits = await app.answer(asked["task_id"], {"verdicts": [verdict]})
        assert (waits["status"], wiped) == ("waiting", ["tmp/a", "tmp/b"])
        (rule,) = [row.tool for row in await app.sessions.permissions("s")]
        assert rule == 'wipe {"name": {"prefix": "tmp/"}}'
        assert [await app.sessions.revoke("s", tool=tool) for tool in ("wip", "wipe_", rule)] == [0, 0, 1]
        exact = {"index": 0, "verdict": "approve", "always": "session", "only": {"name": "home"}}
        await app.answer(asked["task_id"], {"verdicts": [exact]})
        assert await app.sessions.revoke("s", tool="wipe") == 1, "the tool's name stands for all of its rules"


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ({"always": "session", "only": {"amount": 2}}, "does not match this call in amount: "),
        ({"always": "session", "only": {"amount": {"prefix": "1"}}}, "in amount: .* for a text"),
        ({"always": "session", "only": {"order": 1}}, "in order, amount: "),
        ({"always": "session", "only": {}}, 'goes with "always"'),
        ({"only": {"amount": 1}}, 'goes with "always"'),
        ({"always": "task", "only": {"amount": 1, "note": "x" * 2000}}, "longer than 2000 bytes"),
    ],
)
async def test_a_rule_must_fit_the_call_that_is_approved(verdict: dict[str, Any], said: str) -> None:
    async with segue.open(":memory:") as app:
        register(app, pays(1))
        asked = await app.ask("pay", session_id="s", agent="a")
        with pytest.raises(InvalidAnswer, match=said):
            await app.answer(asked["task_id"], {"verdicts": [{"index": 0, "verdict": "approve", **verdict}]})


async def test_one_of_a_task_is_not_listed_once_the_task_has_ended(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), call_tool(("wipe", {"name": "x"})), answer("paid"))
        asked = await app.ask("pay", session_id="s", agent="a")
        await app.answer(asked["task_id"], always("task"))
        assert [row.tool for row in await app.sessions.permissions()] == ["pay"]
        await app.answer(asked["task_id"], "reject")
        assert await app.sessions.permissions() == []


async def test_the_rest_of_the_answer_counts_though_the_tool_is_allowed_by_it(tmp_path: Path) -> None:
    """The node runs again to take the answer: what it allows must not keep the node from asking for it."""
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1, 2, 3), pays(4), answer("done"))
        asked = await app.ask("pay", session_id="s", agent="a")
        verdicts = [
            {"index": 0, "verdict": "approve", "always": "session"},
            {"index": 1, "verdict": "reject", "reason": "not this one"},
            {"index": 2, "verdict": "edit", "arguments": {"amount": 30}},
        ]
        done = await app.answer(asked["task_id"], {"verdicts": verdicts})
        assert (done["status"], paid) == ("done", [1, 30, 4])


async def test_another_tool_and_another_agents_tool_of_that_name_ask(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), call_tool(("wipe", {"name": "x"})))
        register(app, pays(9), agent_id="b")
        asked = await app.ask("pay", session_id="s", agent="a")
        waiting = await app.answer(asked["task_id"], always("session"))
        assert [call["name"] for call in waiting["question"]["calls"]] == ["wipe"]
        await app.cancel(asked["task_id"])
        assert (await app.ask("pay", session_id="s", agent="b"))["status"] == "waiting"
        assert (paid, wiped) == ([1], [])


async def test_a_permitted_call_does_not_wait_for_the_others_of_its_batch_to_be_asked_again(tmp_path: Path) -> None:
    mixed = call_tool(("pay", {"amount": 2}), ("wipe", {"name": "x"}))
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), mixed, answer("done"))
        asked = await app.ask("pay", session_id="s", agent="a")
        waiting = await app.answer(asked["task_id"], always("session"))
        assert [(call["index"], call["name"]) for call in waiting["question"]["calls"]] == [(1, "wipe")]
        assert paid == [1], "nothing of a batch runs before its question is answered"
        await app.answer(asked["task_id"], "reject")
        assert (paid, wiped) == ([1, 2], [])


async def test_revoked_while_a_question_waits_the_call_is_asked_about_too(tmp_path: Path) -> None:
    mixed = call_tool(("pay", {"amount": 2}), ("wipe", {"name": "x"}))
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), mixed, answer("done"))
        asked = await app.ask("pay", session_id="s", agent="a")
        await app.answer(asked["task_id"], always("session"))
        await app.sessions.revoke("s")
        again = await app.answer(asked["task_id"], "approve")
        assert (again["status"], paid, wiped) == ("waiting", [1], [])
        assert [call["name"] for call in again["question"]["calls"]] == ["pay", "wipe"]
        done = await app.answer(asked["task_id"], "approve")
        assert (done["status"], paid, wiped) == ("done", [1, 2], ["x"])


async def test_a_fork_and_an_import_ask_again(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), call_tool(("wipe", {"name": "x"})), pays(2), pays(2))
        asked = await app.ask("pay", session_id="s", agent="a")
        await app.answer(asked["task_id"], always("session"))
        (snapshot, *_) = await app.sessions.snapshots("s")
        fork = await app.rewind.fork("s", snapshot.checkpoint_id, session_id="fork")
        copy = await app.sessions.import_(await app.sessions.export("s"), session_id="copy")
        assert [row.session_id for row in await app.sessions.permissions()] == ["s"]
        for task in (fork, copy):
            waiting = await app.answer(task.task_id, "reject")
            assert [call["name"] for call in waiting["question"]["calls"]] == ["pay"]
        assert paid == [1]


async def test_a_deleted_session_leaves_no_permission(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1), answer("paid"), pays(2))
        asked = await app.ask("pay", session_id="s", agent="a")
        await app.answer(asked["task_id"], always("session"))
        await app.sessions.delete("s")
        assert await app.sessions.permissions() == []
        assert (await app.ask("pay", session_id="s", agent="a"))["status"] == "waiting"


async def test_only_an_approval_can_allow_a_tool(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, pays(1))
        asked = await app.ask("pay", session_id="s", agent="a")
        for verdict in ({"verdict": "reject"}, {"verdict": "edit", "arguments": {"amount": 2}}):
            with pytest.raises(InvalidAnswer, match="approved unchanged"):
                await app.answer(asked["task_id"], [{"index": 0, "always": "session", **verdict}])
        with pytest.raises(InvalidAnswer, match="always"):
            await app.answer(asked["task_id"], [{"index": 0, "verdict": "approve", "always": "for ever"}])
        assert await app.sessions.permissions() == []


async def test_what_the_model_chose_is_shown_before_what_it_left_to_the_tool(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    def refund(reason: str = "", *, order: int) -> str:
        """Pay money back."""
        return f"{order}{reason}"

    async with segue.open(tmp_path / "segue.db") as app:
        register(app, call_tool(("refund", {"order": 17})), tools=(refund,))
        asked = await app.ask("refund", session_id="s", agent="a")
        (call,) = asked["question"]["calls"]
        assert list(call["arguments"].items()) == [("order", 17), ("reason", "")]
