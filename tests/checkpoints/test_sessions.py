"""Sessions: their list, and the shares of one."""

import pytest

from segue.checkpoints.shares import Shares
from segue.checkpoints.tasks import Tasks
from segue.core.conversation import ConversationConfig
from segue.core.errors import DatabaseDamaged, UnknownThread
from segue.core.records import Session, SessionChanges, SessionFilter
from segue.testing.rehearsal.segue_bot import bot_session
from segue.testing.rehearsal.simulate import converse
from tests.fakes import answer

from .conftest import Clock, Store
from .test_tasks import create
from .worlds import World


async def names(here: World, **which: object) -> list[str]:
    found = await here.app.sessions.list(-1, SessionFilter(**which), pinned_first=True)  # type: ignore[arg-type]
    assert await here.app.sessions.count(SessionFilter(**which)) == len(found)  # type: ignore[arg-type]
    return [thread.session_id for thread in found]


async def test_sessions_are_filed_and_told_apart_by_who_began_them(here: World) -> None:
    here.register("a", [answer("Hi.")] * 3, "react")
    for name, origin in (("page", "page"), ("mcp", "mcp"), ("terminal", "terminal")):
        await here.run("hello", name, agent="a", origin=origin)
    assert await names(here, sender="people") == ["terminal", "page"]
    assert await names(here, sender="programs") == ["mcp"]
    await here.app.sessions.change("page", SessionChanges(pinned=True))
    await here.app.sessions.change("mcp", SessionChanges(archived=True))
    assert await names(here, archived=False) == ["page", "terminal"]
    assert await names(here, archived=True) == ["mcp"]
    assert await names(here) == ["page", "terminal", "mcp"]


async def test_the_session_of_a_bot_is_that_of_its_conversation_whatever_others_are_called(here: World) -> None:
    here.register("a", [answer("Hi.")] * 3, "react")
    await here.run("segue: say hello", "other", agent="a")
    await here.run("hello", "other.bot", agent="a")
    config = ConversationConfig(user_mode="scripted_user", script=["hello"], bot_mode="segue:react", bot_agent="a")
    await converse(here.app, config, conversation_id="talk")
    assert sorted(await names(here)) == ["other", "other.bot", "talk"]
    assert sorted(await names(here, bots=True)) == ["other", "other.bot", "talk", bot_session("talk")]
    conversation = await here.app.tasks.conversation_of("talk.bot")
    assert conversation is not None and conversation.session_id == "talk"
    assert await here.app.tasks.conversation_of("other.bot") is None
    document = await here.app.sessions.export("talk")
    await here.app.sessions.import_(document, "copy")
    imported = await here.app.tasks.newest("copy")
    assert imported is not None and imported.bot_session == "copy.bot"


async def test_pages_of_sessions_reach_each_once_also_those_of_one_moment(here: World) -> None:
    for name in "abcdef":
        await here.app.sessions.create(Session(name, created_at=1.0))
    here.register("a", [answer("Hi.")] * 2, "react")
    await here.run("hello", "used", agent="a")
    await here.app.sessions.change("b", SessionChanges(pinned=True))
    for pinned_first in (False, True):
        found, after = [], None
        while page := await here.app.sessions.list(2, pinned_first=pinned_first, after=after):
            found += page
            after = page[-1].pinned, page[-1].updated_at, page[-1].session_id
        assert [thread.session_id for thread in found] == (
            ["b", "used", "f", "e", "d", "c", "a"] if pinned_first else ["used", "f", "e", "d", "c", "b", "a"]
        )


# Links to threads, of each backend.


async def test_a_link_works_until_it_expires_or_is_revoked(store: Store, second: Store, clock: Clock) -> None:
    tasks, mine, others = Tasks(store, clock), Shares(store, clock), Shares(second, clock)
    with pytest.raises(UnknownThread):
        await mine.create("s", 60)
    await create(tasks, "t", thread_id="s")
    (short, first), (long, last) = await mine.create("s", 60), await mine.create("s", 120)
    assert [await others.find(token) for token in (short, long, "other")] == [first, last, None]
    assert await others.list("s") == [first, last] or await others.list("s") == [last, first]
    clock.now += 60
    assert (await others.find(short), await others.list("s")) == (None, [last])
    assert await others.revoke("other", last.share_id) == 0 and await others.find(long) == last
    assert await others.revoke("s") == 2 and await mine.find(long) is None


async def test_a_link_that_cannot_be_read_is_named(store: Store, clock: Clock) -> None:
    await create(Tasks(store, clock), "t", thread_id="s")
    shares = Shares(store, clock)
    token, _ = await shares.create("s", 60)
    await store.write(lambda connection: connection.execute("UPDATE shares SET created_at = -1"))
    _, other = await shares.create("s", 60)
    assert await shares.list("s") == [other]
    with pytest.raises(DatabaseDamaged, match="shared link, created_at should be"):
        await shares.find(token)
