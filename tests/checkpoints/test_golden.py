"""Databases that earlier releases wrote: they open, read the same, and their tasks go on."""

import gzip
from pathlib import Path
from typing import Any

import pytest

import segue
from tests.fakes import answer

from .golden.agents import Tools

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.db.gz"))
SINCE_SCHEMA_3 = [path for path in GOLDEN if path.name != "0.1.0.db.gz"]
"""Those that also hold a task of plan mode and one of the native protocol."""


@pytest.fixture(params=GOLDEN, ids=lambda path: path.name)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture(params=SINCE_SCHEMA_3, ids=lambda path: path.name)
def newer_database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


def unpacked(packed: Path, folder: Path) -> Path:
    path = folder / "segue.db"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


async def newest(app: segue.App, session: str) -> str:
    (task, *_) = await app.tasks(session_id=session)
    return str(task["task_id"])


async def result_of(app: segue.App, task_id: str) -> dict[str, Any]:
    async for _ in app.follow(task_id):
        pass
    return dict((await app.task(task_id))["result"])


async def test_a_finished_session_reads_the_same_and_goes_on(database: Path) -> None:
    async with segue.open(database, agents=[Tools().agent(answer("Still 42."))]) as app:
        history = await app.history("finished")
        assert [message["role"] for message in history] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
        ]
        assert [message["content"] for message in history if message["role"] == "user"] == ["Double 21.", "Again?"]
        first = (await app.tasks(session_id="finished"))[-1]
        assert [call["outcome"] for call in (await app.trace(first["task_id"]))["calls"]] == [
            {"success": {"doubled": 42}}
        ]
        result = await app.ask("Once more?", session_id="finished", agent="golden")
        assert result["answer"] == "Still 42."


async def test_a_paused_task_goes_on_without_repeating_its_call(database: Path) -> None:
    tools = Tools()
    async with segue.open(database, agents=[tools.agent(answer("14"))]) as app:
        task_id = await newest(app, "paused")
        await app.resume(task_id)
        assert (await result_of(app, task_id))["answer"] == "14"
        assert tools.effects == []


@pytest.mark.parametrize(("session", "protocol"), [("native", "native"), ("planned", "json")])
async def test_a_batch_and_a_plan_go_on_in_the_middle(newer_database: Path, session: str, protocol: str) -> None:
    tools = Tools()
    async with segue.open(newer_database, agents=[tools.agent("14", protocol=protocol)]) as app:
        task_id = await newest(app, session)
        await app.resume(task_id)
        assert (await result_of(app, task_id))["answer"] == "14"
        assert tools.effects == ["double"]


async def test_a_waiting_task_runs_its_call_once_when_approved(database: Path) -> None:
    tools = Tools()
    async with segue.open(database, agents=[tools.agent(answer("Done."))]) as app:
        task_id = await newest(app, "waiting")
        await app.answer(task_id, "approve")
        assert (await result_of(app, task_id))["answer"] == "Done."
        assert tools.effects == ["refund 17"]


async def test_an_interrupted_call_is_reported_as_unknown(database: Path) -> None:
    tools = Tools()
    async with segue.open(database, agents=[tools.agent(answer("I do not know."))]) as app:
        task_id = await newest(app, "interrupted")
        await app.resume(task_id)
        result = await result_of(app, task_id)
        assert [call["name"] for call in result["unknown_outcomes"]] == ["deposit"]
        assert tools.effects == []


async def test_every_session_can_be_exported_and_forked(database: Path) -> None:
    async with segue.open(database, agents=[Tools().agent()]) as app:
        for session in ("finished", "paused", "waiting", "interrupted"):
            (snapshot, *_) = await app.snapshots(session)
            await app.fork(session, snapshot["checkpoint_id"], session_id=f"fork-of-{session}")
            await app.import_(await app.export(session), session_id=f"copy-of-{session}")
            assert await app.history(f"fork-of-{session}") == await app.history(session)
