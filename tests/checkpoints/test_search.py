"""Search in messages and answers, in both databases: what is found, and that the index has what the tasks say."""

import json
from pathlib import Path

import pytest

from segue.core.conversation import ConversationConfig
from segue.testing.rehearsal.simulate import converse
from tests.fakes import answer, call_tool

from .worlds import World, world


async def found(here: World, text: str, **options: object) -> list[str]:
    return [hit.session_id for hit in await here.app.sessions.search(text, **options)]  # type: ignore[arg-type]


async def test_words_are_found_by_their_beginnings_and_chinese_by_any_part(here: World) -> None:
    here.register(
        "a", [answer("Order A-17 was **refunded**."), answer("好的，退款单已经提交。"), answer("Wir grüßen.")], "react"
    )
    await here.run("Where is my parcel?", "en", agent="a")
    await here.run("我要退货", "zh", agent="a")
    await here.run("Hallo", "de", agent="a")
    for text in ("refund", "PARCEL", "order refunded", "a-17", "Order A-1"):
        assert await found(here, text) == ["en"], text
    for text in ("退款", "款单", "退款单已", "货", "退货 提交"):
        assert await found(here, text) == ["zh"], text
    assert await found(here, "退") == ["zh"]
    assert await found(here, "GRÜSS") == [] and await found(here, "grü") == ["de"]
    for text in ("efunded", "单款", "退款 parcel", "nothing", "!?", "%", "' OR 1"):
        assert await found(here, text) == [], text
    (hit,) = await here.app.sessions.search("退款")
    assert (hit.role, hit.snippet, hit.title) == ("assistant", "好的，退款单已经提交。", "我要退货")
    assert await found(here, "退款", session_id="en") == []


async def test_pages_lead_through_all_hits(here: World) -> None:
    here.register("a", [answer(f"apple {n}") for n in range(5)], "react")
    for n in range(5):
        await here.run(f"message {n}", f"s{n}", agent="a")
    page = await here.app.sessions.search("apple", limit=2)
    assert [hit.session_id for hit in page] == ["s4", "s3"]
    assert await found(here, "apple", limit=9, before=page[-1].task_id) == ["s2", "s1", "s0"]
    assert await found(here, "apple", prefix="s1") == ["s1"]


@pytest.mark.slow
async def test_a_long_query_is_compared_in_whole(here: World) -> None:
    words = " ".join(f"word{n}" for n in range(2000))
    here.register("a", [answer("plums")] * 2, "react")
    await here.run(words, "s", agent="a")
    await here.run(f"{words} and more", "t", agent="a")
    assert await found(here, words) == ["t", "s"]
    assert await found(here, f"{words} more") == ["t"]


async def test_the_index_follows_forks_imports_branches_notes_and_deletion(here: World) -> None:
    script = [call_tool(("note", {"number": 1})), answer("plums"), answer("cherries")]
    here.register("a", script, "react")
    task_id = await here.run_to(1, "apples", agent="a")
    (paused,) = await here.app.sessions.snapshots("s", limit=1)
    row = await here.app.start("and pears", session_id="s", agent="a", steer=True)
    assert row.task_id == task_id
    async for _ in here.app.follow(task_id):
        pass
    for text in ("apples", "pears", "plums"):
        assert await found(here, text) == ["s"]
    await here.app.sessions.fork("s", paused.checkpoint_id, "fork")
    document = json.loads(json.dumps(await here.app.sessions.export("s")))
    await here.app.sessions.import_(document, "copy")
    branch = await here.app.rewind.branch(task_id, "branch", "oranges")
    async for _ in here.app.follow(branch.task_id):
        pass
    assert await found(here, "oranges") == ["branch"]
    assert await here.app.sessions.unindexed() == []
    assert set(await found(here, "apples")) == {"s", "fork"}, "a task that can be resumed is no copy"
    await here.app.cancel((await here.app.tasks.list(session_id="fork"))[0].task_id)
    await here.app.sessions.delete("s")
    assert await found(here, "plums") == ["copy"]
    for name in ("fork", "copy"):
        await here.app.sessions.delete(name)
    assert await found(here, "apples") == await found(here, "plums") == []
    assert await here.database.read(lambda db: db.fetched("SELECT * FROM search_terms")) == []


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM search_terms WHERE term = 'apples'",
        "UPDATE search_terms SET term = 'applet' WHERE term = 'apples'",
    ],
)
async def test_a_damaged_index_makes_no_hit_and_is_made_again(here: World, change: str) -> None:
    here.register("a", [answer("plums")], "react")
    await here.run("apples", agent="a")
    await here.database.write(lambda db: db.execute(change).rowcount)
    assert await found(here, "apples") == await found(here, "applet") == []
    assert await here.app.sessions.unindexed() == ["s"]
    await here.app.sessions.index()
    assert (await found(here, "apples"), await here.app.sessions.unindexed()) == (["s"], [])


@pytest.mark.parametrize("term", ["x'6162'", "CAST(x'ff61' AS TEXT)", "17"])
async def test_a_word_that_is_no_text_any_more_is_reported(tmp_path: Path, term: str) -> None:
    async with world(str(tmp_path / "segue.db")) as here:
        here.register("a", [answer("plums")], "react")
        await here.run("apples", agent="a")
        await here.database.write(
            lambda db: db.execute(f"UPDATE search_terms SET term = {term} WHERE term = 'apples'").rowcount
        )
        assert "s" in await here.app.sessions.unindexed()
        await here.app.sessions.index()
        assert (await found(here, "apples"), await here.app.sessions.unindexed()) == (["s"], [])


async def test_what_a_bot_was_told_is_found_in_its_conversation(here: World) -> None:
    here.register("a", [answer("It is 391.")], "react")
    config = ConversationConfig(user_mode="scripted_user", script=["17 * 23?"], bot_mode="segue:react", bot_agent="a")
    await converse(here.app, config, conversation_id="talk")
    assert {*await found(here, "391")} == {"talk"}
    assert await found(here, "scripted_user") == []
