"""`segue demo`: the trip of the offline planner, and the crash."""

import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exits import FAILED, report_errors
from ..output import echo
from ..settings import IN_MEMORY, Settings
from ..views.console import output, print_error, print_prose

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Keep = Annotated[
    str, typer.Option("--db", metavar="DATABASE", help="Keep the session here; by default nothing is kept.")
]
Crash = Annotated[bool, typer.Option("--crash", help="Kill an agent's process during a payment, and start it again.")]
_PROCESSES = multiprocessing.get_context("forkserver")
"""Its processes are forked from one that has imported what they need."""
_IS_FOREIGN = re.compile("SEGUE_|OTEL_|LANGSMITH_|LANGCHAIN_|OPENAI_")
"""Variables for other work than the demo."""


def demo(db: Keep = IN_MEMORY, language: options.Language = "", crash: Crash = False) -> None:
    """Plan a trip, or survive a crash (--crash); without a key."""
    if crash and db != IN_MEMORY:
        raise typer.BadParameter("it goes without --crash, whose files are deleted at the end", param_hint="--db")
    settings = Settings(db, agent="travel", mode="plan", model="offline", language=language)
    with report_errors(settings):
        if crash:
            raise typer.Exit(_show_crash(settings))
        from ...core.context import Ids
        from ..dialog import one_shot

        settings = replace(settings, session=f"demo-{Ids().thread()}")
        raise typer.Exit(one_shot(settings, settings.say("demo_message"), as_json=False))


# The crash.


class _ProcessFailed(Exception):
    """A process of the demo ended in another way than it was meant to."""


@dataclass(frozen=True)
class _Run:
    """What happened in the two processes of an agent, by the bank's account at the end."""

    before: Sequence[tuple[str, str]]
    """Each call and what happened to it, until the process was killed."""
    after: Sequence[tuple[str, str]]
    paid: int

    def outcome(self, call: str) -> str:
        """What became of a call: the name of a sentence."""
        if (call, "kept") in self.after:
            return "crash_kept"
        if (call, "began") not in self.before:
            return "crash_later"
        return "crash_repeated" if (call, "began") in self.after else "crash_checked"


def _show_crash(settings: Settings) -> int:
    """Show both agents before and after the kill, and return the exit code."""
    from ..crash_demo import AMOUNT, INVOICE, NEEDED

    _PROCESSES.set_forkserver_preload([*NEEDED])
    has_langchain = find_spec("langchain") is not None
    echo(settings.say("crash_begins", invoice=INVOICE, amount=f"{AMOUNT:,}"))
    with TemporaryDirectory(prefix="segue-demo-") as folder, ThreadPoolExecutor(1) as beside:
        other = beside.submit(_run_twice, Path(folder), "create_agent", lambda *_: None) if has_langchain else None
        try:
            own = _run_twice(Path(folder), "segue", lambda *happened: _show(settings, *happened))
            runs = {"Segue": own} | ({"create_agent + SqliteSaver": other.result()} if other else {})
        except _ProcessFailed as error:
            print_error(settings.say("crash_failed", error=error))
            return FAILED
    _print_ledger(settings, runs)
    print_prose(output(), settings.say("crash_ends_beside" if has_langchain else "crash_ends_alone"))
    return 0 if own.paid == 1 else FAILED


def _run_twice(folder: Path, agent: str, show: Callable[[str, str], None]) -> _Run:
    """Start an agent, which kills itself during the payment, and start it again."""
    from ..crash_demo import BANK, PAYMENT

    own = folder / agent
    own.mkdir()
    before: list[tuple[str, str]] = []
    after: list[tuple[str, str]] = []
    for happened, code in ((before, -signal.SIGKILL), (after, 0)):
        for call, what in _happenings(own, agent, code):
            happened.append((call, what))
            show(call, what)
        if code:
            show(PAYMENT, "killed")
    return _Run(before, after, len((own / BANK).read_text(encoding="utf-8").splitlines()))


def _happenings(folder: Path, agent: str, code: int) -> Iterator[tuple[str, str]]:
    """What happens to the calls in one process, which is to end with this code."""
    reading, writing = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_play, args=(agent, folder, writing))
    process.start()
    writing.close()
    try:
        with suppress(EOFError):
            while True:
                yield reading.recv()
        process.join()
        if process.exitcode != code:
            raise _ProcessFailed(f"exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _play(agent: str, folder: Path, writing: "Connection") -> None:
    from ..crash_demo import play

    for name in [*filter(_IS_FOREIGN.match, os.environ)]:
        del os.environ[name]
    play(agent, folder, lambda call, what: writing.send((call, what)))


def _show(settings: Settings, call: str, what: str) -> None:
    """Print what happens to a call of the agent; one that is done has a line of its own."""
    from rich.text import Text

    from ..crash_demo import CALLS
    from ..views.lines import symbols_for

    console = output()
    signs = symbols_for(console)
    width = max(map(len, CALLS)) + 2
    match what:
        case "done":
            console.print(Text.assemble((f"  {signs.ok} ", "green"), call))
        case "killed":
            console.print(Text.assemble((f"  {signs.failed} ", "red"), call.ljust(width), settings.say("crash_killed")))
            console.print(settings.say("crash_restarts"))
        case "checked":
            told = Text.assemble((f"  {signs.unknown} ", "bold yellow"), call.ljust(width), settings.say("crash_asks"))
            console.print(told)


def _print_ledger(settings: Settings, runs: dict[str, _Run]) -> None:
    """A row for each call, and one for the bank."""
    from rich.table import Table
    from rich.text import Text

    from ..crash_demo import AMOUNT, CALLS

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("", *runs):
        table.add_column(heading)
    styles = {"crash_checked": "green", "crash_repeated": "red"}
    for call in CALLS:
        outcomes = [run.outcome(call) for run in runs.values()]
        table.add_row(call, *(Text(settings.say(name), style=styles.get(name, "")) for name in outcomes))
    paid = [
        Text(
            settings.say(
                "crash_paid_once" if run.paid == 1 else "crash_paid_more", amount=f"{run.paid * AMOUNT:,}", n=run.paid
            ),
            style="bold green" if run.paid == 1 else "bold red",
        )
        for run in runs.values()
    ]
    table.add_row(Text(settings.say("crash_bank"), style="bold"), *paid)
    echo("")
    output().print(table)
    echo("")
