"""A model that is stuck."""

from benchmarks.durability.bench import Bench, Cell, Row
from benchmarks.durability.model import CAP

KINDS = {"Loop": "the same call", "Vary": "ever other calls"}


def judge(bench: Bench) -> Cell:
    spent, words = {}, []
    for kind, what in KINDS.items():
        with bench.works() as work:
            bench.model.begin()
            ended = bench.first.do("run", work(message=f"{kind}: look", names=("look",)))
            spent[kind] = bench.model.asked
        if spent[kind] > CAP:
            words.append(f"{what}: more than {CAP}")
        else:
            words.append(f"{what}: {spent[kind]}, then {ended.error or 'an answer'}")
    return Cell(all(count <= CAP for count in spent.values()), "; ".join(words))


ROW = Row(
    "stuck",
    "Stuck",
    "The model repeats a call, or makes ever other ones, with the framework's default settings.",
    "How many requests a model that has lost its way costs before it is stopped.",
    judge,
)
