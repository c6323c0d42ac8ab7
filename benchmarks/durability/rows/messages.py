"""A message to a running task."""

from benchmarks.durability.bench import Bench, Cell, Row
from benchmarks.durability.host import adapter_named
from benchmarks.durability.model import DONE, do, text_of
from benchmarks.durability.work import ARRIVED, DELIVERED, GO, INSIDE, append, effects

NAMES = ("hold", "post")
TEXT = "And a receipt, please."


def judge(bench: Bench) -> Cell:
    """It is sent while a tool runs: from another process, or in the same one if that is what the framework offers."""
    with bench.works() as work:
        folder = work().folder
        bench.first.begin("run", work(message=do(["hold"], ["post"]), names=NAMES))
        if not bench.first.reach(folder / INSIDE):
            return Cell(False, f"the task does not run ({bench.first.end().error})")
        refused, how, sent = "", "in the running task", None
        if hasattr(adapter_named(bench.adapter), "send"):
            bench.second.begin("send", work(message=TEXT, names=NAMES))
            bench.second.wait()  # until it was sent, or waits for the tool that runs
            append(folder / GO, "")
            sent = bench.second.end()
            refused = sent.error
        else:
            how = "in the running task, from its own process only"
            append(folder / ARRIVED, TEXT)
            bench.first.reach(folder / DELIVERED)
            append(folder / GO, "")
        ended = bench.first.end()
        if sent and sent.answer:
            ended = sent  # the process that sends it goes on with the task
        during = _seen(bench)
        bench.first.do("run", work(message="Say: ok", names=NAMES))
        later = _seen(bench)
        happened = effects(folder)
    if refused:
        return Cell(True, f"refused ({refused})")
    wrong = [f"repeats {name}" for name in NAMES if happened.count(name) > 1]
    wrong += [] if ended.answer == DONE else [f"the task fails ({ended.error or 'no answer'})"]
    if max(during, later) > 1:
        wrong.append("seen twice")
    if not during:
        how = "in the next turn only" if later else "lost"
    return Cell(not wrong and bool(later), "; ".join([how if how == "lost" else f"seen once, {how}", *wrong]))


def _seen(bench: Bench) -> int:
    """How often the model was shown it, in its last request."""
    return sum(text_of(each).count(TEXT) for each in bench.model.last)


ROW = Row(
    "messages",
    "Messages",
    "A message is sent while a tool runs.",
    "Whether you can correct an agent at work, and it reads you, once.",
    judge,
)
