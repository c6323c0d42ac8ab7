"""Calls that need a role, two persons, or somebody else than the one who asked."""

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent, ApprovalSettings, acting, tool
from segue.app import App
from segue.core.agents import load_agents
from segue.core.errors import ConfigurationError, InvalidAnswer, NotAnApprover, QuestionClosed
from tests.fakes import ScriptedChatModel, answer, call_tool

paid: list[int] = []


def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


def payer(*tools: Any, calls: Any = (("pay", {"amount": 5}),), asks: bool = True, **fields: Any) -> Agent:
    model = ScriptedChatModel([*([call_tool(*calls)] if asks else []), answer("Paid.")])
    return Agent(agent_id="a", model=model, tools=tools, mode="react", **fields)


def opened(database: Path, asks: bool = True, **marks: Any) -> Any:
    return segue.open(database, agents=[payer(tool(**marks)(pay), asks=asks)], audit=True)


async def asked_for(app: App, by: str = "max", **options: Any) -> str:
    with acting(by):
        result = await app.ask("pay", session_id="s", agent="a", **options)
    assert (result["status"], paid) == ("waiting", [])
    return str(result["task_id"])


async def decide(app: App, task_id: str, by: str, said: Any = "approve", roles: Any = (), **options: Any) -> Any:
    with acting(by, roles):
        return await app.answer(task_id, said, **options)


async def given_in(app: App, task_id: str) -> list[Any]:
    """The verdicts of each event of a task that says what was decided."""
    return [event.data["verdicts"] for event in await app.events(task_id) if event.type == "approval_given"]


@contextmanager
def nothing_changes(match: str) -> Iterator[None]:
    with pytest.raises(NotAnApprover, match=match):
        yield
    assert paid == []


async def test_a_tool_with_approvers_waits_for_somebody_with_one_of_the_roles(database: Path) -> None:
    async with opened(database, approvers=("finance", "board")) as app:
        task_id = await asked_for(app)
        before = await app.task(task_id)
        for said in ("approve", "reject", {"verdicts": [{"index": 0, "verdict": "edit", "arguments": {"amount": 1}}]}):
            with nothing_changes("needs the role finance or board, which eve does not have"):
                await decide(app, task_id, "eve", said, ["ops"])
        assert await app.task(task_id) == before
        with acting("eve", ["ops"]):
            (waiting,) = await app.waiting()
            assert "finance or board" in waiting.calls[0]["refused"]
        with acting("ann", ["board"]):
            (waiting,) = await app.waiting()
            assert "refused" not in waiting.calls[0]
        assert (await decide(app, task_id, "ann", roles=["board"]))["status"] == "done"
        assert paid == [5]


async def test_a_program_and_who_owns_the_database_have_every_role(database: Path) -> None:
    async with opened(database, approvers=("finance",)) as app:
        assert (await app.answer(await asked_for(app), "approve"))["status"] == "done"


async def test_the_agents_file_names_approvers_and_its_settings_are_the_default(database: Path) -> None:
    calls = (("pay", {"amount": 5}), ("note", {"text": "x"}))

    @tool(needs_approval=True)
    def note(text: str) -> str:
        """Note a text."""
        return text

    agent = payer(pay, note, calls=calls, approvers={"pay": ["finance"]})
    async with segue.open(database, agents=[agent], approvals=ApprovalSettings(approvers=["ops"])) as app:
        task_id = await asked_for(app)
        asked = (await app.question(task_id))["calls"]
        assert [call["approvers"] for call in asked] == [["finance"], ["ops"]]
        result = await decide(app, task_id, "ann", roles=["finance"])  # of the two calls she decides about hers
        assert (result["status"], paid) == ("waiting", [])
        assert [call["name"] for call in result["question"]["calls"]] == ["note"]
        assert (await decide(app, task_id, "olaf", roles=["ops"]))["status"] == "done"
        assert paid == [5]


def test_the_agents_file_is_read(tmp_path: Path) -> None:
    text = """
        [[agent]]
        agent_id = "a"
        tools = ["travel"]
        approvers = {search_cities = ["finance"]}
        approvals = {search_cities = 2}
        not_by_asker = ["search_cities"]
    """
    (tmp_path / "agents.toml").write_text(text)
    (agent,) = load_agents(tmp_path / "agents.toml")
    from segue.registry import Registry

    terms = Registry([agent]).tools_for(agent)["search_cities"].terms
    assert (terms.approvers, terms.approvals, terms.not_by_asker) == (("finance",), 2, True)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"approvers": {"play": ["ops"]}}, "no tool play"),
        ({"approvers": {"pay": ["o p"]}}, "The role 'o p'"),
        ({"approvals": {"pay": 0}}, "approvals are 0"),
        ({"approve": {"pay": "never"}, "not_by_asker": ["pay"]}, "never"),
    ],
)
async def test_what_cannot_be_meant_is_refused_at_the_start(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        async with segue.open(":memory:", agents=[payer(pay, **fields)]):
            pass


async def test_two_persons_approve_and_the_first_approval_is_kept(database: Path) -> None:
    async with opened(database, approvals=2) as app:
        task_id = await asked_for(app)
        first = await app.question(task_id)
        result = await decide(app, task_id, "key:ann@acme")
        assert (result["status"], paid) == ("waiting", [])
    async with opened(database, asks=False, approvals=2) as app:  # another process
        (waiting,) = await app.waiting()
        assert waiting.problem == "Approved by ann; one more person must approve."
        for again in ("key:ann@acme", "terminal:ann", "ann"):
            with nothing_changes("already approved by"):
                await decide(app, task_id, again)
        with pytest.raises(QuestionClosed):  # what was shown before says nothing of her approval
            await decide(app, task_id, "bob", interrupt_id=first["interrupt_id"])
        assert (await decide(app, task_id, "bob", interrupt_id=waiting.interrupt_id))["status"] == "done"
        assert paid == [5]
        (given,) = await given_in(app, task_id)
        by = given[0]["by"]
        assert [each["by"] for each in by] == ["key:ann@acme", "bob"]
        assert by[0]["at"] <= by[1]["at"] and by[0]["shown"] != by[1]["shown"]
        acts = [each for each in await app.audit.list() if each.action == "approved"]
        assert [(each.actor, each.details["shown"]) for each in reversed(acts)] == [
            (each["by"], each["shown"]) for each in by
        ]
        assert (await app.audit.verify()).ok


async def test_anybodys_rejection_counts_also_of_who_approved(database: Path) -> None:
    async with opened(database, approvals=2) as app:
        task_id = await asked_for(app)
        await decide(app, task_id, "ann")
        no = {"verdicts": [{"index": 0, "verdict": "reject", "reason": "too dear"}]}
        assert (await decide(app, task_id, "ann", no))["status"] == "done"
        assert paid == []


async def test_an_edited_call_needs_the_other_persons_approval_of_what_was_edited(database: Path) -> None:
    edit = {"verdicts": [{"index": 0, "verdict": "edit", "arguments": {"amount": 7}}]}
    async with opened(database, approvals=2) as app:
        task_id = await asked_for(app)
        await decide(app, task_id, "ann")
        (call,) = (await decide(app, task_id, "bob", edit))["question"]["calls"]
        assert (call["arguments"], call["original"]) == ({"amount": 7}, {"amount": 5})
        with nothing_changes("already approved by bob"):
            await decide(app, task_id, "bob")
        assert (await decide(app, task_id, "ann"))["status"] == "done"
        assert paid == [7]


@pytest.mark.parametrize("marks", [{"approvals": 2}, {"not_by_asker": True}])
async def test_a_tool_whose_calls_each_need_an_approval_cannot_be_allowed_always(
    database: Path, marks: dict[str, Any]
) -> None:
    always = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
    async with opened(database, **marks) as app:
        task_id = await asked_for(app)
        with pytest.raises(InvalidAnswer, match="cannot be always allowed"):
            await decide(app, task_id, "ann", always)


async def test_who_asked_cannot_approve_whichever_way_they_asked(database: Path) -> None:
    async with opened(database, not_by_asker=True) as app:
        task_id = await asked_for(app, "key:max@acme", user_id="acme:uma")
        for asker in ("key:max@acme", "terminal:max", "key:uma@acme"):
            with nothing_changes("requested by"):
                await decide(app, task_id, asker)
        with acting("fred"):
            newest = (await app.sessions.snapshots("s"))[0].checkpoint_id
            await app.rewind.fork("s", newest, session_id="f")
            await app.sessions.import_(await app.sessions.export("s"), session_id="i")
        for copy in ("f", "i"):
            (task,) = [each for each in await app.waiting() if each.session_id == copy]
            with nothing_changes("requested by fred"):
                await decide(app, task.task_id, "fred")
            with nothing_changes("requested by uma"):
                await decide(app, task.task_id, "key:uma@acme")
            if copy == "f":  # a document does not say whose keys a service has
                with nothing_changes("requested by max"):
                    await decide(app, task.task_id, "key:max@acme")
        assert (await decide(app, task_id, "ann"))["status"] == "done"


async def test_a_fork_and_an_import_begin_with_no_approval(database: Path) -> None:
    async with opened(database, approvals=2) as app:
        task_id = await asked_for(app)
        await decide(app, task_id, "ann")
        newest = (await app.sessions.snapshots("s"))[0].checkpoint_id
        await app.rewind.fork("s", newest, session_id="f")
        await app.sessions.import_(await app.sessions.export("s"), session_id="i")
        for copy in ("f", "i"):
            (task,) = [each for each in await app.waiting() if each.session_id == copy]
            assert task.problem == "" and "approved_by" not in task.calls[0]
            await decide(app, task.task_id, "bob")
        assert paid == []


async def test_who_decided_is_kept_by_fork_and_import(database: Path) -> None:
    async with opened(database, approvers=("finance",)) as app:
        task_id = await asked_for(app)
        await decide(app, task_id, "ann", roles=["finance"])
        newest = (await app.sessions.snapshots("s"))[0].checkpoint_id
        await app.rewind.fork("s", newest, session_id="f")
        await app.sessions.import_(await app.sessions.export("s"), session_id="i")
        for session in ("s", "f", "i"):
            (task,) = await app.tasks.list(session_id=session)
            (given,) = await given_in(app, task.task_id)
            assert [each["by"] for each in given[0]["by"]] == ["ann"]


async def test_a_document_cannot_say_that_no_role_is_needed(database: Path) -> None:
    async with opened(database, approvers=("finance",), approvals=2) as app:
        await asked_for(app)
        document = await app.sessions.export("s")
        forged = [_without_terms(part["value"]) for part in document["state"]["writes"]]
        assert sum(forged) >= 1
        await app.sessions.import_(document, session_id="i")
        (task,) = [each for each in await app.waiting() if each.session_id == "i"]
        assert "approvers" not in task.calls[0]
        result = await decide(app, task.task_id, "eve")  # she answered another question than the tool asks
        assert (result["status"], paid) == ("waiting", [])
        assert "has changed since you were asked" in result["question"]["problem"]
        with nothing_changes("needs the role finance"):
            await decide(app, task.task_id, "eve")
        assert (await decide(app, task.task_id, "ann", roles=["finance"]))["status"] == "waiting"
        assert paid == []


def _without_terms(blob: dict[str, Any]) -> bool:
    """Rename who approves in the bytes of a stored value; returns whether it was there."""
    data = base64.b64decode(blob["data"])
    forged = data.replace(b"approvers", b"approverz").replace(b"approvals", b"approvalz")
    blob |= {"data": base64.b64encode(forged).decode(), "crc32": zlib.crc32(forged)}
    return forged != data
