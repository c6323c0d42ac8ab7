"""Looking at a task."""

from contextlib import suppress
from typing import Annotated

from fastapi import Query

from ...core.errors import StorageError, TaskError
from .. import projections
from ..errors import JsonResponse
from ..views import EventView, Page, TraceView, event_view, trace_view
from .dependencies import Caller, Limit, Serving, TaskId, routes

router = routes("tasks")


@router.get("/api/tasks/{task_id}", response_model=TraceView)
async def task(task_id: TaskId, service: Serving, tenant: Caller) -> JsonResponse:
    """Everything about a task: its row, its events, its tool calls, and what a person is asked."""
    await service.own_task(tenant, task_id)
    trace = await service.app.trace(task_id)
    question = None
    if trace["task"]["status"] == "waiting":
        with suppress(TaskError, StorageError):  # it may just have been answered, or its state is damaged
            question = await service.app.question(task_id)
    return JsonResponse(trace_view(trace, tenant, question))


@router.get("/api/tasks/{task_id}/events", response_model=Page[EventView])
async def events(
    task_id: TaskId,
    service: Serving,
    tenant: Caller,
    after: Annotated[int, Query(ge=0, le=2**53, description="The seq of the last event that is known.")] = 0,
    limit: Limit = 100,
) -> JsonResponse:
    """The task's events, whole, in their order; `next` is the `after` of the next page."""
    await service.own_task(tenant, task_id)
    forms = await service.app.events(task_id, after, limit + 1)
    items = [event_view(form, tenant) for form in forms[:limit]]
    return JsonResponse({"items": items, "next": items[-1]["seq"] if len(forms) > limit else None})


@router.get("/api/tasks/{task_id}/recursions", response_model=Page[projections.Recursion])
async def recursions(task_id: TaskId, service: Serving, tenant: Caller) -> JsonResponse:
    """The task round by round: what the machine observed, thought, decided, called and got."""
    await service.own_task(tenant, task_id)
    found = projections.recursions(await service.app.queries.projection(task_id))
    return JsonResponse({"items": found, "next": None})


@router.get("/api/tasks/{task_id}/states", response_model=Page[projections.StatusChange])
async def states(task_id: TaskId, service: Serving, tenant: Caller) -> JsonResponse:
    """The statuses that the task went through."""
    await service.own_task(tenant, task_id)
    return JsonResponse({"items": projections.states(await service.app.queries.projection(task_id)), "next": None})


@router.get("/api/tasks/{task_id}/plan", response_model=projections.PlanView)
async def plan(task_id: TaskId, service: Serving, tenant: Caller) -> JsonResponse:
    """The task's newest plan, each step as it stands."""
    await service.own_task(tenant, task_id)
    return JsonResponse(projections.plan(await service.app.queries.projection(task_id)))
