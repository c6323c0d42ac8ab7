import json
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from segue import tool
from segue.core.errors import ConfigurationError
from segue.testing.chaos.evidence import error_in
from segue.testing.chaos.hunt import Judge, write_report
from segue.testing.chaos.processes import REFUSED, refused_in
from segue.testing.chaos.runs import FILE, KINDS, Finding, Finished, Hunted
from segue.testing.chaos.traps import FAULTS, Planned, Step, most_effects, notes, planned, read_journal
from segue.testing.chaos.world import Change, Comparison
from segue.tools.adapters.functions import bind_function
from tests.cases import cases
from tests.hostile_markdown import HOSTILE, check_inert


@tool
def pay(order: int) -> str:
    """Pay an order."""
    return f"paid {order}"


@tool(read_only=True)
def look(order: int) -> str:
    """Look an order up."""
    return f"order {order}"


def found(kind: str = "not_idempotent") -> Finding:
    change = Change(extra=(("payments[]", '{"order": 1}', 1),))
    trace = ({"moment": "run", "at": 1.0, "label": "pay#1"},)
    return Finding("pay", kind, "duplicate", "pay#1/duplicate", "ran_twice", {}, change, trace, "segue chaos x")


def test_the_same_seed_plans_the_same_runs_and_another_one_others() -> None:
    steps, tools = [Step("pay#1", "pay", lines=60)], {"pay": bind_function(pay)}
    first = planned(steps, tools, FAULTS, seed=1)
    assert first == planned(steps, tools, FAULTS, seed=1)
    assert any(planned(steps, tools, FAULTS, seed=seed) != first for seed in range(2, 5))


def test_a_run_is_known_by_its_name() -> None:
    steps = [Step("pay#1", "pay", lines=60, changes=[3], hosts=["127.0.0.1:80", "::1:443"], writes=True)]
    runs = planned(steps, {"pay": bind_function(pay)}, FAULTS)
    assert [Planned.read(str(run)) for run in runs] == runs


def test_a_call_that_only_reads_has_no_effects_and_each_run_has_those_of_the_others() -> None:
    tools = {"pay": bind_function(pay), "look": bind_function(look)}
    assert most_effects(["look"], tools, FAULTS) == 0
    assert most_effects(["pay"], tools, ["kill"]) < most_effects(["pay", "look"], tools, FAULTS)
    assert most_effects(["pay", "pay"], tools, ["kill"]) > 2 * most_effects(["pay"], tools, ["kill"])


def test_a_tool_that_is_tried_less_is_named_in_both_languages() -> None:
    tools = {"pay": bind_function(pay), "look": bind_function(look)}
    seen, unseen = Step("pay#1", "pay", 0, 1, lines=2), Step("pay#1", "pay", 0, 1)
    assert notes([seen, Step("look#1", "look")], tools, FAULTS) == {}
    made = Hunted(notes=notes([unseen], tools, FAULTS))
    made += Hunted(notes={"note_lines": ["pay", "ship"]})
    assert [note.partition(":")[0] for note in made.noted()] == ["pay, ship"]
    assert made.json()["notes"] == made.noted() != made.noted("zh")


def test_a_tool_none_of_whose_calls_changes_the_world_has_a_finding_unless_it_fails_or_only_reads() -> None:
    tools = {"pay": bind_function(pay), "look": bind_function(look)}
    judge = Judge(tools, lambda *_, **__: pytest.fail("no run is needed"), "segue chaos x")
    done, failed = {"success": "paid"}, {"success": {"error": "no such order"}}
    idle, busy = Step("pay#1", "pay", 0, 0, result=done), Step("pay#2", "pay", 0, 1, result=done)
    (found,) = judge.without_effect([idle, Step("look#1", "look", 0, 0, result=done)], [])
    assert (found.tool, found.kind, found.run) == ("pay", "no_effect", "pay/none")
    assert "says done, changed nothing" in found.described() and found.described() != found.described("zh")
    assert not Hunted(findings=[found]).is_safe
    assert [*judge.without_effect([idle, busy], [])] == []
    assert [*judge.without_effect([Step("pay#1", "pay", 0, 0, result=failed)], [])] == []


@cases(
    "outcome, fails",
    [
        ({"error": "no"}, True),
        ({"error": "no", "unknown_outcome": True}, False),
        ({"success": {"error": "no"}}, True),
        ({"success": {"status": "error"}}, True),
        ({"success": '{"ok": false}'}, True),
        ({"success": "Error: no"}, True),
        ({"success": {"error": None, "errors": [], "ok": True}}, False),
        ({"success": "Error report 7 is filed."}, False),
        ({"success": 7}, False),
    ],
)
def test_an_error_that_is_returned_is_an_error(outcome: dict[str, object], fails: bool) -> None:
    assert bool(error_in(outcome)) == fails


def test_finished_runs_are_kept_and_those_of_another_hunt_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    Finished(folder, "a").add("pay#1/duplicate", [found()])
    with (folder / FILE).open("a") as file:
        file.write('{"run": "half')
    assert Finished(folder, "a").runs == {"pay#1/duplicate": [found()]}
    assert Finished(folder, "b").runs == {}
    Finished(folder, "b").add("pay#1/duplicate", [])
    assert Finished(folder, "b", fresh=True).runs == {}


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="contains other files"):
        Finished(tmp_path, "a")
    assert (tmp_path / "mine.txt").read_text() == "mine"


@cases(
    "asked, is_refused",
    [
        ("bank.example", True),
        ("api.bank.example", True),
        ("BANK.EXAMPLE", True),
        ("https://bank.example/pay", True),
        ("mybank.example", False),
        ("bank.example.org", False),
        ("bank", False),
    ],
)
def test_a_refused_host_is_known_in_any_form(asked: str, is_refused: bool) -> None:
    assert (refused_in([asked], ["bank.example"]) != "") is is_refused


REACHES = (
    "import socket; socket.create_connection(('127.0.0.1', {port}))",
    "import subprocess; subprocess.run(['curl', 'http://127.0.0.1:{port}'])",
    "import os; os.system('curl http://127.0.0.1:{port}')",
    "import os; os.execvp('curl', ['curl', 'http://127.0.0.1:{port}'])",
    "import os; os.posix_spawnp('curl', ['curl', 'http://127.0.0.1:{port}'], os.environ)",
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}')",
    "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', {port}))",
)
EACH = """
import os, sys
from pathlib import Path
from segue.testing.chaos.processes import refuse
from segue.testing.chaos.traps import Journal

for place, reach in enumerate(sys.argv[1:]):
    child = os.fork()
    if not child:
        refuse(["127.0.0.1"], Journal(Path(str(place))))
        exec(reach)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
def test_a_process_ends_before_it_reaches_a_refused_host(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        reaches = [reach.format(port=server.getsockname()[1]) for reach in REACHES]
        command = [sys.executable, "-c", EACH, *reaches]
        ran = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert ran.stdout.split() == [str(REFUSED)] * len(reaches), ran.stderr
        hosts = {read_journal(tmp_path / str(place))[-1]["host"] for place in range(len(reaches))}
        assert hosts == {"127.0.0.1"}
        with pytest.raises(BlockingIOError):
            server.accept()


def test_what_two_undisturbed_runs_have_differently_is_left_out_but_not_their_namespaces() -> None:
    comparison = Comparison()
    rows = [{"rows": [{"order": 1, "nonce": nonce, "of": name}]} for nonce, name in ((7, "n1"), (9, "n2"))]
    comparison.learn((rows[0], "n1"), (rows[1], "n2"))
    other = {"rows": [{"order": 1, "nonce": 3, "of": "elsewhere"}]}
    assert comparison.items(rows[0], "n1") == comparison.items(rows[1], "n2") != Counter()
    assert comparison.items(other, "n1") != comparison.items(rows[0], "n1")


def test_what_a_tool_wrote_is_text_in_a_report(tmp_path: Path) -> None:
    line = {"moment": "run", "at": 1.0, "label": HOSTILE, "said": HOSTILE}
    change = Change(((HOSTILE, HOSTILE, 1),), ((HOSTILE, HOSTILE, 2),))
    finding = replace(found("not_idempotent"), tool=HOSTILE, change=change, trace=(line,))
    files = write_report(Hunted(1, [finding], failed={HOSTILE: HOSTILE}), tmp_path)
    check_inert(next(file for file in files if file.suffix == ".md").read_text("utf-8"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_report_explains_each_kind_and_says_what_to_do(language: str, tmp_path: Path) -> None:
    made = Hunted(3, [found(kind) for kind in KINDS], left=["pay#1/undo"], failed={"pay#1/hang": "status 1"}, seed=7)
    files = {file.suffix: file.read_text(encoding="utf-8") for file in write_report(made, tmp_path, language)}
    form = json.loads(files[".json"])
    assert [one["kind"] for one in form["findings"]] == [*KINDS]
    assert all({*one} == {"tool", "kind", "fault", "detail", "repeat"} for one in form["findings"])
    assert (form["runs"], form["seed"], form["left"]) == (3, 7, ["pay#1/undo"])
    for text in (files[".md"], files[".html"]):
        assert "pay#1/hang" in text
        assert all(found(kind).about(language)[:15] in text for kind in KINDS)
    assert found("could_be_idempotent") not in made.faults
