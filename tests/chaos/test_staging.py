import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import segue

from .staging import services
from .staging.sessions import AGENTS, CASES, FRAGILE, Case, record

FAILS = {"send_invoice"}
LATE = {"ship", "dispatch"}
READS = {"list_payments", "count_payments"}
KILLED = {"book_seat": {"not_idempotent"}, "transfer": {"invariant"}, "register": set()}

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
            (call,) = [event for event in await app.events(task.task_id) if event["type"] == "tool_result"]
            assert ("error" in call["data"]["result"]) == (case.tool in FAILS), (case, call)


def _found(case: Case, faults: str, folder: Path) -> dict[str, str]:
    """What a hunt finds: the faults by kind."""
    asyncio.run(record(folder / "segue.db", (case,)))
    words = f"chaos {case.tool} --agents {AGENTS} --world {case.worlds} --faults {faults} --yes --json"
    words += f" --output {folder}/runs --db {folder}/segue.db"
    ran = subprocess.run([sys.executable, "-m", "segue", *words.split()], capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    return {found["kind"]: found["fault"] for found in json.loads(ran.stdout)["findings"]}


@pytest.mark.parametrize("name", KILLED)
def test_a_kill_between_two_changes_of_the_world_is_tried(name: str, staging: Path) -> None:
    (case,) = [case for case in CASES if case.tool == name]
    assert _found(case, "kill", staging).keys() == KILLED[name]


@pytest.mark.parametrize("fault", FRAGILE)
def test_each_fault_finds_what_the_others_do_not(fault: str, staging: Path) -> None:
    case = FRAGILE[fault]
    assert _found(case, "kill,duplicate,workers,timeout,network,disk", staging) == {case.kind: fault}
