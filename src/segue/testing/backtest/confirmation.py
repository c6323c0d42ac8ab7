"""The confirmation of a backtest: tasks that differ, answered several more times by the new and the old agents."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb

from ...core.records import Json
from ...prompts.catalogue import backtest_text
from ..rehearsal.report import SIGNIFICANT
from .comparison import CHANGED, TaskReport

TIMES = 5
"""How often each task is answered again, by the new agents and by the old ones."""
TASKS = 5
"""Tasks of a group that are answered again."""

Group = tuple[str, str, Sequence[TaskReport]]


@dataclass(frozen=True)
class Confirmed:
    """A difference whose tasks were answered again: of `runs` answers of each side, `new` and `old` differ so.

    `change` and `tool` are those of its group; of all groups together they are empty. `p_value` has Holm's correction.
    """

    change: str
    tool: str
    tasks: Sequence[str]
    runs: int
    new: int
    old: int
    p_value: float

    @property
    def exceeds_noise(self) -> bool:
        """Whether so much more would be rare between two equal agents."""
        return self.p_value < SIGNIFICANT

    def describe(self, language: str) -> str:
        """The difference, and how often either side shows it."""
        what = backtest_text(f"confirmed_{self.change or 'pooled'}", language, tool=self.tool)
        name = "confirmed" if self.exceeds_noise else "not_confirmed"
        numbers = {"new": self.new, "old": self.old, "runs": self.runs, "p": f"{self.p_value:.3g}"}
        return backtest_text(name, language, what=what, **numbers)


@dataclass(frozen=True)
class Confirmation:
    """Which differences are more frequent with the new agents than with the old ones, by group and all together.

    `turns` is how many turns that took.
    """

    groups: Sequence[Confirmed]
    pooled: Confirmed | None
    turns: int

    @property
    def exceeds_noise(self) -> bool:
        """Whether a group, or all together, differ more than by chance."""
        return any(each.exceeds_noise for each in self.all)

    @property
    def all(self) -> list[Confirmed]:
        """The groups, and all together where there are several."""
        several = [self.pooled] if self.pooled and len(self.groups) > 1 else []
        return [*self.groups, *several]

    def describe(self, language: str) -> str:
        """How many of the groups are confirmed."""
        count = sum(each.exceeds_noise for each in self.groups)
        if not count and self.pooled and self.pooled.exceeds_noise:
            return self.pooled.describe(language)
        name = "confirmed_some" if count else "confirmed_none"
        return backtest_text(name, language, n=count, groups=len(self.groups))

    def json(self) -> Json:
        """{"groups", "pooled", "turns", "exceeds_noise"}."""
        forms = [{**asdict(each), "exceeds_noise": each.exceeds_noise} for each in (*self.groups, self.pooled) if each]
        pooled = forms.pop() if self.pooled else None
        return {"groups": forms, "pooled": pooled, "turns": self.turns, "exceeds_noise": self.exceeds_noise}


def choose(groups: Sequence[Group]) -> list[Group]:
    """The groups with the tasks that are answered again."""
    return [(change, tool, tasks[:TASKS]) for change, tool, tasks in groups]


def confirm(
    groups: Sequence[Group], new: Sequence[Sequence[TaskReport]], old: Sequence[Sequence[TaskReport]]
) -> Confirmation:
    """Compare how often the chosen tasks differ as their group does, in several passes of either side."""
    found, every = list[Confirmed](), list[tuple[int, int]]()
    for change, tool, tasks in groups:
        ids = [task.task_id for task in tasks]
        strata = [(_shows(new, each, change, tool), _shows(old, each, change, tool)) for each in ids]
        every += [(_differs(new, each), _differs(old, each)) for each in ids]
        found.append(_counted(change, tool, ids, strata))
    chosen = [name for each in found for name in each.tasks]
    pooled = _counted("", "", chosen, every) if chosen else None
    turns = sum(len(reports) for reports in (*new, *old))
    return Confirmation(_corrected(found), pooled, turns)


def exact_p(strata: Sequence[tuple[int, int]], times: int = TIMES) -> float:
    """The p-value of an exact test, one-sided: as many of the differing answers, or more, are the new agents'.

    A stratum is a task's (new, old) of `times` answers each; equal agents would have any of them by either side.
    """
    ways, total = {0: 1}, 1
    for new, old in strata:
        both, sums = new + old, dict[int, int]()
        total *= comb(2 * times, both)
        for count in range(max(both - times, 0), min(times, both) + 1):
            of_task = comb(times, count) * comb(times, both - count)
            for known, number in ways.items():
                sums[known + count] = sums.get(known + count, 0) + number * of_task
        ways = sums
    observed = sum(new for new, _ in strata)
    return sum(number for count, number in ways.items() if count >= observed) / total


def _counted(change: str, tool: str, tasks: Sequence[str], strata: Sequence[tuple[int, int]]) -> Confirmed:
    new, old = sum(new for new, _ in strata), sum(old for _, old in strata)
    return Confirmed(change, tool, tasks, TIMES * len(tasks), new, old, exact_p(strata))


def _corrected(found: Sequence[Confirmed]) -> list[Confirmed]:
    """The groups with Holm's correction of their p-values."""
    values, least = dict[int, float](), 0.0
    for rank, place in enumerate(sorted(range(len(found)), key=lambda place: found[place].p_value)):
        least = max(least, min(found[place].p_value * (len(found) - rank), 1.0))
        values[place] = least
    return [
        Confirmed(each.change, each.tool, each.tasks, each.runs, each.new, each.old, values[place])
        for place, each in enumerate(found)
    ]


def _shows(passes: Sequence[Sequence[TaskReport]], task_id: str, change: str, tool: str) -> int:
    """In how many passes the task differs as its group does."""
    reports = [report for each in passes for report in each if report.task_id == task_id and report.verdict in CHANGED]
    return sum(r.difference is not None and (r.difference.change, r.difference.tool) == (change, tool) for r in reports)


def _differs(passes: Sequence[Sequence[TaskReport]], task_id: str) -> int:
    """In how many passes the task differs in any way."""
    return sum(report.task_id == task_id and report.verdict in CHANGED for each in passes for report in each)
