"""What a run shows of the tool whose call had the fault."""

import json
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..core.records import Json
from ..core.tools import Tool
from . import evidence
from .findings import Finding
from .plan import CHECKS, UNDISTURBED, Planned, Step
from .runs import Run
from .world import Change, Comparison, Items

NOTHING = Change()


class CarryOut(Protocol):
    """Carries a run out; with `check` it measures when an effect lands after the check's answer."""

    def __call__(self, planned: Planned, *, check: bool = False) -> Run: ...


class Judge:
    """Compares what runs left with undisturbed ones in which the same calls counted as interrupted."""

    def __init__(self, tools: Mapping[str, Tool], carry_out: CarryOut, command: str) -> None:
        self._tools = tools
        self._carry_out = carry_out
        self._command = command
        self._comparison = Comparison()
        self._undisturbed: list[Run] = []
        self._unknown: dict[str, Run] = {}
        self._is_broken = False
        self._lock = threading.RLock()

    def learn(self, undisturbed: Run) -> None:
        """Have another undisturbed run, which shows what differs by itself."""
        self._undisturbed.append(undisturbed)
        self._comparison.learn(self._undisturbed[0].snapshot, undisturbed.snapshot)

    def of_step(self, step: Step, namespace: str, journal: list[Json]) -> Iterator[Finding]:
        """What an undisturbed call shows."""
        items = self._comparison.items
        change = Change.between(items(step.before, namespace), items(step.after, namespace))
        run = Planned(step.label, "none")
        if not change or step.name not in self._tools:
            return
        if self._tools[step.name].read_only:
            yield self._finding(run, "writes_although_read_only", "read_only_writes", change, journal)
        if "error" in step.result and not evidence.is_unknown(step.result):
            error = repr(step.result["error"])
            yield self._finding(run, "hidden_effect", "fails_with_effect", change, journal, error=error)

    def of_run(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """What the run shows."""
        yield from self.invariant(planned, run)
        tool, change = self._tools[planned.tool], self._differs(planned.label, run)
        repeated = len(run.of("run", planned.label)) > 1
        if planned.fault == "hang":
            if tool.timeout is None and any(line["hung"] for line in run.of("ran", planned.label)):
                yield self._finding(planned, "no_timeout", "waits_forever", NOTHING, run.journal)
            yield from self._hidden(planned, run)
        elif planned.fault == "duplicate":
            yield from self._duplicated(planned, run, change)
        elif planned.fault == "workers":
            if change:
                yield self._finding(planned, "not_idempotent", "ran_at_once", change, run.journal)
        elif planned.fault in ("timeout", "slow", "refuse", "reset", "disk", "exception"):
            yield from self._hidden(planned, run)
        elif change and (repeated or (change.missing and run.of("check", planned.label))):
            yield from self._repeated(planned, run, change)
        elif change:
            yield self._finding(planned, "invariant", "differs_after_kill", change, run.journal)
        if planned.fault.startswith(("kill", "check", "clock")) and not change:
            yield from self._results(planned, run)

    def invariant(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """What the world's own check says, unless it says so of every run."""
        if not self._is_broken and (said := run.world.check(run.before, run.after, run.effects)):
            yield self._finding(planned, "invariant", "broken", NOTHING, run.journal, said=said)

    def undisturbed(self, steps: Sequence[Step], first: Run, again: Run) -> Iterator[Finding]:
        """What the world's own check says without a fault: it is the call's after which the invariant was broken."""
        label = _breaking(steps, first) if again.world.check(again.before, again.after, again.effects) else ""
        yield from self.invariant(Planned(label, "none"), again)
        self._is_broken = bool(label)

    def undone(self, planned: Planned, step: Step, first: str, undo: tuple[Any, Any], run: Run) -> Iterator[Finding]:
        """Compare what an undo changed, from one snapshot to the other, with what its call did in another namespace."""
        items = self._comparison.items
        before, after = items(step.before, first), items(step.after, first)
        left, undone = (items(world, run.namespace) for world in undo)
        lacks = ((before - after) - (undone - left)) + ((left - undone) - (after - before))
        has = ((after - before) - (left - undone)) + ((undone - left) - (before - after))
        if lacks or has:
            yield self._finding(planned, "undo_incomplete", "undo_leaves", Change.of(lacks, has), run.journal)

    def _differs(self, label: str, run: Run) -> Change:
        """How the world is not as it should be; more undisturbed runs show whether it varies by itself."""
        with self._lock:
            change = self._change(label, run)
            while change and len(self._undisturbed) < UNDISTURBED:
                self.learn(self._carry_out(Planned("", "")))
                change = self._change(label, run)
            return change

    def _change(self, label: str, run: Run) -> Change:
        """What the world lacks, and what it has besides; of a flagged call either is right."""
        found, expected = self._items(run), self._items(self._undisturbed[-1])
        if not run.is_unknown(label):
            return Change.between(expected, found)
        without = self._items(self._without(label))
        return Change.of((expected & without) - found, found - (expected | without))

    def _items(self, run: Run) -> Items:
        return self._comparison.items(*run.snapshot)

    def _without(self, label: str) -> Run:
        """The run in which the call counts as interrupted."""
        with self._lock:
            if label not in self._unknown:
                self._unknown[label] = self._carry_out(Planned(label, "unknown"))
            return self._unknown[label]

    def _duplicated(self, planned: Planned, run: Run, change: Change) -> Iterator[Finding]:
        tool, values = self._tools[planned.tool], run.of("value", planned.label)
        if tool.idempotent and change:
            yield self._finding(planned, "not_idempotent", "ran_twice", change, run.journal)
        elif tool.idempotent:
            yield from self._results(planned, run)
        elif not change and len(values) > 1 and "success" in (run.outcome(planned.label) or {}):
            count = len(values) - 1
            yield self._finding(planned, "could_be_idempotent", "changed_nothing", NOTHING, run.journal, n=count)

    def _repeated(self, planned: Planned, run: Run, change: Change) -> Iterator[Finding]:
        checks = run.of("check", planned.label)
        if checks and planned.fault in CHECKS:
            answer = json.dumps(checks[0]["answer"], ensure_ascii=False)
            kind = "not_idempotent" if checks[0]["answer"] is None else "check_too_early"
            sentence = "check_not_done" if "NOT_DONE" in answer else "check_answers"
            yield self._finding(planned, kind, sentence, change, run.journal, answer=answer)
        elif checks:
            late = self._carry_out(planned, check=True).landing
            said = checks[0]["answer"]
            kind = "not_idempotent" if said is None else "check_too_early"
            sentence, landed_late = ("check_answers", "check_answers_late")
            if "NOT_DONE" in str(said):
                sentence, landed_late = ("check_not_done", "check_not_done_late")
            slots = {"answer": json.dumps(said, ensure_ascii=False), "seconds": f"{late or 0:.1f}"}
            yield self._finding(planned, kind, landed_late if late else sentence, change, run.journal, **slots)
        elif self._tools[planned.tool].idempotent:
            yield self._finding(planned, "not_idempotent", "ran_again", change, run.journal)

    def _results(self, planned: Planned, run: Run) -> Iterator[Finding]:
        values = [line["value"] for line in run.of("value", planned.label)]
        checks = [line["answer"] for line in run.of("check", planned.label) if line["answer"] is not None]
        again = [*values[1:], *(answer for answer in checks if "NOT_DONE" not in str(answer))]
        if values and any(value != values[0] for value in again):
            other = next(value for value in again if value != values[0])
            first, second = (json.dumps(value, ensure_ascii=False)[:200] for value in (values[0], other))
            about = {"first": first, "second": second}
            yield self._finding(planned, "result_differs", "returned_another", NOTHING, run.journal, **about)

    def _hidden(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """A call that counts as failed, though the world changed as it would have."""
        outcome, tool = run.outcome(planned.label) or {}, self._tools[planned.tool]
        if "error" not in outcome or run.is_unknown(planned.label):
            return
        if planned.fault in ("timeout", "slow", "hang", "reset") and tool.idempotent:
            return
        if change := Change.between(self._items(self._without(planned.label)), self._items(run)):
            error = repr(outcome["error"])
            yield self._finding(planned, "hidden_effect", "fails_with_effect", change, run.journal, error=error)

    def _finding(
        self, planned: Planned, kind: str, sentence: str, change: Change, journal: Any, **slots: object
    ) -> Finding:
        run = str(planned)
        repeat = f"{self._command} --repeat {shlex.quote(run)}"
        return Finding(planned.tool, kind, planned.fault, run, sentence, slots, change, tuple(journal), repeat)


def _breaking(steps: Sequence[Step], run: Run) -> str:
    """The last call before which the invariant held, and after which it did not; else the last one."""
    found, was_broken = steps[-1].label, bool(run.world.check(run.before, run.before, []))
    for number, step in enumerate(steps, start=1):
        is_broken = bool(run.world.check(run.before, step.after, run.effects[:number]))
        found = step.label if is_broken and not was_broken else found
        was_broken = is_broken
    return found
