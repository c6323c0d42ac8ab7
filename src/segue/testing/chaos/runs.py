"""What a run of a session left, and what a hunt finds in it."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from ...core.errors import ConfigurationError
from ...core.records import Json
from ...prompts.catalogue import chaos_text
from . import evidence
from .child import DATABASE, JOURNAL
from .traps import read_journal
from .world import Change, Outside, Snapshot

# What a hunt finds of tools: the kinds, each with its advice, and the outcome of a whole hunt.

KINDS = (
    "not_idempotent",
    "check_too_early",
    "undo_incomplete",
    "writes_although_read_only",
    "could_be_idempotent",
    "result_differs",
    "no_timeout",
    "hidden_effect",
    "no_effect",
    "left_behind",
    "invariant",
)
ADVICE = "could_be_idempotent"
"""The kind that is advice and no fault."""


@dataclass(frozen=True)
class Finding:
    """What a tool does that is not safe; `repeat` is the command that shows it again, alone.

    `sentence` is the id of a text of the catalogue, `slots` are its values; `trace` is the journal of the run.
    """

    tool: str
    kind: str
    fault: str
    run: str
    sentence: str
    slots: Mapping[str, Any] = field(default_factory=dict)
    change: Change = field(default_factory=Change)
    trace: Sequence[Json] = ()
    repeat: str = ""

    @classmethod
    def read(cls, form: Json) -> Self:
        """A finding as `asdict` wrote it, also to JSON."""
        return cls(**{**form, "change": Change.read(form["change"]), "trace": tuple(form["trace"])})

    def detail(self, language: str = "en") -> str:
        """What happened, in a sentence."""
        return chaos_text(self.sentence, language, change=self.change.described(language), **self.slots)

    def title(self, language: str) -> str:
        """What its kind is called."""
        return chaos_text(f"kind_{self.kind}", language)

    def about(self, language: str) -> str:
        """What its kind means, in a sentence."""
        return chaos_text(f"about_{self.kind}", language)

    def advice(self, language: str) -> str:
        """What to change."""
        return chaos_text(f"advice_{self.kind}", language)

    def happened(self, language: str) -> str:
        """The fault, and what came of it."""
        fault = f"fault_{self.fault.replace('-', '_')}"
        name = chaos_text(fault, language) if fault in chaos_text else self.fault
        return chaos_text("happened", language, fault=name, detail=self.detail(language))

    def described(self, language: str = "en") -> str:
        """All that a person needs to know of it, in lines."""
        title = f"{self.tool}: {self.title(language)} ({self.kind})"
        return "\n  ".join([title, self.happened(language), self.advice(language), self.repeat])

    def json(self) -> Json:
        """{"tool", "kind", "fault", "detail", "repeat"}."""
        about = {"tool": self.tool, "kind": self.kind, "fault": self.fault}
        return {**about, "detail": self.detail(), "repeat": self.repeat}

    def kept(self) -> Json:
        """All of it as JSON, which `read` reads."""
        return asdict(self)


@dataclass
class Hunted:
    """The outcome: how many runs there were, and what they found.

    `left` are the runs that the budget left out, `failed` those that did not come to an end, with the reason. `resumed`
    runs were carried out by an earlier hunt that was stopped. `notes` say by the id of a sentence what could not be
    tried, and of which tools.
    """

    runs: int = 0
    findings: list[Finding] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    resumed: int = 0
    seed: int = 0
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_safe(self) -> bool:
        """Whether nothing but advice was found, and every run came to an end."""
        return not self.faults and not self.failed

    @property
    def faults(self) -> list[Finding]:
        """The findings that are no mere advice."""
        return [found for found in self.findings if found.kind != ADVICE]

    def json(self) -> Json:
        """{"runs", "findings": [{"tool", "kind", "fault", "detail", "repeat"}], "seed", "left", "failed", "notes"}."""
        found = [finding.json() for finding in self.findings]
        about = {"seed": self.seed, "left": self.left, "failed": self.failed, "notes": self.noted()}
        return {"runs": self.runs, "findings": found, **about}

    def noted(self, language: str = "en") -> list[str]:
        """What could not be tried, in sentences."""
        return [chaos_text(name, language, tools=", ".join(tools)) for name, tools in self.notes.items()]

    def __iadd__(self, other: "Hunted") -> Self:
        self.runs, self.resumed = self.runs + other.runs, self.resumed + other.resumed
        self.findings = distinct([*self.findings, *other.findings])
        self.left, self.failed = self.left + other.left, self.failed | other.failed
        for name, tools in other.notes.items():
            self.notes[name] = [*dict.fromkeys([*self.notes.get(name, ()), *tools])]
        return self


def distinct(found: Sequence[Finding]) -> list[Finding]:
    """One finding of each kind for each tool, the first."""
    return [*{(finding.tool, finding.kind): finding for finding in reversed(found)}.values()][::-1]


# The finished runs of a hunt, in a file of its folder: a hunt that was stopped goes on behind them.

FILE = "runs.jsonl"


class Finished:
    """The finished runs of the hunt with this digest; a folder of another hunt is emptied."""

    def __init__(self, folder: Path, digest: str, *, fresh: bool = False) -> None:
        self._file = folder / FILE
        self.runs: dict[str, list[Finding]] = {}
        if folder.exists() and not self._file.exists() and any(folder.iterdir()):
            raise ConfigurationError(
                "The folder {folder} contains other files: name another one with --output.", folder=folder
            )
        lines = self._lines()
        if lines and lines[0] == {"digest": digest} and not fresh:
            self.runs = {line["run"]: [Finding.read(found) for found in line["findings"]] for line in lines[1:]}
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._append({"digest": digest})

    def _lines(self) -> list[Json]:
        """The lines that were written whole."""
        if not self._file.exists():
            return []
        text = self._file.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # the process was killed while it wrote
            self._file.write_text(whole, encoding="utf-8")
        return [json.loads(line) for line in whole.splitlines()]

    def add(self, run: str, findings: Sequence[Finding]) -> None:
        """Keep what a run found."""
        self.runs[run] = [*findings]
        self._append({"run": run, "findings": [found.kept() for found in findings]})

    def _append(self, line: object) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


# What a run of a session left: the world around it, its journal, and the calls in its database.


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
