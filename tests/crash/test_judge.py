"""Each finding of the judge can fire: runs made by hand, of which one thing is wrong."""

import json
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .evidence import changed, contents, read, unknown_labels
from .judge import KINDS, judge, lost_updates

ROOT = Path(__file__).parents[2]
Row = dict[str, Any]
UNKNOWN = {"error": "unknown_outcome: deposit was under way", "unknown_outcome": True}
SUCCESS = {"success": "5 paid in for a"}


def effect(moment: str, label: str = "a", kind: str = "once") -> Row:
    return {"moment": moment, "kind": kind, "tool": "deposit", "label": label, "pid": 1}


def event(kind: str, trace_id: str = "", own: bool = False, **data: Any) -> Row:
    form = {"type": kind, "trace_id": trace_id, "step_id": "", "iteration": 1, "timestamp": 1.0, "data": data}
    return {"own": own, "form": form}


class World:
    """What a run left, to be changed and written down: one task with one payment, 'a', and one look, 'x'."""

    def __init__(self, outcome: Row = SUCCESS) -> None:
        self.task_id, self.trace = str(uuid.uuid4()), str(uuid.uuid4())
        flagged = [{"name": "deposit", "arguments": {"label": "a"}}] if "error" in outcome else []
        self.effects = [effect(moment, label, kind) for label, kind in (("a", "once"), ("x", "reading"))
                        for moment in ("start", "effect")]  # fmt: skip
        self.calls = [self.call("a", 0, outcome), self.call("x", 1, {"success": "x!"})]
        self.status = "done"
        self.result: Row = {"success": True, "answer": f"for {self.task_id}", "unknown_outcomes": flagged}
        self.history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]
        self.events = [
            event("state_changed", own=True, old="pending", new="running"),
            event("recursion_start", self.trace),
            event("tool_call", self.trace, index=0, label="a"),
            event("tool_call", self.trace, index=1, label="x"),
            event("tool_result", self.trace, index=0, result=outcome),
            event("tool_result", self.trace, index=1, result={"success": "x!"}),
            event("task_complete"),
            event("state_changed", own=True, old="running", new="done"),
        ]
        self.gap = 0

    def call(self, label: str, index: int, outcome: Row | None) -> Row:
        return {"label": label, "index": index, "outcome": outcome}

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        Path(folder, "effects.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.effects))
        Path(folder, "history.json").write_text(json.dumps({"s": self.history}))
        with closing(sqlite3.connect(folder / "segue.db")) as db:
            db.execute("CREATE TABLE tasks (position, task_id, status, message, mode, error, result, called_by)")
            db.execute("CREATE TABLE events (task_id, seq, source, event)")
            db.execute("CREATE VIEW event_log AS SELECT * FROM events")
            db.execute("CREATE TABLE calls (position, task_id, scope, idx, name, arguments, state, outcome)")
            row = (self.task_id, self.status, "go", "react", None, json.dumps(self.result))
            db.execute("INSERT INTO tasks VALUES (1, ?, ?, ?, ?, ?, ?, NULL)", row)
            for place, happened in enumerate(self.events, start=1):
                seq = place + (self.gap if place > 2 else 0)
                source = None if happened["own"] else "node"
                db.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?)", (self.task_id, seq, source, json.dumps(happened["form"]))
                )
            for place, call in enumerate(self.calls):
                outcome = None if call["outcome"] is None else json.dumps(call["outcome"])
                state = "running" if outcome is None else "done"
                known = (
                    place,
                    self.task_id,
                    self.trace,
                    call["index"],
                    "deposit",
                    json.dumps({"label": call["label"]}),
                )
                db.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*known, state, outcome))
            db.commit()
        return folder


def found(tmp_path: Path, run: World, same: World | None = None, interruptions: int = 1) -> list[tuple[str, str]]:
    """What the judge says of the run, as (kind, text)."""
    evidence = read(run.write(tmp_path / "run"))
    other = read((same or World()).write(tmp_path / "same"))
    undisturbed = read(World().write(tmp_path / "undisturbed"))
    return [(finding.kind, finding.text) for finding in judge(evidence, other, undisturbed, interruptions)]


def test_the_judge_knows_nothing_of_segue_but_the_reader_of_evidence() -> None:
    look = "import sys, tests.crash.judge; print(*sorted(name for name in sys.modules if name.startswith('segue')))"
    loaded = subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=True, capture_output=True, text=True)
    assert loaded.stdout.split() == ["segue", "segue.testing", "segue.testing.chaos", "segue.testing.chaos.evidence"]


def test_a_run_as_it_should_be_has_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, World(), interruptions=0) == []


def test_a_call_that_is_flagged_as_unknown_everywhere_is_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, World(UNKNOWN), World(UNKNOWN)) == []


def test_a_flagged_call_without_its_effect_is_no_finding(tmp_path: Path) -> None:
    run = World(UNKNOWN)
    run.effects = [line for line in run.effects if line["label"] == "x"]
    assert found(tmp_path, run, World(UNKNOWN)) == []


def test_a_call_that_only_reads_may_run_again_after_an_interruption_and_only_then(tmp_path: Path) -> None:
    run = World()
    run.effects += [effect("start", "x", "reading"), effect("effect", "x", "reading")]
    assert found(tmp_path / "after one", run) == []
    assert {kind for kind, _ in found(tmp_path / "after none", run, interruptions=0)} == {"twice"}


def test_what_a_person_adds_may_come_before_a_result_or_after_it(tmp_path: Path) -> None:
    run, same = World(), World()
    run.events.insert(4, event("steered", message="more"))
    same.events.insert(6, event("steered", message="more"))
    assert found(tmp_path, run, same) == []


def no_effect(run: World) -> None:
    run.effects = [line for line in run.effects if line["label"] == "x"]


def no_call(run: World) -> None:
    del run.calls[0]


def two_effects(run: World) -> None:
    run.effects += [effect("start"), effect("effect")]


def two_starts(run: World) -> None:
    run.effects.insert(0, effect("start"))


def another_effect(run: World) -> None:
    run.effects += [effect("start", "z"), effect("effect", "z")]


def two_calls(run: World) -> None:
    run.calls.append(run.call("a", 2, SUCCESS))


def under_way_for_ever(run: World) -> None:
    run.calls[0]["outcome"] = None


def said_to_have_failed(run: World) -> None:
    run.calls[0]["outcome"] = {"error": "broken"}


def event_says_otherwise(run: World) -> None:
    run.events[4]["form"]["data"]["result"] = {"error": "broken"}


def named_for_nothing(run: World) -> None:
    run.result["unknown_outcomes"] = [{"name": "deposit", "arguments": {"label": "a"}}]


def another_status(run: World) -> None:
    run.status = "error"


def another_answer(run: World) -> None:
    run.result["answer"] = "something else"


def shorter_history(run: World) -> None:
    del run.history[0]


def gap(run: World) -> None:
    run.gap = 1


def repeat(run: World) -> None:
    run.events.insert(5, run.events[4])


def lost_event(run: World) -> None:
    del run.events[6]


def another_order(run: World) -> None:
    run.events[1], run.events[2] = run.events[2], run.events[1]


def steered_twice(run: World) -> None:
    run.events[5:5] = [event("steered", message="more"), event("steered", message="more")]


def broken_chain(run: World) -> None:
    del run.events[0]


def no_last_status(run: World) -> None:
    del run.events[-1]


@pytest.mark.parametrize(
    ("spoil", "kind", "text"),
    [
        (no_effect, "lost", "effect of 'a' never happened"),
        (no_effect, "unflagged", "says that 'a' succeeded, and it never happened"),
        (no_call, "lost", "nothing of 'a'"),
        (two_effects, "twice", "effect of 'a' happened 2 times"),
        (two_starts, "twice", "tool of 'a' was started 2 times"),
        (another_effect, "twice", "effect of 'z' was not wanted"),
        (two_calls, "twice", "has 'a' 2 times"),
        (under_way_for_ever, "unflagged", "running for ever"),
        (said_to_have_failed, "unflagged", "says that 'a' failed, and it happened"),
        (event_says_otherwise, "unflagged", "event of 'a' says"),
        (named_for_nothing, "unflagged", "result names"),
        (another_status, "end", "the status is"),
        (another_answer, "end", "the result is"),
        (shorter_history, "end", "the history is"),
        (gap, "events", "the numbers are"),
        (repeat, "events", "times too often"),
        (lost_event, "events", "lacks"),
        (another_order, "events", "another order"),
        (steered_twice, "events", "has steered of the task 2 times too often"),
        (broken_chain, "events", "and was pending"),
        (no_last_status, "events", "end with running"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, spoil: Callable[[World], None], kind: str, text: str) -> None:
    run = World()
    spoil(run)
    findings = found(tmp_path, run)
    assert any(k == kind and text in said for k, said in findings), findings
    assert {k for k, _ in findings} <= set(KINDS)


def test_an_unknown_call_that_nothing_interrupted_is_found(tmp_path: Path) -> None:
    findings = found(tmp_path, World(UNKNOWN), World(UNKNOWN), interruptions=0)
    assert [(kind, "after 0 interruptions" in text) for kind, text in findings] == [("unflagged", True)]


def test_an_unknown_call_that_the_result_does_not_name_is_found(tmp_path: Path) -> None:
    run = World(UNKNOWN)
    run.result["unknown_outcomes"] = []
    assert ("unflagged", "result names []") in [(k, t[4:19]) for k, t in found(tmp_path, run, World(UNKNOWN))]


def test_the_flagged_labels_are_read_from_the_ledger(tmp_path: Path) -> None:
    assert unknown_labels(read(World(UNKNOWN).write(tmp_path / "run"))) == {"a"}


def test_a_write_of_an_owner_that_lost_is_found(tmp_path: Path) -> None:
    folder = World().write(tmp_path / "run")
    before = contents(folder)
    assert changed(before, contents(folder)) == []
    with closing(sqlite3.connect(folder / "segue.db")) as db:
        db.execute("UPDATE calls SET outcome = '{}'")
        db.commit()
    assert changed(before, contents(folder)) == ["calls"]


def raced(tmp_path: Path, ended: dict[str, str], spoil: Callable[[World], None] = lambda run: None) -> list[str]:
    run = World()
    run.history = [{"role": "user", "content": "pay a"}, {"role": "assistant", "content": "pay a — a: paid"}]
    spoil(run)
    folder = run.write(tmp_path / "run")
    with closing(sqlite3.connect(folder / "segue.db")) as db:
        db.execute("UPDATE tasks SET message = 'pay a'")
        db.commit()
    return lost_updates(read(folder), ended)


def test_races_without_losses_have_no_finding(tmp_path: Path) -> None:
    assert raced(tmp_path, {"a": "done", "b": "ThreadBusy"}) == []


@pytest.mark.parametrize(
    ("ended", "spoil", "text"),
    [
        ({"a": "done"}, shorter_history, "'message': 0"),
        ({"a": "done"}, no_effect, "'effect': 0"),
        ({"a": "done"}, two_effects, "'effect': 2"),
        ({"a": "done"}, another_status, "'task': 0"),
        ({"a": "ThreadBusy"}, lambda run: None, "'task': 1"),
    ],
)
def test_a_lost_update_is_found(
    tmp_path: Path, ended: dict[str, str], spoil: Callable[[World], None], text: str
) -> None:
    assert text in raced(tmp_path, ended, spoil)[0]
