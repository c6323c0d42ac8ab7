"""Whether tasks did what was asked, then and now: by rating, by the scenario of a rehearsal, or by the judge."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ..checkpoints.storage import Storage
from ..core.errors import SegueError
from ..core.records import BEST, Task
from ..rehearsal.report.grades import Case, case_of
from ..rehearsal.report.outcome import canonical, rule_success
from ..rehearsal.simulate import conversation_in
from .comparison import CHANGED, TaskReport, Verdict
from .recording import RecordedTurn

GOOD, POOR = (BEST, BEST - 1), (1, 2)
"""Ratings of success and of failure."""


def by_rating(task: Task, report: TaskReport) -> TaskReport:
    """The report of a rated task with its success then; now it is known where nothing differs, and by a judge."""
    if task.rating not in (*GOOD, *POOR):
        return report
    then, now = task.rating in GOOD, report.success[1]
    if report.verdict in (Verdict.SAME, Verdict.ERROR):
        now = then and report.verdict is Verdict.SAME
    return replace(report, success=(then, now))


async def by_scenario(
    storage: Storage, turns: Iterable[RecordedTurn], reports: Sequence[TaskReport]
) -> list[TaskReport]:
    """The reports, in which the last task of a rehearsed conversation has the conversation's success."""
    found = {report.task_id: report for report in reports}
    for session in dict.fromkeys(turn.task.thread_id for turn in turns):
        own = [report for report in reports if report.session_id == session]
        talk = await storage.tasks.conversation_of(session)
        if talk is None or len(own) < len(await storage.tasks.task_ids(session)):
            continue
        conversation = conversation_in(talk, await storage.events.read(talk.task_id))
        with suppress(SegueError):  # its workflow is not here any more
            case = case_of(conversation)
            then = rule_success(case.calls, case.state_differences, case.expectation)
            if conversation.ending and then is not None:
                found[own[-1].task_id] = replace(own[-1], success=(then, _now(case, then, own)))
    return [*found.values()]


def _now(case: Case, then: bool, own: Sequence[TaskReport]) -> bool | None:
    """Whether the conversation succeeds with the calls of now; None where they do not tell."""
    if not any(report.verdict in CHANGED for report in own):
        return then
    if any(report.verdict is Verdict.ERROR for report in own):
        return False
    if any(report.steps or report.status != "done" for report in own):
        return None
    made = Counter((call["name"], canonical(call["arguments"])) for report in own for call in report.calls)
    if Counter((name, canonical(arguments)) for name, arguments in case.expectation.calls) - made:
        return False
    if case.expectation.state is not None and any(report.effects for report in own):
        return None
    return not case.state_differences
