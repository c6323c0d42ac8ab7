"""A stream that is cut after each event and taken up again."""

import itertools

from benchmarks.durability.bench import Bench, Cell, Row
from benchmarks.durability.model import DONE, do
from benchmarks.durability.work import effects


def judge(bench: Bench) -> Cell:
    wrong: set[str] = set()
    for cut in itertools.count(1):
        with bench.works() as work:
            ended = bench.first.do("follow", work(message=do(["post"]), names=("post",)), cut=cut)
            happened = effects(work().folder)
        if ended.error:
            return Cell(False, ended.error)
        text, was_cut = ended.more
        if text != DONE:
            wrong.add("the text repeats a part" if len(text) > len(DONE) else "the text lacks a part")
        if happened != ["post"]:
            wrong.add("repeats a call" if happened else "loses a call")
        if not was_cut:
            break
    return Cell(not wrong, "; ".join(sorted(wrong)) or "identical at each cut")


ROW = Row(
    "streams",
    "Streams",
    "The reader's connection is cut after each event of the stream, and taken up again.",
    "Whether a page that loses its connection shows the same text in the end, and the work goes on meanwhile.",
    judge,
)
