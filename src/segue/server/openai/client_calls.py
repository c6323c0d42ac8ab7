"""Calls of a client's own functions as OpenAI's API has them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from uuid import UUID

from ...core.question import CLIENT_CALLS
from ...core.records import Json, RequestKey, Task
from ...prompts.clients import client_result
from ...prompts.language import Language
from ..client_calls import asked_calls, bring_results
from ..errors import Problem, not_found
from ..service import Begun, Service
from ..tenants import Tenant

_PREFIX = "call_"
_CALL_BYTES = 10
"""Of a call's id, so that the whole id has the 40 characters that OpenAI's API allows."""


def tool_call_id(task_id: str, call_id: str) -> str:
    """The id of a call as clients know it, which names its task."""
    both = UUID(task_id).bytes + UUID(call_id).bytes[:_CALL_BYTES]
    return _PREFIX + urlsafe_b64encode(both).decode().rstrip("=")


def _task_of(named: str) -> str:
    """The task that the id of a call names; empty where it names none."""
    try:
        both = urlsafe_b64decode(named.removeprefix(_PREFIX) + "=")
        return str(UUID(bytes=both[:-_CALL_BYTES]))
    except ValueError:
        return ""


def waiting_calls(result: Json) -> Sequence[Json]:
    """The calls that the client is to carry out, where the task of that result waits with some."""
    return (result.get("question") or {}).get(CLIENT_CALLS, ()) if result["status"] == "waiting" else ()


async def task_of_results(service: Service, tenant: Tenant, results: Mapping[str, str]) -> Task:
    """The task of the tenant's whose calls have these results.

    Raises:
        Problem: there is no such call.
    """
    first, *others = results
    try:
        task = await service.own_task(tenant, _task_of(first))
    except Problem:
        raise not_found("call", first) from None
    for other in others:
        if _task_of(other) != task.task_id:
            raise not_found("call", other)
    return task


async def bring(
    service: Service, tenant: Tenant, task: Task, results: Mapping[str, str], message: str, key: RequestKey | None
) -> Begun:
    """Go on with a task by results of its calls.

    Raises:
        Those of `bring_results`, and Problem: the task has no such call.
    """
    asked = {tool_call_id(task.task_id, call_id): call_id for call_id in await asked_calls(service, task.task_id)}
    for named in results:
        if named not in asked:
            raise not_found("call", named)
    language: Language = task.language or "en"
    sent = {asked[named]: client_result(text, "", language) for named, text in results.items()}
    return await bring_results(service, tenant, task, sent, message, key)
