"""Two processes with a message each for one session."""

from benchmarks.durability.bench import Bench, Cell, Row
from benchmarks.durability.model import DONE, do, text_of
from benchmarks.durability.work import GO, INSIDE, append, effects

FIRST, SECOND, THIRD = do(["hold"], ["post"]), do(["pay"]), "Say: ok"
NAMES = ("hold", "post", "pay")


def judge(bench: Bench) -> Cell:
    """The second message comes while a tool of the first one runs; a third one shows what is remembered of both."""
    with bench.works() as work:
        folder = work().folder
        bench.first.begin("run", work(message=FIRST, names=NAMES))
        if not bench.first.reach(folder / INSIDE):
            return Cell(False, f"the first one does not run ({bench.first.end().error})")
        bench.second.begin("run", work(message=SECOND, names=NAMES))
        how = "the second runs at once" if bench.second.wait() else "the second waits"
        append(folder / GO, "")
        first, second = bench.first.end(), bench.second.end()
        happened = effects(folder)
        third = bench.first.do("run", work(message=THIRD, names=NAMES))
        messages = bench.model.last
    said = [text_of(each) for each in messages if each["role"] == "user"]
    wrong = [f"repeats {name}" for name in NAMES if happened.count(name) > 1]
    if first.error or first.answer != DONE:
        wrong.append(f"the first fails ({first.error or 'no answer'})")
    elif said.count(FIRST) != 1 or "post" not in happened:
        wrong.append("the first turn is lost")
    if second.error:
        how = f"the second is refused ({second.error})"
        if "pay" in happened:
            wrong.append("its call runs")
    elif said.count(SECOND) != 1 or "pay" not in happened:
        wrong.append("the second turn is lost")
    if third.error:
        wrong.append(f"the session takes no third ({third.error})")
    return Cell(
        not wrong, "; ".join([how, *(wrong or ["both turns are kept" if not second.error else "nothing is lost"])])
    )


ROW = Row(
    "sessions",
    "Two processes",
    "Two processes get a message each for one session, the second while a tool of the first runs.",
    "Whether two tabs, or two workers, can overwrite one another's turn.",
    judge,
)
