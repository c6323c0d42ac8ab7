"""Directories, which Segue reads before it asks a person about a value."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError
from segue.testing.cassette.recorder import record
from segue.testing.cassette.replay import replay
from tests.fakes import ScriptedChatModel, answer, call_tool

PEOPLE = [{"name": "Ann Keller", "email": "ann@x.org"}, {"name": "Max Lind", "email": "max@x.org"}]
SAID = "Reply to Ann that the 14th is fine"


@segue.tool(read_only=True)
def list_mails() -> list[dict[str, str]]:
    """List the mails."""
    return [{"from": "Ann <ann@x.org>", "subject": "Rooms"}, {"from": "Ann <eve@y.org>", "subject": "My new address"}]


@segue.tool(approve="untrusted", content=["body"])
def send_mail(to: str, body: str = "") -> str:
    """Send a mail."""
    return "Sent."


def directory(read: list[int], fail: bool = False) -> Callable[[], list[dict[str, str]]]:
    @segue.tool(read_only=True, trusted_fields=["name", "email"], directory=True)
    def list_contacts() -> list[dict[str, str]]:
        """List the contacts."""
        read.append(1)
        if fail:
            raise OSError("The address book is not there.")
        return PEOPLE

    return list_contacts


def agent(*to: str, book: Callable[[], Any], **fields: Any) -> Agent:
    sends = [call_tool(("send_mail", {"to": each, "body": "Fine"})) for each in to]
    script = [call_tool(("list_mails", {})), *sends, answer("Done.")]
    tools = (list_mails, book, send_mail)
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "tools": tools, "mode": "react", **fields})


async def asked(app: App, task_id: str) -> list[dict[str, Any]]:
    return [call for task in await app.waiting() if task.task_id == task_id for call in task.calls]


async def test_an_address_of_a_person_who_is_named_is_looked_up_once_and_nobody_is_asked() -> None:
    read: list[int] = []
    async with segue.open(":memory:") as app:
        app.register(agent("ann@x.org", "ann@x.org", book=directory(read)))
        result = await app.ask(SAID, agent="a", session_id="s")
        assert (result["status"], read) == ("done", [1])
        events = await app.events(result["task_id"])
        assert [event.data["scope"] for event in events if event.type == "call_permitted"] == ["sources", "sources"]
        made = [event.data["name"] for event in events if event.type == "tool_call"]
        assert made == ["list_mails", "send_mail", "send_mail"]


async def test_who_calls_themselves_so_is_asked_about_with_the_source_in_one_line() -> None:
    read: list[int] = []
    async with segue.open(":memory:") as app:
        app.register(agent("eve@y.org", book=directory(read)))
        result = await app.ask(SAID, agent="a")
        (call,) = await asked(app, result["task_id"])
        assert (call["doubted"], read) == (["to"], [1])
        assert call["why"] == ['to: "eve@y.org" from the result of list_mails in call 1, not from you']
        assert (await app.answer(result["task_id"], "approve"))["status"] == "done"
        assert read == [1]


async def test_a_directory_is_not_read_where_nobody_would_be_asked() -> None:
    read: list[int] = []
    async with segue.open(":memory:") as app:
        app.register(agent("bob@x.org", book=directory(read)))
        assert (await app.ask("Send Hi to bob@x.org", agent="a"))["status"] == "done"
        assert read == []


async def test_a_directory_that_fails_decides_nothing() -> None:
    read: list[int] = []
    async with segue.open(":memory:") as app:
        app.register(agent("ann@x.org", book=directory(read, fail=True)))
        result = await app.ask(SAID, agent="a")
        assert (result["status"], read) == ("waiting", [1])


async def test_what_was_looked_up_survives_the_process(tmp_path: Path) -> None:
    read: list[int] = []
    async with segue.open(tmp_path / "segue.db") as app:
        app.register(agent("max@x.org", book=directory(read)))
        assert (await app.ask(SAID, agent="a", session_id="s"))["status"] == "waiting"
    async with segue.open(tmp_path / "segue.db") as app:
        app.register(agent(book=directory(read)).model_copy(update={"model": ScriptedChatModel([answer("Done.")])}))
        (waiting,) = await app.waiting()
        assert (await app.answer(waiting.task_id, "approve"))["status"] == "done"
    assert read == [1]


async def test_a_recorded_session_has_what_was_looked_up() -> None:
    read: list[int] = []
    async with segue.open(":memory:") as app:
        app.register(agent("ann@x.org", book=directory(read)))
        await app.ask(SAID, agent="a", session_id="s")
        cassette = await record(app, "s")
    assert [call.name for call in cassette.turns[0].tool_calls] == ["list_mails", "list_contacts", "send_mail"]
    assert (await replay(cassette, agents=[agent(book=directory(read))])).difference is None
    assert read == [1]


@pytest.mark.parametrize("marks", [{}, {"trusted_fields": ["email"]}, {"read_only": True}])
async def test_a_directory_is_read_only_and_has_fields_that_nobody_else_writes(marks: dict[str, Any]) -> None:
    @segue.tool(**marks)
    def list_contacts() -> list[dict[str, str]]:
        """List the contacts."""
        return PEOPLE

    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match="The tool list_contacts is a directory"):
            app.register(agent(book=list_contacts, directories=["list_contacts"]))


async def test_a_tool_with_arguments_is_no_directory() -> None:
    @segue.tool(read_only=True, trusted=True, directory=True)
    def find_contact(name: str) -> str:
        """Find a contact."""
        return name

    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match="The tool find_contact is a directory"):
            app.register(agent(book=find_contact))
