"""The 19 faults of an endpoint, of `benchmarks.endpoint_faults`."""

from benchmarks.durability.bench import Bench, Cell, Row
from benchmarks.durability.host import HANGS

PART, OTHER = "a part of the answer, as the answer", "another answer"


def judge(bench: Bench) -> Cell:
    from benchmarks.endpoint_faults import FAULTS

    outcomes = []
    for place in range(len(FAULTS)):
        with bench.works() as work:
            ended = bench.first.do("fault", work(), place=place)
        outcomes.append(ended.error or ended.more)
    return cell(outcomes)


def cell(outcomes: list[str]) -> Cell:
    """Counted from what became of each fault, where nothing is the whole answer."""
    right = outcomes.count("")
    wrong = sum(each in (PART, OTHER) or each.startswith("the tool ran") for each in outcomes)
    hangs = outcomes.count(HANGS)
    errors = len(outcomes) - right - wrong - hangs
    words = [f"{right} of {len(outcomes)} right"]
    words += [f"{wrong} with a wrong answer" if wrong == 1 else f"{wrong} with wrong answers"] if wrong else []
    words += [f"{hangs} hang"] if hangs else []
    words += [f"{errors} with an error"] if errors else []
    return Cell(right == len(outcomes), "; ".join(words))


ROW = Row(
    "faults",
    "Faults",
    "19 faults of the model's endpoint, each once in a task of two model calls.",
    "Whether a bad minute of the provider ends your task, or passes half an answer for a whole one.",
    judge,
)
