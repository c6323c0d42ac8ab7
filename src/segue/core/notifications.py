"""Notifications: the receivers that an agents file names, and what they are told of tasks."""

import json
import uuid
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .agents import Items, first_fault, list_tables
from .errors import ConfigurationError
from .events import ASKING, ApprovalRequested, Event, QuestionAsked, Resumed
from .records import STORED_AS_JSON, Count, Json, Moment, Name, Record, Task
from .schedules import EXPIRY, ApprovalSettings, LaterKind
from .task import ACTIVE, TaskStatus
from .variables import is_variable

Kind = Literal["waiting", "done", "error", "limit", "cancelled", "taken_over", "expired"]
KINDS: Final[tuple[Kind, ...]] = ("waiting", "done", "error", "limit", "taken_over", "expired")
"""What a receiver is told where it says nothing else."""
PUSH: Final = "a2a:push"
"""The receiver of the push notifications of A2A: no configured receiver can have this name."""
StoredKind = Literal[Kind, LaterKind, "stopped"]
"""What a notification may tell; `stopped` is that of a push notification."""
MOST_CHARS = 2_000
"""Characters of a text, and of the arguments of a call, in a notification."""
LEAST_SECRET = 24
"""Bytes of a secret, as the Standard Webhooks specification asks for."""
MARK = "whsec_"
"""Begins a secret of Standard Webhooks."""


class Receiver(BaseModel):
    """Who is told what becomes of tasks: a webhook, a command, or a mail or chat service."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=r"^[\w.-]+$", max_length=64)
    """Its name in lists, also of undelivered notifications."""
    on: Items[Kind] = KINDS
    """What it is notified of: `waiting` for a person, `done`, `error`, `limit` (a budget of the agent was reached),
    `cancelled`, `taken_over` (a task continues after its process ended), and `expired` (an approval expired)."""
    agents: Items[str] = ()
    """The agents whose tasks to report; empty: all."""
    url: str = Field(default="", pattern=r"^(https?://.+)?$")
    """The address of a webhook."""
    secret: str = ""
    """The environment variable with the secret that signs a webhook, or `${VARIABLE}`; of several secrets, separated by
    spaces, each signs."""
    allow_private: bool = False
    """Let the webhook go to an address that is not public."""
    command: Items[str] = ()
    """A program and its arguments; it reads the notification as JSON from stdin."""
    to: str = ""
    """The Apprise URL of a mail or chat service, or the environment variable with it; needs the extra `notify`."""
    timeout: float = Field(default=10, gt=0, le=50)
    """Seconds per attempt."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(map(bool, (self.url, self.command, self.to))) != 1:
            raise ValueError("give exactly one of url, command and to")
        if bool(self.url) != bool(self.secret):
            raise ValueError("url and secret go together: secret names the environment variable with the secret")
        if self.allow_private and not self.url:
            raise ValueError("allow_private goes with a url")
        return self

    def wants(self, task: Task, kinds: Sequence[Kind]) -> Kind | None:
        """The first of the kinds that it is told of this task."""
        if self.agents and task.agent_id not in self.agents:
            return None
        return next((kind for kind in kinds if kind in self.on), None)

    def keys(self, environ: Mapping[str, str]) -> list[bytes]:
        """The keys that its webhook is signed with."""
        own = self.secret if is_variable(self.secret) else ""
        found = [_key(text) for text in environ.get(self.secret, own).split()]
        keys = [key for key in found if key is not None]
        if not found or len(keys) < len(found):
            raise ConfigurationError(
                "The secret of the receiver {name} is not base64 of at least {least} bytes: set "
                "{variable}, for example to the output of `openssl rand -base64 32`.",
                name=self.name,
                least=LEAST_SECRET,
                variable=self.secret,
            )
        return keys

    def service(self, environ: Mapping[str, str]) -> str:
        """Its Apprise URL."""
        if "://" in self.to:
            return self.to
        if url := environ.get(self.to, "").strip():
            return url
        raise ConfigurationError(
            "The receiver {name} needs an Apprise URL: set {variable}, or write the URL as its `to`.",
            name=self.name,
            variable=self.to,
        )

    def check_address(self) -> None:
        """Refuse an address that can be seen not to be public."""
        host = urlsplit(self.url).hostname or ""
        try:
            private = not ip_address(host).is_global
        except ValueError:
            private = host == "localhost" or host.endswith(".localhost")
        if private and not self.allow_private:
            raise ConfigurationError(
                "The webhook of the receiver {name} goes to {host}, which is not a public address: allow_private = "
                "true allows it.",
                name=self.name,
                host=host,
            )


def _key(text: str) -> bytes | None:
    try:
        key = b64decode(text.removeprefix(MARK), validate=True)
    except ValueError:
        return None
    return key if len(key) >= LEAST_SECRET else None


def load_receivers(path: str | Path) -> list[Receiver]:
    """Read receivers from an agents file: one `[[notify]]` table each, fields as in `Receiver`.

    Raises:
        ConfigurationError: naming the file, the receiver and the field that is wrong.
    """
    return [_receiver_of(table, path) for table in list_tables(path, "notify")]


def _receiver_of(table: Json, path: str | Path) -> Receiver:
    try:
        return Receiver(**table)
    except ValidationError as error:
        where, reason = first_fault(error)
        raise ConfigurationError(
            "The receiver '{name}' in {file}: {where}{reason}.",
            name=table.get("name", "?"),
            file=path,
            where=where,
            reason=reason,
        ) from None


@dataclass(frozen=True, kw_only=True)
class Notification(Record):
    """What a receiver is still to be told; `due` is when it is tried next, None where it is not tried any more.

    `attempts` counts the one under way, `error` is why the last one failed, and `body` is what is sent.
    """

    row_name = "notification of task {task_id}"
    is_recoverable = False

    notification_id: Name
    session_id: str
    task_id: str
    receiver: Name
    kind: str
    body: Annotated[Json, STORED_AS_JSON]
    created_at: Moment
    due: float | None
    attempts: Count
    error: str | None

    @property
    def is_dead(self) -> bool:
        """Whether it is not tried any more, until it is replayed."""
        return self.due is None

    def json(self) -> Json:
        """The public form, without the body."""
        names = ("notification_id", "task_id", "session_id", "receiver", "kind", "attempts", "error", "created_at")
        about = {name: getattr(self, name) for name in names}
        return {**about, "status": "dead" if self.is_dead else "pending", "next_attempt": self.due}


class Receivers:
    """The receivers of a process, each with a name of its own, and the deadlines of approvals."""

    def __init__(self, receivers: Iterable[Receiver] = (), deadlines: ApprovalSettings | None = None) -> None:
        self._receivers = [*receivers]
        self._deadlines = deadlines or ApprovalSettings()
        if not all(isinstance(each, Receiver) for each in self._receivers):
            raise ConfigurationError("notify must be a list of segue.Receiver objects; load_receivers(FILE) reads one.")
        names = [each.name for each in self._receivers]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError("More than one receiver is called '{name}': rename one.", name=min(twice))
        if unknown := set(self._deadlines.escalate_to) - set(names):
            raise ConfigurationError(
                "Approvals are escalated to '{name}', which is not a receiver: define it in [[notify]].",
                name=min(unknown),
            )

    def __iter__(self) -> Iterator[Receiver]:
        return iter(self._receivers)

    def told(self, before: Task, task: Task, events: Sequence[Event]) -> list[tuple[str, Kind]]:
        """The receivers that are told of a change of a task, by name, and of what kind it is to each."""
        kinds = kinds_of(before, task, events) if self._receivers else ()
        return [(each.name, kind) for each in self if (kind := each.wants(task, kinds))]

    def told_later(self, task: Task, events: Sequence[Event]) -> list[tuple[str, LaterKind, float]]:
        """What is due while the approval waits that a task just asked for: receiver, kind, and seconds from now."""
        if not any(isinstance(event, ApprovalRequested) for event in events):
            return []
        times, found = self._deadlines, list[tuple[str, LaterKind, float]]()
        if times.remind_after:
            reminded = [each.name for each in self if each.wants(task, ["waiting"])]
            found += [(name, "reminder", times.remind_after) for name in reminded]
        if times.escalate_after:
            found += [(name, "escalation", times.escalate_after) for name in times.escalate_to]
        if times.expire_after:
            found.append((EXPIRY, "expiry", times.expire_after))
        return found


def kinds_of(before: Task, task: Task, events: Sequence[Event]) -> Sequence[Kind]:
    """What a change of a task is, the most specific first; empty where nobody is told."""
    match task.status:
        case TaskStatus.WAITING:
            asks = any(isinstance(event, ASKING) and not getattr(event, "client_calls", ()) for event in events)
            expired = task.error is not None and before.error is None
            return ("waiting",) if asks else ("expired",) if expired else ()
        case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.PAUSING:
            resumed = before.status in ACTIVE and any(isinstance(event, Resumed) for event in events)
            return ("taken_over",) if resumed else ()
        case TaskStatus.ERROR:
            return ("limit", "error") if (task.result or {}).get("limit") else ("error",)
        case TaskStatus.DONE:
            return ("done",)
        case TaskStatus.CANCELLED:
            return ("cancelled",)
        case TaskStatus.PAUSED:
            return ()


def new_id() -> str:
    """The id of a notification, by which a receiver knows one that comes twice."""
    return f"msg_{uuid.uuid4().hex}"


def body_of(notification_id: str, kind: Kind | LaterKind, task: Task, events: Sequence[Event]) -> Json:
    """What a receiver is sent: {id, type, timestamp, data}."""
    result = task.result or {}
    data: Json = {
        "task_id": task.task_id,
        "session_id": task.session_id,
        "agent_id": task.agent_id,
        "user_id": task.user_id,
        "status": str(task.status),
        "language": task.reply_language,
        "message": _short(task.message),
    }
    more: Json = {
        "question": next((_question(event) for event in events if isinstance(event, ASKING)), None),
        "answer": _short(str(result.get("answer") or "")) if task.status != TaskStatus.WAITING else "",
        "error": _short(task.error or ""),
        "limit": result.get("limit", ""),
    }
    moment = datetime.fromtimestamp(task.updated_at, UTC).isoformat(timespec="milliseconds")
    data |= {name: value for name, value in more.items() if value}
    return {"id": notification_id, "type": f"task.{kind}", "timestamp": moment.replace("+00:00", "Z"), "data": data}


def _question(event: Any) -> Json:
    """What is asked: {interrupt_id, kind}, and calls or question and choices."""
    if isinstance(event, QuestionAsked):
        choices = {"choices": event.choices} if event.choices else {}
        about: Json = {"kind": "question", "question": _short(event.question), **choices}
    else:
        about = {"kind": "approval", "calls": [_call(call) for call in event.calls]}
    return {"interrupt_id": event.interrupt_id, **about}


def _call(call: Mapping[str, Any]) -> Json:
    """A call that is asked about; long arguments are left to the inbox."""
    about: Json = {name: call[name] for name in ("index", "name")}
    arguments = call["arguments"]
    fits = len(json.dumps(arguments)) <= MOST_CHARS
    return {**about, "arguments": arguments} if fits else {**about, "truncated": True}


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"
