import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import segue
from segue.testing.chaos.traps import FAULTS

from .staging import services
from .staging.sessions import AGENTS, CASES, FRAGILE, Case, record

FAILS = {"send_invoice"}
LATE = {"ship", "dispatch"}
READS = {"list_payments", "count_payments"}
KILLED = {("book_seat", "not_idempotent"): "kill-line", ("transfer", "invariant"): "kill-line"}
"""What a kill between two changes of the world shows."""
KILLED_TOOLS = {"book_seat", "transfer", "register"}

pytestmark = pytest.mark.slow


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with services.started() as addresses:
        for name, value in {**addresses, "STAGING": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        yield tmp_path


def _world(case: Case) -> object:
    from .staging import worlds

    return getattr(worlds, case.world)(case.tool).snapshot()


async def test_each_tool_runs_and_changes_its_world_unless_it_only_reads(
    staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [case for case in CASES if case.world != "Postgres"]
    for case in cases:
        monkeypatch.setenv("SEGUE_CHAOS_NAMESPACE", case.tool)
        before = _world(case)
        await record(staging / "segue.db", (case,))
        if case.tool not in LATE:
            assert (_world(case) == before) == (case.tool in READS), case
    async with segue.open(f"file:{staging / 'segue.db'}?mode=ro") as app:
        for case in cases:
            (task,) = await app.tasks.list(session_id=case.tool)
            (call,) = [event for event in await app.events(task.task_id) if event.type == "tool_result"]
            assert ("error" in call.data["result"]) == (case.tool in FAILS), (case, call)


def test_each_fault_finds_what_the_others_do_not(staging: Path) -> None:
    cases = [*FRAGILE.values(), *(case for case in CASES if case.tool in KILLED_TOOLS)]
    asyncio.run(record(staging / "segue.db", tuple(cases)))
    words = ["chaos", *(case.tool for case in cases), "--agents", str(AGENTS), "--yes", "--json"]
    words += ["--world", "tests.chaos.staging.worlds:Everything", "--db", f"{staging}/segue.db"]
    words += ["--output", f"{staging}/runs", "--faults", ",".join(name for name in FAULTS if name != "undo")]
    ran = subprocess.run([sys.executable, "-m", "segue", *words], capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    made = json.loads(ran.stdout)
    found = {(each["tool"], each["kind"]): each["fault"] for each in made["findings"]}
    expected = {(case.tool, case.kind): fault for fault, case in FRAGILE.items()} | KILLED
    halves = {(case.tool, kind) for case in cases for kind in case.also}
    assert {key: fault for key, fault in found.items() if key not in halves} == expected
    assert made["failed"] == {}
