"""The audit log: who decided what, chained by digests, and digests of the rows that stood then."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict

from .actor import actor
from .agents import load_table
from .calls import WAITS
from .errors import ConfigurationError
from .json import Public
from .records import STORED_AS_JSON, Json, Moment, Record
from .task import ENDED

BEGUN: Final = "began"
"""The action of the entry behind those that seal what was stored before there was a log."""
DELETED: Final = "deleted"
RECOVERED: Final = "recovered"
"""The action of an entry for a session whose damaged rows were replaced."""
SHORT: Final = 8
"""Hexadecimal digits of a row's digest in a seal: they say which row differs, the whole digest that one does."""


class AuditSettings(BaseModel):
    """Whether a database has an audit log, and where its head is written."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    """Start the log if the database has none. Once started, it stays enabled in every process."""
    anchor: str = ""
    """A file outside the database, to which the log's head is appended every hour and at the end of the process."""


def load_audit(path: str | Path) -> AuditSettings | None:
    """The `[audit]` table of an agents file; None where it has none."""
    return load_table(path, "audit", AuditSettings)


@dataclass(frozen=True)
class Act:
    """What somebody decided. `details` hold ids and names, and nothing that was said."""

    action: str
    details: Json = field(default_factory=dict)
    actor: str = field(default_factory=actor)


@dataclass(frozen=True)
class AuditHead:
    """The newest entry, which stands for all before it."""

    position: int
    digest: str

    def __str__(self) -> str:
        return f"{self.position}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a head as `str` writes it."""
        position, _, digest = text.strip().partition(":")
        if not position.isdecimal() or len(digest) != sha256().digest_size * 2:
            raise ConfigurationError(
                "'{text}' is not a head of an audit log: `segue audit --head` prints one.", text=text[:80]
            )
        return cls(int(position), digest)


@dataclass(frozen=True, kw_only=True)
class AuditEntry(Record):
    """An entry of the log. `seals` say what was stored then; `previous` is the digest of the entry before it."""

    row_name = "entry {position} of the audit log"
    is_recoverable = False

    position: int
    moment: Moment
    actor: str
    action: str
    session_id: str
    task_id: str
    user_id: str
    details: Annotated[Json, STORED_AS_JSON]
    seals: Annotated[Json, STORED_AS_JSON]
    previous: str
    digest: str

    def json(self) -> Json:
        """The public form."""
        return {name: value for name, value in vars(self).items() if name not in ("seals", "previous")}


class Row(Protocol):
    """Values by name."""

    def __getitem__(self, name: str, /) -> Any: ...


_CHAINED = ("position", "moment", "actor", "action", "thread_id", "task_id", "user_id", "details", "seals", "previous")


def entry_digest(row: Row, position: int | None = None) -> str:
    """The digest of an entry's row, at its own position or another one."""
    values = [row[name] for name in _CHAINED]
    return _digest(values if position is None else [position, *values[1:]])


def row_digest(row: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """The digest of a row, without its place among others; a column that is empty counts as one that is not there."""
    return _digest({name: row[name] for name in sorted(row) if name not in without and row[name] is not None})


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, separators=(",", ":"), default=repr).encode()).hexdigest()


_ALWAYS: Final = ("task_id", "thread_id", "user_id", "message", "created_at", "copy_of", "attachments", "client_tools")
"""Columns of a task that never change."""
_AT_THE_END: Final = (*_ALWAYS, "status", "result", "answer", "notes", "asked_by")
"""Those that do not change any more once it has ended."""


@dataclass(frozen=True)
class Seal:
    """Digests of a task's row, events and calls as they stood together.

    What cannot change any more is in `fixed` (`is_over`: also the result), in `events`, and in `calls` but for those
    at the places `open`, which run, wait or were set aside.
    """

    task: str
    events: tuple[str, ...]
    calls: tuple[str, ...]
    whole: str
    fixed: str = ""
    is_over: bool = False
    open: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, task: Mapping[str, Any], events: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]
    ) -> Self:
        """Seal a task's rows, events by their numbers and calls in the order of their intents."""
        of_task = row_digest(task, ("position",))
        of_events = [row_digest(event, ("seq",)) for event in events]
        of_calls = [row_digest(call, ("position",)) for call in calls]
        whole = _digest([of_task, [[row["seq"] for row in events], of_events], of_calls])
        is_over = task["status"] in ENDED
        columns = _AT_THE_END if is_over else _ALWAYS
        fixed = _digest([task[name] for name in columns])[:SHORT] + _digest([task[name] for name in _ALWAYS])[:SHORT]
        running = tuple(
            place
            for place, call in enumerate(calls)
            # its row may still change: it runs, its result comes later, or its session went back behind it
            if call["state"] != "done" or call["orphaned"] or _waits(call["outcome"])
        )
        return cls(of_task[:SHORT], _shortened(of_events), _shortened(of_calls), whole, fixed, is_over, running)

    def json(self) -> Json:
        form: Json = {"task": self.task, "events": "".join(self.events), "calls": "".join(self.calls)}
        return {**form, "sha256": self.whole, "fixed": self.fixed, "over": self.is_over, "open": [*self.open]}

    @classmethod
    def read(cls, form: Mapping[str, Any]) -> Self:
        """Read the form of `json`."""
        rest = str(form.get("fixed", "")), bool(form.get("over")), tuple(map(int, form.get("open", ())))
        return cls(form["task"], _parts(form["events"]), _parts(form["calls"]), form["sha256"], *rest)

    def rewritten(self, later: "Seal") -> "Iterator[tuple[Kind, str, int]]":
        """What a later seal of the same task has otherwise though it cannot change: its kind, table and place."""
        if self.fixed and later.fixed:
            is_same = self.fixed[SHORT:] == later.fixed[SHORT:]
            if self.is_over:
                is_same = later.is_over and self.fixed == later.fixed
            if not is_same:
                yield "changed", "tasks", 0
        for kind, place in differences(self.events, later.events[: len(self.events)]):
            yield kind, "events", place
        kept, left = [each for place, each in enumerate(self.calls) if place not in self.open], iter(later.calls)
        if self.fixed and not all(each in left for each in kept):
            yield from ((kind, "calls", place) for kind, place in _rewritten_calls(self, later))


def _rewritten_calls(before: Seal, later: Seal) -> "Iterator[tuple[Kind, int]]":
    for kind, place in differences(before.calls, later.calls):
        if kind != "inserted" and (kind == "changed" or place < len(before.calls)) and place not in before.open:
            yield kind, place


def _waits(outcome: Any) -> bool:
    """Whether what a row has of a call's outcome says that its result comes later; a damaged one says nothing."""
    try:
        stored = json.loads(outcome)
    except (ValueError, TypeError):
        return False
    return isinstance(stored, dict) and WAITS in stored


def _shortened(digests: Sequence[str]) -> tuple[str, ...]:
    return tuple(digest[:SHORT] for digest in digests)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text[place : place + SHORT] for place in range(0, len(text), SHORT))


Kind = Literal["changed", "removed", "inserted", "reordered", "truncated"]
"""What was done to a row: `truncated` is removed from the end."""


def differences(sealed: Sequence[str], found: Sequence[str]) -> Iterator[tuple[Kind, int]]:
    """What became of rows in an order, by their digests: the place of each, of one that is gone its former place."""
    gone: dict[int, str] = {}
    new: dict[int, str] = {}
    changed: dict[int, str] = {}
    for what, i, until_i, j, until_j in SequenceMatcher(None, sealed, found, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        both = min(until_i - i, until_j - j)
        changed |= {j + n: sealed[i + n] for n in range(both)}
        gone |= {place: sealed[place] for place in range(i + both, until_i)}
        new |= {place: found[place] for place in range(j + both, until_j)}
    moved = {*gone.values(), *changed.values()} & {*new.values(), *(found[place] for place in changed)}
    for place in changed:
        yield ("reordered" if found[place] in moved else "changed"), place
    for place, digest in new.items():
        yield ("reordered" if digest in moved else "inserted"), place
    for place, digest in gone.items():
        if digest not in moved:
            yield ("truncated" if place >= len(found) else "removed"), place


@dataclass(frozen=True)
class Finding(Public):
    """A row that is not what the log says. `row` is empty where it cannot be told which one of the task it is."""

    kind: Kind
    table: str
    session_id: str = ""
    task_id: str = ""
    row: str = ""

    def json(self) -> Json:
        return {**vars(self)}


@dataclass(frozen=True)
class AuditReport(Public):
    """What a verification found. The rows of the tasks in `unsealed` are not all covered: they go on or run."""

    head: AuditHead | None
    findings: Sequence[Finding] = ()
    unsealed: Sequence[str] = ()
    complete: bool = True
    """Whether everything is sealed that was stored before the log was begun."""

    @property
    def ok(self) -> bool:
        return self.head is not None and not self.findings

    def json(self) -> Json:
        """The public form."""
        found = [finding.json() for finding in self.findings]
        head = None if self.head is None else vars(self.head)
        return {"ok": self.ok, "head": head, "findings": found, "unsealed": [*self.unsealed], "complete": self.complete}
