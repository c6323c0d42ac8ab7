"""What users prefer, and what is remembered of the modes that answered them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from segue.checkpoints.habits import EndpointHabits
from segue.checkpoints.permissions import Permissions, grant
from segue.checkpoints.sessions import Preferences
from segue.core.approval import Grant, PermissionRule
from segue.core.errors import InvalidAnswer, UnknownTask
from segue.core.events import PermissionGranted
from segue.core.records import RatedAnswer, UserPreferences
from tests.cases import cases

from .conftest import Store, opened
from .damage import damage
from .worlds import World, note_the_turn, snapshots, world


@pytest.fixture
async def here(path: str) -> AsyncIterator[World]:
    async with world(path) as opened:
        yield opened


async def test_a_default_mode_is_kept_by_user_and_can_be_taken_back(store: Store, address: str) -> None:
    preferences = Preferences(store)
    assert await preferences.get("ana") == UserPreferences("", [])
    await preferences.put("ana", "plan")
    await preferences.put("ben", "direct")
    await preferences.put("ana", "react")
    async with await opened(address) as again:
        assert await Preferences(again).default_mode("ana") == "react"
        assert await Preferences(again).default_mode("ben") == "direct"
    await preferences.put("ana", "")
    assert await preferences.default_mode("ana") == ""


async def test_the_history_has_the_mode_that_answered_and_the_rating(here: World) -> None:
    preferences = Preferences(here.database)
    here.register("a", note_the_turn, "react")
    here.register(
        "b", lambda messages: "no plan" if "Write a plan" in str(messages) else note_the_turn(messages), "plan"
    )
    first = await here.run("turn 1", agent="a", user_id="ana", mode="auto")
    await here.run("turn 2", agent="b", user_id="ana", session_id="t")
    await here.run("turn 3", agent="a", user_id="ben", session_id="u")
    await preferences.rate(first, 2)
    await preferences.rate(first, 4)
    assert (await preferences.get("ana")).mode_history == [
        RatedAnswer("turn 2", "react", None),
        RatedAnswer("turn 1", "react", 4),
    ]
    assert [entry.query for entry in (await preferences.get("ana", limit=1)).mode_history] == ["turn 2"]


@cases("rating", [0, 6, -1, 2.5, "5", True, None])
async def test_a_rating_is_a_whole_number_from_1_to_5(here: World, rating: object) -> None:
    here.register("a", note_the_turn, "react")
    task_id = await here.run("turn 1", agent="a")
    with pytest.raises(InvalidAnswer):
        await Preferences(here.database).rate(task_id, rating)
    assert (await here.task(task_id)).rating is None


async def test_what_is_not_there_cannot_be_rated(store: Store) -> None:
    with pytest.raises(UnknownTask):
        await Preferences(store).rate("t1", 3)


async def test_what_cannot_be_read_is_left_out(here: World, path: str) -> None:
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    await here.run("turn 2", session_id="t", agent="a")
    for change in ("result = x'00'", "result = '{'", "rating = 'odd'", "message = CAST(x'ff41' AS TEXT)"):
        damage(Path(path), f"UPDATE tasks SET {change} WHERE thread_id = 't'")
        left = (await Preferences(here.database).get("default")).mode_history
        assert left == [RatedAnswer("turn 1", "react", None)]
        result = '{"mode": "react"}'
        damage(Path(path), f"UPDATE tasks SET result = '{result}', rating = NULL, message = 'x' WHERE thread_id = 't'")


async def test_copies_count_only_where_they_are_rated_themselves(here: World) -> None:
    preferences = Preferences(here.database)
    here.register("a", note_the_turn, "react")
    task_id = await here.run("turn 1", agent="a")
    await preferences.rate(task_id, 5)
    newest, *_ = await snapshots(here.database, "s")
    copied = await here.app.rewind.fork("s", newest["checkpoint_id"], session_id="f")
    assert copied.rating is None
    assert len((await preferences.get("default")).mode_history) == 1
    await preferences.rate(copied.task_id, 1)
    assert [entry.rating for entry in (await preferences.get("default")).mode_history] == [1, 5]
    document = await here.app.sessions.export("s")
    await here.app.sessions.import_(document, session_id="g")
    assert [entry.rating for entry in (await preferences.get("default")).mode_history] == [1, 5]


async def test_an_import_from_elsewhere_counts_for_the_user_that_it_is_given_to(here: World, tmp_path: Path) -> None:
    here.register("a", note_the_turn, "react")
    await Preferences(here.database).rate(await here.run("turn 1", agent="a", user_id="ana"), 5)
    await here.run("turn 2", agent="a", user_id="ana")
    document = await here.app.sessions.export("s")
    async with world(str(tmp_path / "elsewhere.db")) as elsewhere:
        await elsewhere.app.sessions.import_(document, session_id="t", user_id="ben")
        assert (await elsewhere.app.preferences("ana")).mode_history == []
        history = (await elsewhere.app.preferences("ben")).mode_history
        assert [entry.rating for entry in history] == [None, 5]


# Permissions, with the version of the tool that was permitted.


async def test_a_permission_has_the_version_that_was_permitted_last(store: Store) -> None:
    permissions = Permissions(store)
    for version in ("old", "new"):
        event = PermissionGranted(task_id="t", agent_id="a", tool="pay", scope="session", version=version).json()
        await store.write(lambda connection, event=event: grant(connection, "s", event))
        assert await permissions.in_task("s", "a", "t") == [Grant(PermissionRule("pay"), "session", version)]
    (listed,) = await permissions.list("s")
    assert listed.version == "new"
    assert "version" not in listed.json()


# What endpoints require of requests, as it is stored.


HERE, THERE = "http://127.0.0.1:8085/v1#qwen3", "https://example.com/v1#m"


async def test_habits_are_kept_by_endpoint_and_replaced(store: Store, address: str) -> None:
    habits = EndpointHabits(store)
    assert await habits.of(HERE) == []
    await habits.put(HERE, {"system_first", "one_system"})
    await habits.put(THERE, ["tool_names"])
    async with await opened(address) as again:
        assert await EndpointHabits(again).of(HERE) == ["one_system", "system_first"]
    await habits.put(HERE, [])
    assert await habits.of(HERE) == [] and await habits.of(THERE) == ["tool_names"]


async def test_a_row_that_cannot_be_read_is_none(store: Store) -> None:
    habits = EndpointHabits(store)
    await habits.put(HERE, ["system_first"])
    await store.write(lambda connection: connection.execute("UPDATE habits SET names = ?", ('{"a"',)))
    assert await habits.of(HERE) == []
