"""Routes that control a task: pause, resume, cancel, answer, rate."""

from typing import Annotated, Any, Literal, Self

from fastapi import Body
from pydantic import ConfigDict, Field, field_validator, model_validator

from ...core.approval import Verdict
from ...core.records import Json
from ..errors import JsonResponse
from ..request_body import Items, RequestBody
from ..service import Service
from ..tenants import Tenant
from ..views import TaskView, task_view
from .dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, TaskId, TenantDep, routes

router = routes("control")


class ResumeRequest(RequestBody):
    """How to resume."""

    model: str | None = Field(default=None, pattern=r"^(offline|openai:[\w./:@-]{1,200})$")


class AnswerRequest(RequestBody):
    """To an approval a verdict on each call, or one word for all; to a question an answer, or the end of the task."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"verdicts": "approve"}]})

    verdicts: Items[Verdict] | Literal["approve", "reject"] | None = None
    answer: str | None = None
    manual_finish: bool = False
    interrupt_id: str | None = Field(
        default=None, max_length=64, description="The question that is answered; refused if another one is open now."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if sum((self.verdicts is not None, self.answer is not None, self.manual_finish)) != 1:
            raise ValueError("give exactly one of verdicts, answer and manual_finish")
        return self


class Rating(RequestBody):
    """A rating of the task's answer."""

    rating: int = Field(ge=1, le=5)

    @field_validator("rating", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        if isinstance(value, bool | str):
            raise ValueError("it is not a number")
        return value


@router.post("/api/tasks/{task_id}/pause", status_code=202, response_model=TaskView, responses=CONFLICT)
async def pause(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Ask a task to pause at its next checkpoint; it can be resumed."""
    await service.own_task(tenant, task_id)
    await service.app.pause(task_id)
    return JsonResponse(await _now(service, tenant, task_id), 202)


@router.post(
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
    row, _ = await service.take_up(tenant, task, key, model=(body.model if body else None) or "")
    return JsonResponse(task_view(row, tenant), 202)


@router.post("/api/tasks/{task_id}/cancel", response_model=TaskView, responses=CONFLICT)
async def cancel(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Cancel a task, running or not; what it did stays in the session's history."""
    await service.own_task(tenant, task_id)
    await service.app.cancel(task_id)
    return JsonResponse(await _now(service, tenant, task_id))


@router.post(
    "/api/tasks/{task_id}/answer", status_code=202, response_model=TaskView, responses={**CONFLICT, **MODEL_DOWN}
)
async def answer(
    task_id: TaskId, body: AnswerRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Answer the question that a task waits with, which resumes it; its stream shows the progress."""
    service.refuse_while_draining()
    task = await service.own_task(tenant, task_id)
    row, _ = await service.take_up(tenant, task, key, answer=_answer(body), interrupt_id=body.interrupt_id or "")
    return JsonResponse(task_view(row, tenant), 202)


@router.post("/api/tasks/{task_id}/rating", response_model=TaskView, responses=CONFLICT)
async def rate(task_id: TaskId, body: Rating, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Rate a task from 1 to 5."""
    await service.own_task(tenant, task_id)
    await service.app.rate(task_id, body.rating)
    return JsonResponse(await _now(service, tenant, task_id))


def _answer(body: AnswerRequest) -> Any:
    if body.verdicts is None:
        return {"answer": body.answer or "", "manual_finish": body.manual_finish}
    if isinstance(body.verdicts, str):
        return body.verdicts
    return {"verdicts": [verdict.model_dump(mode="json", exclude_none=True) for verdict in body.verdicts]}


async def _now(service: Service, tenant: Tenant, task_id: str) -> Json:
    return task_view(await service.app.tasks.get(task_id), tenant)
