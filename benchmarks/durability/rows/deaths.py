"""Death at every commit, and before and after every effect."""

import itertools

from benchmarks.durability.bench import Bench, Cell, Row, results
from benchmarks.durability.host import Ended
from benchmarks.durability.model import DONE, do
from benchmarks.durability.work import effects

CALLS = ("post", "pay", "notify")
NAMED = [f"{when} {name}" for name in CALLS for when in ("before", "after")]


def judge(bench: Bench) -> Cell:
    """Kill the task at each place in turn, start the same program again, and count what happened outside."""
    repeated: set[str] = set()
    lost: set[str] = set()
    unknown: set[str] = set()
    stuck: set[str] = set()
    for place in itertools.chain(NAMED, itertools.count(1)):
        with bench.works() as work:
            given = {"message": do(*([name] for name in CALLS)), "names": CALLS}
            ended = bench.first.do("begin", work(**given), die_at=place)
            died = ended.killed
            if died:
                ended = bench.first.do("resume", work(**given))
            happened = effects(work().folder)
        told = results(bench.model.last)
        for name in CALLS:
            says_done = told.get(name) == f"{name} is done."
            if happened.count(name) > 1:
                repeated.add(name)
            if ended.answer == DONE and not happened.count(name) and (says_done or name not in told):
                lost.add(name)
            if name in told and not says_done:
                unknown.add(name)
        if why := _why_stuck(ended):
            stuck.add(why)
        if not died and place not in NAMED:
            return _cell(repeated, lost, unknown, stuck)
    raise AssertionError


def _why_stuck(ended: Ended) -> str:
    return ended.error or ("" if ended.answer == DONE else "no answer")


def _cell(repeated: set[str], lost: set[str], unknown: set[str], stuck: set[str]) -> Cell:
    words = [f"repeats {len(repeated)} of {len(CALLS)} effects" if repeated else "repeats none"]
    words += [f"loses {len(lost)} silently"] if lost else []
    words += [f"reports {len(unknown)} of {len(CALLS)} as unknown"] if unknown else []
    words += [f"does not go on ({', '.join(sorted(stuck))})"] if stuck else []
    return Cell(not (repeated or lost or stuck), "; ".join(words))


ROW = Row(
    "deaths",
    "Deaths",
    "The process is killed at each commit, and before and after each effect, and the same program is started again.",
    "Whether a crash can pay twice, or drop a call without a word, and whether the task then ends by itself.",
    judge,
)
