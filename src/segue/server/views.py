"""What is told of tasks, events and sessions: names as the tenant knows them, nothing of how they are stored."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

from ..app import App
from ..core.records import Json
from .sse.frames import flat
from .tenants import Tenant

Item = TypeVar("Item")
TASK_ID = "2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"


class Page(BaseModel, Generic[Item]):
    """Part of a list; `next` is the `before` of the next part, null at the end."""

    items: list[Item]
    next: str | int | None = None


class TaskView(BaseModel):
    """A task: what one message set going, and how far it got."""

    task_id: str = Field(examples=[TASK_ID])
    session_id: str = Field(examples=["session_123"])
    agent_id: str = Field(examples=["travel"])
    user_id: str
    mode: str = Field(examples=["react"])
    model: str
    status: str = Field(
        description="pending, running, waiting, pausing, paused, done, error or cancelled", examples=["done"]
    )
    message: str
    error: str | None
    result: dict[str, Any] | None
    rating: int | None
    created_at: float
    updated_at: float


class SessionView(BaseModel):
    """A session: its turns, and how the last one stands."""

    session_id: str
    turns: int
    message: str = Field(description="the last message")
    status: str
    updated_at: float


class Origin(BaseModel):
    """Where a forked session comes from."""

    session_id: str
    checkpoint_id: str


class SnapshotView(BaseModel):
    """A place that a session can be forked at: `nodes` ran last, `next` would run."""

    checkpoint_id: str
    created_at: float
    source: str | None
    step: int | None
    inside: str
    task_id: str | None
    nodes: list[str]
    next: list[str]
    forked_from: Origin | None


class EventView(BaseModel, extra="allow"):
    """An event, with the fields of its type beside these."""

    type: str
    task_id: str
    trace_id: str
    step_id: str
    iteration: int
    seq: int
    timestamp: float


class CallView(BaseModel):
    """A tool call as the ledger has it: once begun, with its outcome once done."""

    scope: str
    idx: int
    name: str
    arguments: dict[str, Any]
    outcome: dict[str, Any] | None
    state: str
    started_at: float
    finished_at: float | None


class TraceView(BaseModel):
    """Everything about a task."""

    task: TaskView
    events: list[EventView]
    calls: list[CallView]
    question: dict[str, Any] | None = Field(description="what a person is asked, while it waits")


def task_view(row: Mapping[str, Any], tenant: Tenant) -> Json:
    """The fields of a `TaskView`."""
    view = {name: row.get(name) for name in TaskView.model_fields}
    view["session_id"], view["user_id"] = tenant.shown(row["thread_id"]), tenant.shown(row["user_id"])
    if row["error"]:
        view["error"] = tenant.told(row["error"])
    if row["result"] and row["result"].get("error"):
        view["result"] = {**row["result"], "error": tenant.told(str(row["result"]["error"]))}
    return view


def session_view(row: Mapping[str, Any], tenant: Tenant) -> Json:
    """The fields of a `SessionView`."""
    kept = {name: row[name] for name in SessionView.model_fields if name != "session_id"}
    return {"session_id": tenant.shown(row["thread_id"]), **kept}


def snapshot_view(row: Mapping[str, Any], tenant: Tenant) -> Json:
    """The fields of a `SnapshotView`."""
    view = {name: row.get(name) for name in SnapshotView.model_fields}
    if origin := row.get("forked_from"):
        session_id = tenant.shown(origin["thread_id"])
        view["forked_from"] = {"session_id": session_id, "checkpoint_id": origin["checkpoint_id"]}
    return view


def event_view(form: Mapping[str, Any], tenant: Tenant) -> Json:
    """An event of the log, whole."""
    view = flat(form)
    return {**view, "message": tenant.told(view["message"])} if view["type"] == "error" else view


def call_view(row: Mapping[str, Any]) -> Json:
    """The fields of a `CallView`."""
    return {name: row[name] for name in CallView.model_fields}


def trace_view(trace: Mapping[str, Any], tenant: Tenant, question: Json | None) -> Json:
    """The fields of a `TraceView`."""
    return {
        "task": task_view(trace["task"], tenant),
        "events": [event_view(form, tenant) for form in trace["events"]],
        "calls": [call_view(call) for call in trace["calls"]],
        "question": question,
    }


async def outcome(app: App, tenant: Tenant, task_id: str) -> Json:
    """The task's result with its ids and its status; of one that has none, why: its error, or its question."""
    row = await app.task(task_id)
    result = row["result"] or {"success": False, "answer": "", "mode": row["mode"]}
    ids = {"task_id": task_id, "session_id": tenant.shown(row["thread_id"]), "status": row["status"]}
    told = {**result, **ids}
    if row["error"] or told.get("error"):
        told["error"] = tenant.told(str(row["error"] or told["error"]))
    if row["status"] == "waiting":
        told["question"] = await app.question(task_id)
    return told
