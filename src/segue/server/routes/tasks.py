"""Routes that read tasks: events, recursions, statuses, plan."""

import asyncio
from contextlib import suppress
from typing import Annotated

from fastapi import Query

from ...core.errors import StorageError, TaskError
from ...core.events import to_dict
from ...core.task_status import TaskStatus
from ..errors import JsonResponse, LongJsonResponse
from ..views import (
    EventView,
    Page,
    PlanView,
    Recursion,
    StatusChange,
    TraceView,
    WaitingView,
    event_view,
    plan_view,
    recursion_views,
    status_views,
    trace_view,
    waiting_view,
    with_html,
)
from .dependencies import Html, Limit, ServiceDep, TaskId, TenantDep, routes

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


@router.get("/api/waiting", response_model=Page[WaitingView])
async def waiting(service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Every task that waits for a person, the longest waiting first: what it asks, since when, how to answer."""
    rows = await service.app.tasks.waiting(tenant.prefix)
    return JsonResponse({"items": [waiting_view(row, tenant) for row in rows], "next": None})


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
    items = [event_view(to_dict(event), tenant) for event in found[:limit]]
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
async def states(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The statuses that the task went through."""
    await service.own_task(tenant, task_id)
    return JsonResponse({"items": status_views(await service.app.tasks.projection(task_id)), "next": None})


@router.get("/api/tasks/{task_id}/plan", response_model=PlanView)
async def plan(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The task's newest plan, each step with its current status."""
    await service.own_task(tenant, task_id)
    return JsonResponse(plan_view(await service.app.tasks.projection(task_id)))
