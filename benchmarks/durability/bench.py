"""One adapter on the bench: two hosts, the scripted model, and folders; what a row is, and its cell."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.durability.host import Host, adapter_named
from benchmarks.durability.model import Model
from benchmarks.durability.work import Work

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""What a process wrote outlives it in memory, too."""
LOGS = Path("build/durability")


@dataclass(frozen=True)
class Cell:
    """What a judge says: whether nothing was lost, repeated or untrue, and what happened."""

    held: bool
    text: str

    def __str__(self) -> str:
        return f"{'✓' if self.held else '✗'} {self.text}"


class Bench:
    """An adapter in two host processes, `first` and `second`."""

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter
        self.not_offered: dict[str, str] = vars(adapter_named(adapter)).get("NOT_OFFERED", {})
        """What the framework does not offer: rows, or cases of a row, with why."""
        self.model = Model().start()
        self.first, self.second = (Host(adapter, name, lambda: self.model.owed) for name in ("first", "second"))

    @contextlib.contextmanager
    def works(self) -> Iterator[Callable[..., Work]]:
        """A new folder, and what makes the works in it; what its processes printed is kept in `LOGS`."""
        folder = Path(tempfile.mkdtemp(dir=MEMORY))
        try:
            yield lambda **given: Work(folder, self.model.base_url, **given)
        finally:
            if (folder / "log.txt").exists():
                LOGS.mkdir(parents=True, exist_ok=True)
                with (LOGS / f"{self.adapter}.txt").open("a", encoding="utf-8") as kept:
                    kept.write((folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.first.stop()
        self.second.stop()
        self.model.stop()


@dataclass(frozen=True)
class Row:
    """A history that every adapter goes through, and its judge."""

    name: str
    title: str
    history: str
    meaning: str
    """What a cell says to a person."""
    judge: Callable[[Bench], Cell]


def results(messages: list[dict[str, Any]]) -> dict[str, str]:
    """What the model was told of each call, by the tool's name."""
    names = {call["id"]: call["function"]["name"] for each in messages for call in each.get("tool_calls") or ()}
    return {
        names[each["tool_call_id"]]: str(each["content"])
        for each in messages
        if each["role"] == "tool" and each["tool_call_id"] in names
    }
