"""A recovery whose process dies half-way."""

from pathlib import Path

from langchain_core.runnables import RunnableConfig

from segue.checkpoints.sqlite.repair.recover import recover
from segue.runtime.thread_state import state_at

from .test_recovery import ANSWER, OUTER, Work, garble, rows


async def test_a_recovery_that_is_cut_off_loses_nothing_of_the_last_turn(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    for kind, value in rows(path, OUTER)[:2]:
        garble(path, kind, value)
    async with work.opened(path) as app, app._runner.leased("s"):

        async def readable(config: RunnableConfig) -> None:
            await state_at(app._runner.graph, config)

        back = await recover(app._storage.database, app._runner.saver, readable, "s")  # the process dies right after it
        assert back.dropped == 2
    async with work.opened(path) as app:
        await app.recover("s")
        assert ANSWER in [said["content"] for said in await app.history("s")]
        await app.ask("and again", session_id="s", agent="a")
        assert ANSWER in [said["content"] for said in await app.history("s")][:-1]
