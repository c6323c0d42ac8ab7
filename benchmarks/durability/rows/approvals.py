"""Approvals that another process answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.durability.bench import Bench, Cell, Row
from benchmarks.durability.model import DONE, do
from benchmarks.durability.work import effects


@dataclass(frozen=True)
class Case:
    """Calls, and for each process that answers, what it should be asked."""

    name: str
    calls: Sequence[Sequence[Any]]
    asked: Sequence[Sequence[str]]
    happens: Sequence[str]
    """The effects, in their order."""
    more: Mapping[str, Any] = field(default_factory=lambda: {"names": ("post", "pay", "notify")})
    changed: bool = False


NESTED = {"nested": ("post", "pay")}
CASES = (
    Case("first", [["post"], ["pay"]], [["pay"]], ["post", "pay"]),
    Case("second", [["pay"], ["notify"]], [["pay"], ["notify"]], ["pay", "notify"]),
    Case("nested", [[{"clerk": [["post"], ["pay"]]}]], [["pay"]], ["post", "pay"], NESTED),
    Case("parallel", [["pay", "notify"]], [["pay", "notify"]], ["pay"]),
    Case("changed", [["post"], ["pay"]], [["pay"]], ["post", "pay"], changed=True),
)
GUARDED = ("pay", "notify")
REJECTED = {"parallel": "notify"}


def judge(bench: Bench) -> Cell:
    wrong, right, notes = [], 0, []
    for case in CASES:
        if f"approvals.{case.name}" in bench.not_offered:
            notes.append(f"{case.name} not offered")
        elif why := _try(bench, case):
            wrong.append(f"{case.name}: {why}")
        else:
            right += 1
    return Cell(not wrong, "; ".join([f"{right} of {right + len(wrong)} right", *wrong, *notes]))


def _try(bench: Bench, case: Case) -> str:
    """What goes wrong in a case: each step is a process of its own."""
    with bench.works() as work:
        ended = bench.first.do("run", work(message=do(*case.calls), guarded=GUARDED, **case.more))
        for asked in case.asked:
            happened = effects(work().folder)
            if early := set(happened) & set(asked):
                return f"runs {', '.join(sorted(early))} without approval"
            if sorted(ended.waiting) != sorted(asked):
                return f"does not ask ({ended.error or ended.answer or ended.waiting})"
            approve = {name: name != REJECTED.get(case.name) for name in GUARDED}
            ended = bench.second.do("decide", work(guarded=GUARDED, changed=case.changed, **case.more), approve=approve)
        if case.changed and ended.waiting:  # what is asked about is another program's: to ask again is right
            ended = bench.second.do("decide", work(guarded=GUARDED, changed=True, **case.more), approve=approve)
        happened = effects(work().folder)
    for name in dict.fromkeys(happened):
        if happened.count(name) > 1:
            return f"repeats {name}"
        if name not in case.happens:
            return f"runs {name}, which was rejected"
    if ended.waiting:
        return "asks again, and again" if case.changed else "asks again"
    if len(happened) < len(case.happens):
        return f"loses the call ({ended.error})" if ended.error else "loses the call"
    return "" if ended.answer == DONE else f"does not end ({ended.error or 'no answer'})"


ROW = Row(
    "approvals",
    "Approvals",
    "Another process answers a first approval, a second one, one of a nested agent, two in parallel of which one is "
    "rejected, and one after the code changed.",
    "Whether you can approve tomorrow, from another program, what an agent asks today, and it is then done once.",
    judge,
)
