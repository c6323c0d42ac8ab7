"""The bodies of responses: tasks, events, rounds and sessions, with names as the tenant knows them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from ..app import App
from ..core.records import Hit, Json, Permission, Result, Task, TaskTrace, Thread, WaitingTask
from ..core.task import TaskStatus
from ..core.timeline import Snapshot
from ..runtime.reply import PlanItem, Projection, Round
from .frames import flatten
from .markdown import render
from .tenants import Tenant

Item = TypeVar("Item")
TASK_ID = "2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"


class Page(BaseModel, Generic[Item]):
    """Part of a list; `next` is the `before` of the next part, null at the end."""

    items: list[Item]
    next: str | int | None = None


class AttachmentView(BaseModel):
    """A file of a message; its content is at `/api/sessions/{session_id}/attachments/{digest}`."""

    digest: str = Field(description="SHA-256 of the content")
    name: str
    media_type: str
    size: int
    tokens: int = Field(description="about what it counts for in a prompt")


class TaskView(BaseModel):
    """A task: the work on one message, and its status."""

    task_id: str = Field(examples=[TASK_ID])
    session_id: str = Field(examples=["session_123"])
    agent_id: str = Field(examples=["travel"])
    user_id: str
    mode: str = Field(examples=["react"])
    model: str
    status: str = Field(description=f"one of {', '.join(TaskStatus)}", examples=["done"])
    message: str
    attachments: list[AttachmentView]
    error: str | None
    result: dict[str, Any] | None
    rating: int | None
    created_at: float
    updated_at: float
    html: str | None = Field(description="with html=true the answer behind its preamble, rendered and sanitised")


class PermissionView(BaseModel):
    """A tool of an agent that runs without approval in a session, or in one task of it."""

    session_id: str = Field(examples=["session_123"])
    agent_id: str = Field(examples=["support"])
    tool: str = Field(description="its name, or with arguments a rule", examples=["refund", 'refund {"order_id": 17}'])
    scope: Literal["task", "session"]
    task_id: str = Field(description="the task whose question was answered so", examples=[TASK_ID])
    granted_at: float


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


class TracePlace(BaseModel):
    """Where the next page of a trace begins."""

    after_event: int
    after_call: int


class TraceView(BaseModel):
    """A task with its events and tool calls."""

    task: TaskView
    events: list[EventView]
    calls: list[CallView]
    question: dict[str, Any] | None = Field(description="what a person is asked, while it waits")
    next: TracePlace | None = Field(description="the parameters of the next page; null at the end")


class CallMade(BaseModel):
    """A call that a round made."""

    index: int
    name: str
    arguments: dict[str, Any]
    step_id: str
    """The plan's step that it works on; empty if none is known."""


class CallEnded(CallMade):
    """A call with its result: {"success": value} or {"error": text}."""

    result: dict[str, Any]
    seconds: float


class Recursion(BaseModel):
    """One recursion: its observation, thought, decision, calls and results."""

    trace_id: str
    iteration: int
    step_id: str
    """The plan's step that it works on; empty if none is known."""
    parent_id: str
    """The round of a flow whose branch it is part of; empty if none."""
    observe: str
    thought: str
    action: dict[str, Any] | None
    calls: list[CallMade]
    results: list[CallEnded]
    errors: list[str]


class StatusChange(BaseModel):
    """The task went from one status to another."""

    seq: int
    timestamp: float
    old: str
    new: str


class PlanStep(BaseModel, extra="allow"):
    """A step with its place in the plan, from 1, and its current status."""

    step: int
    step_id: str
    description: str
    status: str


class PlanView(BaseModel):
    """The newest plan; without steps where the task has none."""

    goal: str
    steps: list[PlanStep]


def waiting_view(row: WaitingTask, tenant: Tenant) -> Json:
    """A waiting task with names as the tenant knows them."""
    session_id, user_id = tenant.shown(row.session_id), tenant.shown(row.user_id)
    return replace(row, session_id=session_id, user_id=user_id, problem=tenant.without_prefix(row.problem)).json()


def task_view(row: Task, tenant: Tenant) -> Json:
    """The fields of a `TaskView`."""
    form = row.json()
    view = {name: form.get(name) for name in TaskView.model_fields}
    view["session_id"], view["user_id"] = tenant.shown(row.session_id), tenant.shown(row.user_id)
    if row.error:
        view["error"] = tenant.without_prefix(row.error)
    if row.result and row.result.get("error"):
        view["result"] = {**row.result, "error": tenant.without_prefix(str(row.result["error"]))}
    return view


def with_html(task: Json) -> Json:
    """A `TaskView` with its answer rendered."""
    answer = own_answer(task["result"])
    return {**task, "html": render(answer) if answer else None}


def own_answer(result: Json | None) -> str:
    """The answer without what the model said before calls."""
    known = Result(result or {})
    return known.answer.removeprefix(known.preamble)


def session_view(row: Thread, tenant: Tenant) -> Json:
    """A session with names as the tenant knows them."""
    return replace(row, session_id=tenant.shown(row.session_id), root=tenant.shown(row.root)).json()


def hit_view(hit: Hit, tenant: Tenant) -> Json:
    """A hit with names as the tenant knows them."""
    return replace(hit, session_id=tenant.shown(hit.session_id)).json()


def permission_view(row: Permission, tenant: Tenant) -> Json:
    """A permission with its session as the tenant knows it."""
    return replace(row, session_id=tenant.shown(row.session_id)).json()


def snapshot_view(row: Snapshot, tenant: Tenant) -> Json:
    """The fields of a `SnapshotView`."""
    return fields_of(SnapshotView, row, forked_from=origin_view(row.forked_from, tenant))


def origin_view(origin: Mapping[str, str] | None, tenant: Tenant) -> Json | None:
    """The fields of an `Origin`."""
    if origin is None:
        return None
    return {"session_id": tenant.shown(origin["session_id"]), "checkpoint_id": origin["checkpoint_id"]}


def event_view(form: Mapping[str, Any], tenant: Tenant) -> Json:
    """An event of the log, whole."""
    view = flatten(form)
    return {**view, "message": tenant.without_prefix(view["message"])} if view["type"] == "error" else view


def trace_view(trace: TaskTrace, after: tuple[int, int], limit: int, tenant: Tenant, question: Json | None) -> Json:
    """The fields of a `TraceView` of at most `limit` events and calls; the trace was read with one more of each.

    `after` are the number of the last event, and of calls, of the page before.
    """
    events, calls = trace.events[:limit], trace.calls[:limit]
    is_last = (len(events), len(calls)) == (len(trace.events), len(trace.calls))
    last_event, calls_before = after
    place = {"after_event": events[-1].seq if events else last_event, "after_call": calls_before + len(calls)}
    return {
        "task": task_view(trace.task, tenant),
        "events": [event_view(event.json(), tenant) for event in events],
        "calls": [call.json() for call in calls],
        "question": question,
        "next": None if is_last else place,
    }


async def outcome(app: App, tenant: Tenant, task_id: str) -> Json:
    """The task's result with its ids and its status; of one that has none, why: its error, or its question."""
    row = await app.task(task_id)
    result = row.result or {"success": False, "answer": "", "mode": row.mode}
    ids = {"task_id": task_id, "session_id": tenant.shown(row.session_id), "status": str(row.status)}
    described = {**result, **ids, "model": row.used_model or _own_model(app, row.agent_id)}
    if row.error or described.get("error"):
        described["error"] = tenant.without_prefix(str(row.error or described["error"]))
    if row.status == TaskStatus.WAITING:
        described["question"] = await app.question(task_id)
    return described


def _own_model(app: App, agent_id: str) -> str:
    agent = app.agents.get(agent_id)
    return app.agents.model_name(agent) if agent else ""


def recursion_views(rounds: Iterable[Round]) -> list[Json]:
    """The rounds as `Recursion`s."""
    return [
        fields_of(
            Recursion,
            each,
            action={"action_type": each.action.action_type, "output": each.action.output} if each.action else None,
            calls=[fields_of(CallMade, call) for call in each.calls],
            results=[fields_of(CallEnded, result) for result in each.results],
        )
        for each in rounds
    ]


def status_views(task: Projection) -> list[Json]:
    """The statuses that the task went through."""
    return [fields_of(StatusChange, change) for change in task.statuses]


def plan_view(task: Projection) -> Json:
    """The newest plan, each step as it is now."""
    steps = [{"step": place, **_step(item)} for place, item in enumerate(task.plan.values(), start=1)]
    return {"goal": task.goal, "steps": steps}


def _step(item: PlanItem) -> Json:
    """The step, with a note only where there is one."""
    return {name: value for name, value in item.as_dict().items() if name != "note" or value or name in item.fields}


def fields_of(model: type[BaseModel], record: object, /, **values: Any) -> Json:
    """The fields of the model: these values, and of the record those of the same names."""
    return {name: values[name] if name in values else getattr(record, name) for name in model.model_fields}
