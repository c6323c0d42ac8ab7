"""Calls of a client's own tools: their results go on with the task."""

import json
from collections.abc import Mapping
from hashlib import sha256

from ..core.errors import KeyUsed
from ..core.events import QuestionAsked
from ..core.question import CLIENT_CALLS
from ..core.records import Json, RequestKey, Task
from ..prompts.clients import client_result, with_message
from ..prompts.language import Language
from .errors import Problem
from .service import Begun, Service
from .tenants import Tenant


async def asked_calls(service: Service, task_id: str) -> dict[str, Json]:
    """Every call that a task has asked its client for, by id."""
    events = await service.app.tasks.events(task_id)
    asked = (event.client_calls for event in events if isinstance(event, QuestionAsked))
    return {call["id"]: call for calls in asked for call in calls}


async def bring_results(
    service: Service, tenant: Tenant, task: Task, sent: Mapping[str, str], message: str, key: RequestKey | None
) -> Begun:
    """Go on with a task by the results that its client sent, by the ids of their calls.

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
    language: Language = task.language or "en"
    if message:
        results |= {call_id: client_result(None, "", language) for call_id in waiting if call_id not in results}
        last = [*results][-1]
        results[last] = with_message(results[last], message, language)
    return await service.answer(tenant, task, question, {"results": results}, key)


def _named_by_results(
    key: RequestKey | None, tenant: Tenant, task_id: str, sent: Mapping[str, str], message: str
) -> RequestKey:
    """The key of a request that brings results: they name it, beside the key that it has."""
    calls, content = json.dumps(sorted(sent)), json.dumps([sorted(sent.items()), message])
    named = tenant.stored(f"results:{task_id}/{sha256(calls.encode()).hexdigest()}")
    return RequestKey(named, sha256(content.encode()).hexdigest(), key.about if key else {}, key)
