"""Damaged state on PostgreSQL: noticed when it is read, and recovered from."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from segue.core.errors import DamagedCheckpoint

from .worlds import World, note_the_turn, world

NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = ''"
OF_NEWEST = f"""
    (channel, version) IN (
        SELECT key, value FROM checkpoints, jsonb_each_text(checkpoint -> 'channel_versions')
        WHERE checkpoint_id = ({NEWEST})
    ) AND channel = 'result'
"""
DAMAGES = {
    "a value is missing": f"DELETE FROM checkpoint_blobs WHERE {OF_NEWEST}",
    "a value has changed": f"UPDATE checkpoint_blobs SET blob = '\\x00'::bytea WHERE {OF_NEWEST}",
    "its parent is missing": f"""DELETE FROM checkpoints WHERE checkpoint_id = (
        SELECT parent_checkpoint_id FROM checkpoints WHERE checkpoint_id = ({NEWEST})
    )""",
    "its key has changed": f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = ({NEWEST})",
}


@pytest.fixture
async def here(postgres_url: str) -> AsyncIterator[World]:
    async with world(postgres_url) as opened:
        yield opened


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_damage_is_noticed_and_the_session_goes_on(here: World, postgres_url: str, damage: str) -> None:
    here.register("a", note_the_turn, "react")
    for turn in (1, 2):
        await here.run(f"turn {turn}", agent="a")
    with psycopg.connect(postgres_url, options="-c search_path=segue") as connection:
        assert connection.execute(damage.encode()).rowcount == 1
    with pytest.raises(DamagedCheckpoint):
        await here.app.history("s")
    assert (await here.app.sessions.recover("s")).dropped > 0
    here.effects.clear()
    for task in await here.app.tasks.list(session_id="s", limit=1):
        if task.status == "paused":
            await here.app.resume(task.task_id)
    assert here.noted == []
    assert (await here.app.ask("turn 3", session_id="s", agent="a"))["answer"] == "done 3"
