"""Segue's account of the month beside that of the world outside: what differs, in sentences."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from segue.core.calls import CallResult
from segue.core.events import ASKING, ApprovalRequested, ModelCalled
from segue.core.records import Task, TaskTrace
from segue.core.spend import NANO, UsageReport
from tests.operations.calendar import APPROVALS, COSTLY_DAY, DOWN, LIMITS, MONDAYS, MONTH, YEAR, day_of_run
from tests.operations.outside import FIRST, Served
from tests.receivers import HttpReceiver


def differing(what: str, found: object, wanted: object) -> Iterator[str]:
    """The sentence that says so, where both are not the same."""
    if found != wanted:
        yield f"{what}: {found}, not {wanted}"


@dataclass
class Month:
    """What Segue's account says once the month is over; `days` are all that were simulated, with their limits."""

    traces: Sequence[TaskTrace]
    inbox: Sequence[str]
    report: UsageReport
    days: Mapping[int, UsageReport]
    undelivered: Sequence[Any]

    @cached_property
    def events(self) -> Sequence[ModelCalled]:
        return [event for trace in self.traces for event in trace.events if isinstance(event, ModelCalled)]

    @cached_property
    def called(self) -> Mapping[int, ModelCalled]:
        """The model calls that it counts, each by its number at the endpoint."""
        return {event.input - FIRST: event for event in self.events}

    def differences(
        self, books: Sequence[Mapping[str, Any]], served: Sequence[Served], receiver: HttpReceiver
    ) -> Iterator[str]:
        """All that differs from what happened outside."""
        yield from self._ends()
        yield from self._effects(books)
        yield from self._model_calls(served)
        yield from self._days(served)
        yield from self._notifications(receiver)

    def _ends(self) -> Iterator[str]:
        """Each task was begun once, and came to the end that is meant for it."""
        begun = Counter((trace.task.agent_id, trace.task.session_id) for trace in self.traces)
        yield from differing("runs begun more than once", {run: n for run, n in begun.items() if n > 1}, {})
        days = {agent: sorted(day_of_run(name) for who, name in begun if who == agent) for agent, _ in begun}
        planned = {"clerk": sorted([*self.days, *COSTLY_DAY]), "reporter": [*MONDAYS], "cashier": sorted(APPROVALS)}
        wanted = {agent: [day for day in on if day in self.days] for agent, on in planned.items()}
        yield from differing("days of runs", days, wanted)
        for trace in self.traces:
            yield from differing(f"end of {trace.task.session_id}", str(trace.task.status), end_of(trace.task))
        waiting = sorted(trace.task.task_id for trace in self.traces if trace.task.status == "waiting")
        yield from differing("inbox", sorted(self.inbox), waiting)

    def _effects(self, books: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What happened outside is what the calls say, call by call."""
        happened = Counter((line["task"], line["tool"], line["label"]) for line in books)
        calls = [call for trace in self.traces for call in trace.calls if call.name != "orders"]
        named = {(call.task_id, call.name, str(call.arguments.get("label", ""))): call for call in calls}
        yield from differing("calls of one name", len(calls), len(named))
        yield from differing("effects without a call", set(happened) - set(named), set())
        yield from differing("effects that happened twice", {name: n for name, n in happened.items() if n > 1}, {})
        for name, call in named.items():
            result = CallResult.of(call.outcome or {})
            yield from differing(f"state of the call {name}", call.state, "done")
            if not result.unknown:
                yield from differing(f"effects of the call {name}", happened[name], int(result.success))
        reports = {task for task, tool, _ in named if tool == "send_report"}
        yield from differing("reports", len(reports), sum(day in self.days for day in MONDAYS))

    def _model_calls(self, served: Sequence[Served]) -> Iterator[str]:
        """What the endpoint charges for is counted, or kept as an estimate where a kill took the reply."""
        yield from differing("model calls that are counted", len(self.events), len(self.called))
        for number, event in self.called.items():
            call = served[number]
            yield from differing(f"tokens of call {number}", (event.input, event.output), (call.input, call.output))
        total = self.report.total
        lost = len(served) - len(self.called)
        if not 0 < lost <= total.estimated <= 2 * len(self.days):
            yield f"calls whose reply a kill took: {lost}, but `segue usage` estimates {total.estimated}"
        ended = [trace for trace in self.traces if trace.task.result is not None]
        inside = [event for trace in ended for event in trace.events if isinstance(event, ModelCalled)]
        tokens = sum(event.input for event in inside), sum(event.output for event in inside)
        yield from differing("calls of `segue usage`", total.calls, len(inside))
        yield from differing("tokens of `segue usage`", (total.input, total.output), tokens)
        cost = sum(served[event.input - FIRST].nano_dollars for event in inside)
        yield from differing("cost of `segue usage`", round((total.known_costs.get("USD") or 0) * NANO), cost)

    def _days(self, served: Sequence[Served]) -> Iterator[str]:
        """Each day's use of the limit is what was counted on it, and what its lost calls may have cost at most."""
        for day, report in self.days.items():
            (used,) = [round(use.used * NANO) for use in report.limits if use.limit_name == "per_day"]
            today = [(number, call) for number, call in enumerate(served) if call.day == day]
            counted = sum(call.nano_dollars for number, call in today if number in self.called)
            lost = sum(call.nano_dollars for number, call in today if number not in self.called)
            estimated = round(self.report.by_day[f"{YEAR}-{MONTH:02}-{day:02}"].estimated_cost * NANO)
            yield from differing(f"nano-dollars of the limit on day {day}", used, counted + estimated)
            if lost > estimated:
                yield f"calls of day {day} whose reply a kill took: {lost} nano-dollars, estimated {estimated}"

    def _notifications(self, receiver: HttpReceiver) -> Iterator[str]:
        """Each that was due was accepted, under one id, however often it came."""
        yield from differing("notifications that are not delivered", [*self.undelivered], [])
        accepted = {each.headers["webhook-id"]: each.form for each in receiver.got if each.status == 200}
        yield from differing("notifications sent", {each.headers["webhook-id"] for each in receiver.got}, {*accepted})
        if DOWN in self.days and not any(each.status == 503 for each in receiver.got):
            yield "the receiver of notifications was never down"
        told = Counter((form["data"]["task_id"], form["type"].removeprefix("task.")) for form in accepted.values())
        wanted = Counter(name for trace in self.traces for name in told_of(trace))
        found = Counter({name: n for name, n in told.items() if name[1] != "taken_over"})
        yield from differing("notifications too many", dict(found - wanted), {})
        yield from differing("notifications too few", dict(wanted - found), {})


def end_of(task: Task) -> str:
    """The status that a task has at the end of the month."""
    day = day_of_run(task.session_id)
    if task.agent_id == "cashier":
        return "waiting" if APPROVALS[day] == "never" else "done"
    if task.agent_id == "clerk" and day in LIMITS:
        return {"never": "waiting", "cancelled": "cancelled"}.get(LIMITS[day], "done")
    return "done"


def told_of(trace: TaskTrace) -> Iterable[tuple[str, str]]:
    """What the receiver is told of a task: each question, the reminder and expiry of one that waits, and its end."""
    task, day = trace.task, day_of_run(trace.task.session_id)
    kinds = ["waiting" for event in trace.events if isinstance(event, ASKING)]
    if any(isinstance(event, ApprovalRequested) for event in trace.events):
        how = APPROVALS[day]
        kinds += ["reminder"] if how in ("reminded", "expired", "never") else []
        kinds += ["expired"] if how in ("expired", "never") else []
    kinds += [str(task.status)] if task.status in ("done", "error") else []
    return [(task.task_id, kind) for kind in kinds]
