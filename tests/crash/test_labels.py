"""What values came from is never forgotten: over 100 kills, 100 forks, and an import, which is not believed."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segue

from . import labels
from .harness import Harness

KILLS = 100
FORKS = 100

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("labels")) as opened:
        yield opened


def test_no_label_is_lost_over_100_kills(harness: Harness) -> None:
    calm = _played(harness)
    assert [call["reason"] for call in calm["asked"]] == ["secret"]
    assert [name for name, sources, *_ in calm["labels"] if sources] == ["contacts"]
    assert [name for name, _, secret, *_ in calm["labels"] if secret] == ["read_vault", "fetch"]
    assert [name for name, _, _, hidden, _ in calm["labels"] if hidden] == ["read_note", "keep"]
    assert ["keep", f"kept {labels.NOTE}"] in [[name, value] for name, *_, value in calm["labels"]]
    writes = [1 + place * calm["writes"] // KILLS for place in range(KILLS)]
    assert len({*writes}) == KILLS
    ends = harness.each(lambda write: _played(harness, write), writes)
    wanted = calm | {"writes": 0}
    assert [write for write, end in zip(writes, ends, strict=True) if end | {"writes": 0} != wanted] == []


def _played(harness: Harness, write: int = 0) -> Any:
    """What the labels are at the end, after a kill at a write, or after none.

    How many transactions are committed together varies: a run that ends before the write is repeated, with a kill one
    write earlier.
    """
    folder = harness.new_folder("labels")
    orders = {"labels": True, "folder": str(folder)}
    with harness.zygote() as zygote:
        while write and (status := zygote.run(orders | {"at": {f"write:{write}": "kill"}})) != -signal.SIGKILL:
            assert status == 0, (folder / "log.txt").read_text(encoding="utf-8")
            shutil.rmtree(folder)
            folder.mkdir()
            write -= 1
        assert zygote.run(orders) == 0, (folder / "log.txt").read_text(encoding="utf-8")
    found = labels.read(folder)
    shutil.rmtree(folder)
    return found


async def test_no_label_is_lost_over_100_forks_and_those_of_an_import_are_not_believed(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[labels.agent()]) as app:
        asked = await labels.work(app)
        whole = await labels.labels_in(app, labels.SESSION)
        places = [each.checkpoint_id for each in await app.sessions.snapshots(labels.SESSION)]
        lost = []
        for number in range(FORKS):
            await app.rewind.fork(labels.SESSION, places[number % len(places)], session_id=f"fork{number}")
            found = await labels.labels_in(app, f"fork{number}")
            lost += [] if found == whole[: len(found)] else [number]
        assert (len(places) > 5, lost) == (True, [])
        newest = await app.rewind.fork(
            labels.SESSION, places[2], session_id="again"
        )  # it decides about the last call itself
        await app.resume(newest.task_id)
        waiting = next(task for task in await app.waiting() if task.task_id == newest.task_id)
        assert [waiting.calls[0][name] for name in ("reason", "sources")] == [
            asked[0]["reason"],
            asked[0]["sources"],
        ]
        await app.sessions.import_(await app.sessions.export(labels.SESSION), session_id="import")
        imported = await labels.labels_in(app, "import")
        assert [sources for _, sources, *_ in imported] == [None] * len(imported)
        assert [each[2:] for each in imported] == [each[2:] for each in whole]
