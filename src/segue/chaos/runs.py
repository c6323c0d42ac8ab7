"""What a run of a session left: the world around it, its journal, and the calls in its database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.records import Json
from . import evidence
from .child import DATABASE, JOURNAL
from .traps import read_journal
from .world import Outside, Snapshot


@dataclass(frozen=True)
class Run:
    """What a run left. `landing` is how many seconds after a check's answer an effect arrived."""

    world: Outside
    namespace: str
    before: Any
    after: Any
    journal: Sequence[Json]
    calls: Mapping[str, Json]
    landing: float | None = None

    @classmethod
    def read(
        cls, folder: Path, world: Outside, namespace: str, before: Any, after: Any, landing: float | None = None
    ) -> "Run":
        """The run of a folder."""
        journal, calls = read_journal(folder / JOURNAL), evidence.calls(folder / DATABASE)
        return cls(world, namespace, before, after, journal, calls, landing)

    @property
    def snapshot(self) -> Snapshot:
        """The world after it."""
        return self.after, self.namespace

    def of(self, moment: str, label: str) -> list[Json]:
        """The lines of a call in the journal."""
        return [line for line in self.journal if line["moment"] == moment and line.get("label") == label]

    def outcome(self, label: str) -> Json | None:
        """The outcome of a call in the database."""
        name, _, number = label.partition("#")
        intents = [line for line in self.journal if line["moment"] == "intent" and line["name"] == name]
        key = intents[int(number) - 1]["key"] if len(intents) >= int(number) else ""
        outcome: Json | None = self.calls.get(key, {}).get("outcome")
        return outcome

    def is_unknown(self, label: str) -> bool:
        """Whether the call is flagged: it may or may not have taken effect."""
        return evidence.is_unknown(self.outcome(label))

    @property
    def effects(self) -> list[Json]:
        """The calls that began: [{"tool", "arguments"}]."""
        begun = [line for line in self.journal if line["moment"] == "start"]
        return [{"tool": line["name"], "arguments": line["arguments"]} for line in begun]
