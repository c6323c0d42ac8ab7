"""Sessions that are copied to another database: the same there, and as resumable."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import segue
from segue import App
from segue.core.errors import DatabaseUnavailable
from segue.core.records import Json, SessionChanges
from segue.runtime.sessions import Progress

from .worlds import World, look_in_a_batch, note_the_turn, note_up_to, payments, world


@pytest.fixture
async def here(path: str) -> AsyncIterator[World]:
    async with world(path) as opened:
        yield opened


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where sessions are copied to."""
    return str(request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path / "there.db")


async def whole(app: App, session_id: str) -> Json:
    """What a person sees of a session."""
    tasks = await app.tasks.list(session_id=session_id, limit=-1)
    return {
        "history": await app.history(session_id),
        "snapshots": await app.sessions.snapshots(session_id, limit=1000),
        "tasks": tasks,
        "traces": [await app.trace(task.task_id) for task in tasks],
    }


async def test_sessions_are_the_same_there_and_back(here: World, path: str, there: str, tmp_path: Path) -> None:
    here.register("a", note_the_turn, "react")
    first = await here.run("turn 1 " + "x" * 5000, agent="a")
    await here.run("turn 2", agent="a")
    await here.app.sessions.rate(first, 4)
    await here.app.sessions.change("s", SessionChanges(title="A title", pinned=True))
    await here.app.sessions.shares.create("s", 0)
    token, link = await here.app.sessions.shares.create("s", 60)
    (_, _, middle, *_) = await here.app.sessions.snapshots("s")
    await here.app.rewind.fork("s", middle.checkpoint_id, session_id="f")
    before = {name: await whole(here.app, name) for name in ("s", "f")}
    copies = await segue.copy(path, there)
    assert (copies.copied, copies.present, copies.refused) == (["s", "f"], [], {})
    back = str(tmp_path / "back.db")
    await segue.copy(there, back, ["s"])
    await segue.copy(there, back)
    for address in (there, back):
        async with world(address) as elsewhere:
            assert {name: await whole(elsewhere.app, name) for name in ("s", "f")} == before
            (_, copied) = await elsewhere.app.sessions.list()
            assert (copied.title, copied.pinned) == ("A title", True)
            assert await elsewhere.app.sessions.shares.find(token) == link
            assert [hit.session_id for hit in await elsewhere.app.sessions.search("turn 2")] == ["f", "s"]
            elsewhere.register("a", note_the_turn, "react")
            assert (await elsewhere.app.ask("turn 3", session_id="s", agent="a"))["answer"] == "done 3"
            assert len(await elsewhere.app.history("s")) == 12
            assert (await elsewhere.app.sessions.prune(2)).snapshots > 0
            assert len(await elsewhere.app.history("s")) == 12


async def test_a_paused_task_goes_on_there_and_no_call_is_made_again(here: World, path: str, there: str) -> None:
    here.register("a", look_in_a_batch(3), "react")
    task_id = await here.stop_in_the_last(3, "look", agent="a")
    assert sorted(here.noted) == [1, 2]
    await segue.copy(path, there)
    async with world(there) as elsewhere:
        elsewhere.register("a", look_in_a_batch(3), "react")
        assert (await elsewhere.app.resume(task_id))["answer"] == "seen 1,2,3"
        assert elsewhere.noted == [3]


async def test_a_question_is_answered_there(here: World, path: str, there: str) -> None:
    payments(here)
    task_id = await here.run("pay 5", agent="a")
    await segue.copy(path, there)
    async with world(there) as elsewhere:
        paid = payments(elsewhere)
        assert (await elsewhere.app.answer(task_id, "approve"))["answer"] == "it is paid"
        assert paid == [5]


async def test_an_interrupted_copy_is_repeated(here: World, path: str, there: str) -> None:
    here.register("a", note_the_turn, "react")
    for session in ("s", "t", "u"):
        await here.run("turn 1", session_id=session, agent="a")

    def interrupt(progress: Progress) -> None:
        if progress.place == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await segue.copy(path, there, on_progress=interrupt)
    copies = await segue.copy(path, there)
    assert (copies.copied, copies.present) == (["u"], ["s", "t"])


async def test_a_running_or_another_session_is_not_copied(here: World, path: str, there: str) -> None:
    here.register("a", note_up_to(2), "react")
    stuck, go_on = asyncio.Event(), asyncio.Event()

    async def hang(number: int) -> None:
        stuck.set()
        await go_on.wait()

    here.hook = hang
    running = asyncio.create_task(here.run("note", agent="a"))
    await stuck.wait()
    assert "busy" in (await segue.copy(path, there)).refused["s"]
    go_on.set()
    await running
    async with world(there) as elsewhere:
        elsewhere.register("a", note_the_turn, "react")
        await elsewhere.run("turn 1", agent="a")
        before = await whole(elsewhere.app, "s")
        assert "another session 's'" in (await segue.copy(path, there)).refused["s"]
        assert await whole(elsewhere.app, "s") == before


async def test_what_cannot_be_a_copy_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="to itself"):
        await segue.copy(path, path)
    with pytest.raises(DatabaseUnavailable, match="to copy from"):
        await segue.copy(tmp_path / "missing.db", path)
    assert not os.listdir(tmp_path)
