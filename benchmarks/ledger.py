"""Kill `create_agent` after each write and each effect, with and without the ledger: `python -m benchmarks.ledger`.

A number has it killed at every n-th of them only.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver

import segue
from segue.checkpoints.sqlite.database import SqliteSession
from segue.runtime import graph_calls  # noqa: F401 - imported before the forks

BATCHES = (("find_invoice", "find_vendor"), ("check_budget",), ("pay_invoice",), ("send_receipt",), ("close_invoice",))
"""The calls of each reply of the model; those of one reply run in parallel."""
CALLS = [name for batch in BATCHES for name in batch]
THREAD: Any = {"configurable": {"thread_id": "clerk"}}
PLAIN, LEDGER, CHECKED = "create_agent alone", "with `segue.Ledger`", "and a `check` for each tool"
Kind = str
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""What a process wrote outlives it in memory, too."""


class Script(BaseChatModel):
    """Makes the calls in their order, whatever they return, then answers."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        made = sum(isinstance(message, AIMessage) for message in messages)
        reply = AIMessage("The invoice is paid.")
        if made < len(BATCHES):
            reply = AIMessage("", tool_calls=[tool_call(name=name, args={}, id=name) for name in BATCHES[made]])
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Death:
    """Kills this process at its n-th boundary; 0 counts them only."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.passed = 0

    def pass_boundary(self) -> None:
        self.passed += 1
        if self.passed == self.place:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with a boundary behind it."""

        def wrapped(*given: Any, **named: Any) -> Any:
            result = function(*given, **named)
            self.pass_boundary()
            return result

        return wrapped


def _tools(folder: Path, death: Death, kind: Kind) -> list[Any]:
    """Tools whose effect is a line of a file, synced, as if another system kept it."""

    def make(name: str) -> Any:
        def effect() -> str:
            with (folder / "effects.txt").open("a", encoding="utf-8") as effects:
                effects.write(f"{name}\n")
                effects.flush()
                os.fsync(effects.fileno())
            death.pass_boundary()
            return f"{name} is done."

        def has_effect() -> object:
            return f"{name} is done." if name in _effects(folder) else segue.NOT_DONE

        effect.__name__, effect.__doc__ = name, f"{name}."
        return segue.tool(check=has_effect)(effect) if kind == CHECKED else effect

    return [make(name) for name in CALLS]


def _effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _run(folder: Path, kind: Kind, place: int) -> None:
    """Begin the task, or continue it, and write down how it ended."""
    death = Death(place)
    with SqliteSaver.from_conn_string(str(folder / "state.db")) as saver:
        begun = saver.get_tuple(THREAD) is not None
        saver.put = death.after(saver.put)  # type: ignore[method-assign]
        saver.put_writes = death.after(saver.put_writes)  # type: ignore[method-assign]
        ledgers = [] if kind == PLAIN else [segue.Ledger(folder / "ledger.db")]
        SqliteSession.commit = death.after(SqliteSession.commit)  # type: ignore[method-assign]
        agent = create_agent(Script(), _tools(folder, death, kind), middleware=ledgers, checkpointer=saver)
        given: Any = None if begun else {"messages": [HumanMessage("Pay the invoice")]}
        messages = agent.invoke(given, THREAD, durability="sync")["messages"]
    ended = {"boundaries": death.passed, "messages": [[each.type, each.text] for each in messages]}
    (folder / "ended.json").write_text(json.dumps(ended), encoding="utf-8")


def _in_child(folder: Path, kind: Kind, place: int) -> int:
    """Run in a forked process; returns the signal that killed it, or 0."""
    child = os.fork()
    if child == 0:
        try:
            _run(folder, kind, place)
        except BaseException:  # noqa: BLE001 - it is a process of its own
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"{kind}, boundary {place}: the run failed")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@dataclass
class Counts:
    """What became of a kind's deaths."""

    deaths: int = 0
    repeated: int = 0
    """An effect happened twice."""
    missing: int = 0
    """An effect did not happen, and its call was not reported as unknown."""
    unknown: int = 0
    """A call was reported as unknown."""
    same: int = 0
    """It ended as an undisturbed run."""

    def row(self, kind: Kind) -> str:
        return f"| {kind} | {self.deaths} | {self.repeated} | {self.missing} | {self.unknown} | {self.same} |"


def measure(kind: Kind, every: int = 1) -> Counts:
    """Kill a task at each boundary, or at every n-th one, and resume it."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        _in_child(Path(place), kind, 0)
        undisturbed = json.loads((Path(place) / "ended.json").read_text(encoding="utf-8"))
    counts = Counts()
    for boundary in range(1, undisturbed["boundaries"] + 1, every):
        with tempfile.TemporaryDirectory(dir=MEMORY) as place:
            folder = Path(place)
            if _in_child(folder, kind, boundary) != signal.SIGKILL:
                continue  # parallel calls may need fewer transactions
            _in_child(folder, kind, 0)
            _judge(counts, _effects(folder), json.loads((folder / "ended.json").read_text())["messages"], undisturbed)
    return counts


def _judge(counts: Counts, effects: list[str], messages: list[list[str]], undisturbed: Any) -> None:
    unknown = [text for type_, text in messages if type_ == "tool" and text.startswith("unknown_outcome")]
    named = [name for name in CALLS if any(name in text for text in unknown)]
    counts.deaths += 1
    counts.repeated += any(effects.count(name) > 1 for name in CALLS)
    counts.missing += any(name not in effects and name not in named for name in CALLS)
    counts.unknown += bool(unknown)
    counts.same += messages == undisturbed["messages"] and sorted(effects) == sorted(CALLS)


def table(every: int = 1) -> str:
    """The measurement in Markdown."""
    lines = [
        "| | deaths | an effect repeated | one missing | reported as unknown | ended as undisturbed |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    return "\n".join([*lines, *(measure(kind, every).row(kind) for kind in (PLAIN, LEDGER, CHECKED))])


if __name__ == "__main__":
    print(table(*map(int, sys.argv[1:])))
