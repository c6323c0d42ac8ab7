"""Chaos runs over recorded scenarios, the shipped workflows, and the staging system."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import segue
from segue import Agent, tool
from segue.core.errors import ConfigurationError
from segue.testing.chaos.traps import FAULTS
from segue.testing.chaos.world import record_scenarios

from .staging import services
from .staging.sessions import AGENTS, CASES, FRAGILE, MORE, Case, record

CALLED = ["find_booking", "verify_passenger", "search_flights", "quote_change", "change_booking"]
SCENARIO = "travel_change:change_without_fee"


def _tool(name: str) -> object:
    def call(reference: str) -> str:
        """Do something about a booking."""
        raise AssertionError("no tool runs while a scenario is recorded")

    call.__name__ = name
    return tool(call)


def _agent(names: list[str], protocol: str) -> Agent:
    return Agent(agent_id="desk", tools=[_tool(name) for name in names], protocol=protocol, prompt="You help.")


@pytest.mark.parametrize("protocol", ["json", "native"])
async def test_a_scenario_becomes_a_session_whose_model_makes_the_calls_of_the_script(protocol: str) -> None:
    async with segue.open(":memory:", agents=[_agent(CALLED, protocol)]) as app:
        recorded = await record_scenarios(app, SCENARIO, 0)
        assert recorded == await record_scenarios(app, SCENARIO, 0)
    (turns,) = [cassette.turns for cassette in recorded.values()]
    assert [call.name for turn in turns for call in turn.tool_calls] == CALLED
    replies = [call.reply for turn in turns for call in turn.model_calls]
    made = [
        called
        for reply in replies
        for called in (
            [call.name for call in reply.tool_calls]
            if protocol == "native"
            else [call["name"] for call in json.loads(reply.text)["action"]["result"]["output"].get("tool_calls", ())]
        )
    ]
    assert made == CALLED
    assert {turn.agent for turn in turns} == {"desk"}


async def test_an_agent_without_the_tools_of_a_workflow_is_refused() -> None:
    async with segue.open(":memory:", agents=[_agent(CALLED[:-1], "json")]) as app:
        with pytest.raises(ConfigurationError, match="missing: change_booking"):
            await record_scenarios(app, SCENARIO, 0)


# The shipped workflows.

WORKFLOWS = Path(__file__).parent / "staging" / "workflows.toml"
SCENARIOS = {
    "travel_change:change_without_fee": "change_booking",
    "clinic_appointment:book_internal_medicine": "book_appointment",
    "device_return:refund_unwanted": "create_return",
}
"""A scenario of each shipped workflow, and the call of it that changes something."""


@pytest.mark.slow
def test_a_scenario_of_each_shipped_workflow_is_clean(tmp_path: Path) -> None:
    words = [word for name in SCENARIOS for word in ("--scenarios", name)]
    words += ["--agents", str(WORKFLOWS), "--world", "tests.chaos.staging.workflows:Systems", "--yes", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "segue", "chaos", *words, "--output", str(tmp_path / "runs")],
        env={**os.environ, "STAGING": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout, ran.stderr
    made = json.loads(ran.stdout)
    assert (ran.returncode, made["findings"], made["failed"], made["notes"]) == (0, [], {}, [])
    for name, effect in SCENARIOS.items():
        runs = (tmp_path / "runs" / name.replace(":", ".") / "runs" / "runs.jsonl").read_text()
        assert f"{effect}#1/kill-after-call" in runs


# The staging system.

FAILS = {"send_invoice"}
LATE = {"ship", "dispatch"}
READS = {"list_payments", "count_payments"}
KILLED = {("book_seat", "not_idempotent"): "kill-line", ("transfer", "invariant"): "kill-line"}
"""What a kill between two changes of the world shows."""
KILLED_TOOLS = {"book_seat", "transfer", "register"}


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with services.started() as addresses:
        for name, value in {**addresses, "STAGING": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        yield tmp_path


def _world(case: Case) -> object:
    from .staging import worlds

    return getattr(worlds, case.world)(case.tool).snapshot()


@pytest.mark.slow
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


@pytest.mark.slow
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


SHOWN = ("record_sale", "charge_fee", "update_index", "export_rows", "make_download")
"""A tool of each rule, and right ones that resemble them."""


@pytest.mark.slow
def test_a_lost_effect_a_returned_error_and_what_stays_are_found(staging: Path) -> None:
    cases = {case.tool: case for case in MORE if case.tool in SHOWN}
    asyncio.run(record(staging / "segue.db", tuple(cases.values())))
    words = ["chaos", *cases, "--agents", str(AGENTS), "--yes", "--json", "--faults", "kill,duplicate"]
    words += ["--world", "tests.chaos.staging.worlds:Office", "--db", f"{staging}/segue.db"]
    ran = subprocess.run(
        [sys.executable, "-m", "segue", *words, "--output", f"{staging}/runs"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout, ran.stderr
    made = json.loads(ran.stdout)
    found = {each["tool"]: each for each in made["findings"]}
    assert {name: each["kind"] for name, each in found.items()} == {c.tool: c.kind for c in cases.values() if c.kind}
    assert found["record_sale"]["fault"] == "kill-after-outcome"
    assert "raise `segue.UnknownOutcome`" in found["charge_fee"]["detail"]
    assert "the repeated call fails with" in found["update_index"]["detail"]
    assert "FileExistsError" in found["update_index"]["detail"]
