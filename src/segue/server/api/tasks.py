"""Routes of tasks: events, recursions, statuses and plan; pause, resume, cancel, answer and rate."""

import asyncio
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from fastapi import Body, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ...core.approval import Verdict
from ...core.errors import StorageError, TaskError
from ...core.records import Json, WaitingTask
from ...core.task import TaskStatus
from ..dependencies import (
    CONFLICT,
    MODEL_DOWN,
    Html,
    KeyDep,
    Limit,
    PageDep,
    ServiceDep,
    TaskId,
    TenantDep,
    routes,
)
from ..errors import JsonResponse, LongJsonResponse
from ..markdown import render
from ..middleware import LONGEST_MODEL, MODEL, Items, RequestBody
from ..service import Service
from ..tenants import Tenant
from ..views import (
    EventView,
    Page,
    PlanView,
    Recursion,
    StatusChange,
    TaskView,
    TraceView,
    event_view,
    plan_view,
    recursion_views,
    status_views,
    task_view,
    trace_view,
    waiting_view,
    with_html,
)

router = routes("tasks")
TraceLimit = Annotated[int, Query(ge=1, le=1000, description="The maximum number of events, and of calls.")]


@router.get("/api/tasks/{task_id}", response_model=TraceView)
async def task(
    task_id: TaskId,
    service: ServiceDep,
    tenant: TenantDep,
    html: Html = False,
    after_event: Annotated[int, Query(ge=0, le=2**53, description="From the `next` of the page before.")] = 0,
    after_call: Annotated[int, Query(ge=0, le=2**53, description="From the `next` of the page before.")] = 0,
    limit: TraceLimit = 1000,
) -> LongJsonResponse:
    """A task with its events, its tool calls, and the question that it waits with.

    Of a long task this is the first page; `next` leads to the other events and calls.
    """
    await service.own_task(tenant, task_id)
    trace = await service.app.tasks.trace(task_id, after_event, after_call, limit + 1)
    question = None
    if trace.task.status == TaskStatus.WAITING:
        with suppress(TaskError, StorageError):  # it may just have been answered, or its state is damaged
            question = await service.app.question(task_id)
    view = trace_view(trace, (after_event, after_call), limit, tenant, question)
    if html:
        view["task"] = await asyncio.to_thread(with_html, view["task"])
    return LongJsonResponse(view)


@router.get("/api/waiting", response_model=Page[WaitingTask])
async def waiting(service: ServiceDep, tenant: TenantDep, page: PageDep) -> JsonResponse:
    """Every task that waits for a person, the longest waiting first: what it asks, since when, how to answer."""
    rows = await service.app.tasks.waiting(tenant.prefix)
    items = [waiting_view(row, tenant) for row in rows]
    return JsonResponse(page.cut(items, lambda item: [item["since"], item["task_id"]]))


@router.get("/api/tasks/{task_id}/events", response_model=Page[EventView])
async def events(
    task_id: TaskId,
    service: ServiceDep,
    tenant: TenantDep,
    after: Annotated[int, Query(ge=0, le=2**53, description="The seq of the last event that is known.")] = 0,
    limit: Limit = 100,
) -> LongJsonResponse:
    """The task's events, whole, in their order; `next` is the `after` of the next page."""
    await service.own_task(tenant, task_id)
    found = await service.app.tasks.events(task_id, after, limit + 1)
    items = [event_view(event.json(), tenant) for event in found[:limit]]
    return LongJsonResponse({"items": items, "next": found[limit - 1].seq if len(found) > limit else None})


@router.get("/api/tasks/{task_id}/recursions", response_model=Page[Recursion])
async def recursions(
    task_id: TaskId,
    service: ServiceDep,
    tenant: TenantDep,
    after: Annotated[int, Query(ge=0, le=2**53, description="The `next` of the page before.")] = 0,
    limit: Limit = 100,
) -> LongJsonResponse:
    """The task's recursions: observation, thought, decision, calls and results."""
    await service.own_task(tenant, task_id)
    rounds = [*(await service.app.tasks.projection(task_id)).rounds.values()]
    found, end = recursion_views(rounds[after : after + limit]), after + limit
    return LongJsonResponse({"items": found, "next": end if len(rounds) > end else None})


@router.get("/api/tasks/{task_id}/states", response_model=Page[StatusChange])
async def states(
    task_id: TaskId,
    service: ServiceDep,
    tenant: TenantDep,
    page: PageDep,
) -> JsonResponse:
    """The statuses that the task went through."""
    await service.own_task(tenant, task_id)
    items = status_views(await service.app.tasks.projection(task_id))
    return JsonResponse(page.cut(items))


@router.get("/api/tasks/{task_id}/plan", response_model=PlanView)
async def plan(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The task's newest plan, each step with its current status."""
    await service.own_task(tenant, task_id)
    return JsonResponse(plan_view(await service.app.tasks.projection(task_id)))


control_router = routes("control")


class ResumeRequest(RequestBody):
    """How to resume."""

    model: str | None = Field(default=None, pattern=f"^{MODEL}$", max_length=LONGEST_MODEL)


class AnswerRequest(RequestBody):
    """To an approval a verdict on each call, or one word for all; to a question an answer, or the end of the task.

    To a limit that is reached a higher one, or the answer `cancel`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"verdicts": "approve"}]})

    verdicts: Items[Verdict] | Literal["approve", "reject"] | None = None
    answer: str | None = None
    manual_finish: bool = False
    limit: float | None = Field(
        default=None, gt=0, strict=True, description="US dollars or tokens, as the question says"
    )
    interrupt_id: str | None = Field(
        default=None, max_length=64, description="The question that is answered; refused if another one is open now."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        given = (self.verdicts is not None, self.answer is not None, self.limit is not None, self.manual_finish)
        if sum(given) != 1:
            raise ValueError("give exactly one of verdicts, answer, limit and manual_finish")
        return self


class EventRequest(RequestBody):
    """An event, as `wait_for_event` and `segue.Wait` name it, with any JSON."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "paid", "data": {"amount": 50}}]})

    name: str = Field(min_length=1, max_length=100)
    data: Any = None


class Rating(RequestBody):
    """A rating of the task's answer."""

    rating: int = Field(ge=1, le=5)

    @field_validator("rating", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        if isinstance(value, bool | str):
            raise ValueError("it is not a number")
        return value


@control_router.post("/api/tasks/{task_id}/pause", status_code=202, response_model=TaskView, responses=CONFLICT)
async def pause(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Ask a task to pause at its next checkpoint; it can be resumed."""
    await service.own_task(tenant, task_id)
    await service.app.pause(task_id)
    return JsonResponse(await _now(service, tenant, task_id), 202)


@control_router.post(
    "/api/tasks/{task_id}/resume", status_code=202, response_model=TaskView, responses={**CONFLICT, **MODEL_DOWN}
)
async def resume(
    task_id: TaskId,
    service: ServiceDep,
    tenant: TenantDep,
    key: KeyDep,
    body: Annotated[ResumeRequest | None, Body()] = None,
) -> JsonResponse:
    """Resume a task that was paused, interrupted or failed; its stream shows the progress."""
    service.refuse_while_draining()
    task = await service.own_task(tenant, task_id)
    row, _ = await service.resume(tenant, task, key, model=(body.model if body else None) or "")
    return JsonResponse(task_view(row, tenant), 202)


@control_router.post("/api/tasks/{task_id}/cancel", response_model=TaskView, responses=CONFLICT)
async def cancel(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Cancel a task, running or not; what it did stays in the session's history."""
    await service.own_task(tenant, task_id)
    await service.app.cancel(task_id)
    return JsonResponse(await _now(service, tenant, task_id))


@control_router.post(
    "/api/tasks/{task_id}/answer", status_code=202, response_model=TaskView, responses={**CONFLICT, **MODEL_DOWN}
)
async def answer(
    task_id: TaskId, body: AnswerRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Answer the question that a task waits with, which resumes it; its stream shows the progress."""
    service.refuse_while_draining()
    task = await service.own_task(tenant, task_id)
    row, _ = await service.resume(tenant, task, key, answer=_answer(body), interrupt_id=body.interrupt_id or "")
    return JsonResponse(task_view(row, tenant), 202)


@control_router.post("/api/tasks/{task_id}/events", status_code=202, response_model=TaskView, responses=CONFLICT)
async def send_event(
    task_id: TaskId, body: EventRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Send an event to a task: one that waits for it continues with its data, else the event is kept until then."""
    await service.own_task(tenant, task_id)
    await service.app.tasks.send_event(task_id, body.name, body.data, key)
    return JsonResponse(await _now(service, tenant, task_id), 202)


class SubtaskRequest(RequestBody):
    """A subtask for a lifecycle run."""

    description: str = Field(min_length=1, max_length=10_000, examples=["Check the invoice of May"])
    subtask_id: str = Field(default="", max_length=64)
    depends_on: list[str] = Field(default=[], max_length=100)
    priority: int = 0
    timeout: float | None = Field(default=None, gt=0)


class SubtaskView(BaseModel):
    """The id of a subtask."""

    subtask_id: str


@control_router.post("/api/tasks/{task_id}/subtasks", status_code=201, response_model=SubtaskView, responses=CONFLICT)
async def spawn_subtask(
    task_id: TaskId, body: SubtaskRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Add a subtask to a lifecycle run, which takes it up after the subtasks under way."""
    await service.own_task(tenant, task_id)
    added = await service.app.tasks.spawn_subtask(task_id, **body.model_dump(), key=key)
    return JsonResponse({"subtask_id": added}, 201)


@control_router.post("/api/tasks/{task_id}/rating", response_model=TaskView, responses=CONFLICT)
async def rate(task_id: TaskId, body: Rating, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Rate a task from 1 to 5."""
    await service.own_task(tenant, task_id)
    await service.app.sessions.rate(task_id, body.rating)
    return JsonResponse(await _now(service, tenant, task_id))


def _answer(body: AnswerRequest) -> Any:
    if body.limit is not None:
        return {"limit": body.limit}
    if body.verdicts is None:
        return {"answer": body.answer or "", "manual_finish": body.manual_finish}
    if isinstance(body.verdicts, str):
        return body.verdicts
    return {"verdicts": [verdict.model_dump(mode="json", exclude_none=True) for verdict in body.verdicts]}


async def _now(service: Service, tenant: Tenant, task_id: str) -> Json:
    return task_view(await service.app.task(task_id), tenant)


markdown_router = routes("markdown")


class MarkdownRequest(RequestBody):
    """A text in Markdown."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "**Day 1**: the Forbidden City"}]})

    text: str = Field(max_length=100_000)


class HtmlView(BaseModel):
    """The text as HTML: without scripts, styles, images and anything else that acts."""

    html: str = Field(examples=["<p><strong>Day 1</strong>: the Forbidden City</p>\n"])


@markdown_router.post("/api/markdown", response_model=HtmlView)
async def markdown(body: MarkdownRequest, _: TenantDep) -> JsonResponse:
    """Render a text; a list of tasks has its answers rendered with `html=true`."""
    return JsonResponse({"html": await asyncio.to_thread(render, body.text)})
