"""Tools that a client carries out: their calls and results."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from uuid import UUID

from ...core.errors import KeyUsed
from ...core.events import QuestionAsked
from ...core.question import CLIENT_CALLS
from ...core.records import Json, RequestKey, Task
from ...core.reply_options import ReplyOptions
from ...prompts.protocols import client_result, with_message
from ..errors import Problem, not_found
from ..service import Begun, Service
from ..stream import stopped
from ..tenants import Tenant


async def asked_calls(service: Service, task_id: str) -> dict[str, Json]:
    """Every call that a task has asked its client for, by id."""
    events = await service.app.tasks.events(task_id)
    asked = (event.client_calls for event in events if isinstance(event, QuestionAsked))
    return {call["id"]: call for calls in asked for call in calls}


async def submit_results(
    service: Service,
    tenant: Tenant,
    task: Task,
    sent: Mapping[str, str],
    message: str,
    key: RequestKey | None,
    reply_options: ReplyOptions | None = None,
) -> Begun:
    """Continue a task by the results that its client sent, by the ids of their calls.

    A `message` of the user goes along with the last result, and calls without one have none. The same results again
    are the same request, whatever its key.

    Raises:
        Problem: the calls have other results already.
        InvalidAnswer: one is too long.
    """
    task_id = task.task_id
    if sent:
        key = _named_by_results(key, tenant, task_id, sent, message)
        try:
            if known := await service.known(key):
                return known
        except KeyUsed:
            raise Problem(409, "ResultGiven") from None
    question = await service.app.question(task_id) if task.status == "waiting" else {}
    waiting = [call["id"] for call in question.get(CLIENT_CALLS, ())]
    results = {call_id: text for call_id, text in sent.items() if call_id in waiting}
    if not waiting or (sent and not results):
        raise Problem(409, "ResultGiven")
    language = task.reply_language
    if message:
        results |= {call_id: client_result(None, "", language) for call_id in waiting if call_id not in results}
        last = [*results][-1]
        results[last] = with_message(results[last], message, language)
    return await service.answer(tenant, task, question, {"results": results}, key, reply_options)


def _named_by_results(
    key: RequestKey | None, tenant: Tenant, task_id: str, sent: Mapping[str, str], message: str
) -> RequestKey:
    """The key of a request that brings results: they name it, beside the key that it has."""
    calls, content = json.dumps(sorted(sent)), json.dumps([sorted(sent.items()), message])
    named = tenant.stored(f"results:{task_id}/{sha256(calls.encode()).hexdigest()}")
    return RequestKey(named, sha256(content.encode()).hexdigest(), key.about if key else {}, key)


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


async def finish(service: Service, tenant: Tenant, task: Task, results: Mapping[str, str]) -> Task:
    """Continue a task by results of its calls and wait until it stops: what is new is another message, with files."""
    row, _ = await resume_with_results(service, tenant, task, results, "", None, ReplyOptions())
    await stopped(service, row.task_id)
    return await service.app.tasks.get(row.task_id)


async def resume_with_results(
    service: Service,
    tenant: Tenant,
    task: Task,
    results: Mapping[str, str],
    message: str,
    key: RequestKey | None,
    reply_options: ReplyOptions,
) -> Begun:
    """Continue a task by results of its calls.

    Raises:
        Those of `submit_results`, and Problem: the task has no such call.
    """
    asked = {tool_call_id(task.task_id, call_id): call_id for call_id in await asked_calls(service, task.task_id)}
    for named in results:
        if named not in asked:
            raise not_found("call", named)
    language = task.reply_language
    sent = {asked[named]: client_result(text, "", language) for named, text in results.items()}
    return await submit_results(service, tenant, task, sent, message, key, reply_options)
