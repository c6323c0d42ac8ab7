"""The message of an A2A client, and the task that it begins, joins or answers."""

import json
import time
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

from a2a.helpers import get_data_parts, get_message_text
from a2a.types import Message
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from ...core.message import ReplyOptions, declared_kind
from ...core.records import RequestKey, Task, is_short_id
from ...core.task import ANYBODY, ENDED, TaskStatus
from ...prompts.protocols import answer_of, verdict_of
from ..continuation import TRY_SECONDS, Attempts
from ..errors import Problem
from ..requests import File, refuse_files
from ..service import Begun, Service
from ..tenants import Tenant

_MOST_EXACT = 2**53
"""Up to here floats have every whole number."""
_KEYS = "a2a:"
"""What the idempotency keys of messages begin with."""


async def own_task(service: Service, tenant: Tenant, agent: str, task_id: str) -> Task:
    """A task of the tenant's and the agent's."""
    try:
        row = await service.own_task(tenant, task_id)
    except Problem:
        raise TaskNotFoundError from None
    if row.agent_id != agent:
        raise TaskNotFoundError
    return row


def refuse_long_id(what: str, given: str) -> None:
    """Refuse an id that is too long or has control characters."""
    if not is_short_id(given):
        raise InvalidParamsError(f"{what} has at most 255 characters, and no control characters.")


async def begin(
    service: Service, tenant: Tenant, agent: str, message: Message, *, joins: bool, options: ReplyOptions | None = None
) -> Begun:
    """The task of a message; the same message again joins it.

    Clients may use the same ids: a message that names neither a context nor a task joins only what began a few minutes
    ago, unless the client says that its messages with equal ids are one (`joins`).

    A message with a task's id answers what the task waits for, or joins the task as long as it has not ended. If its
    metadata has an `interrupt_id`, it answers that question only; else one that was delivered to its person. Any other
    message is sent the question. `options` are what a new task's reply is to be.
    """
    refuse_long_id("The messageId", message.message_id)
    _refuse_media_types(message, service.app.agents.accepted(service.agents[agent]))
    key = await _key(service, tenant, agent, message, joins=joins)
    if message.task_id:
        row = await own_task(service, tenant, agent, message.task_id)
        if message.context_id not in ("", tenant.shown(row.session_id)):
            raise InvalidParamsError(f"The task {message.task_id} belongs to another context: send that one, or none.")
        return await service.known(key) or await _continue(service, tenant, row, message, key)
    thread_id, _ = await service.new_session(tenant, message.context_id or None, key)
    return await service.known(key) or await service.start(
        tenant,
        _text(message),
        key,
        session_id=thread_id,
        agent=agent,
        user_id=tenant.stored(ANYBODY),
        files=_files(message),
        reply_options=options or ReplyOptions(),
        origin="a2a",
    )


def _refuse_media_types(message: Message, accepted: Collection[str]) -> None:
    """Refuse a part of a declared type that the agent does not read; what it contains is looked at later."""
    for part in message.parts:
        if declared_kind(part.media_type) not in ("text", *accepted):
            kind = part.media_type[:100]
            raise ContentTypeNotSupportedError(
                f"The agent does not read {kind}: send what its card names under defaultInputModes."
            )


async def _key(service: Service, tenant: Tenant, agent: str, message: Message, *, joins: bool) -> RequestKey:
    """The message as an idempotency key; clients may use an id again for another message."""
    digest = sha256(message.SerializeToString(deterministic=True)).hexdigest()
    named = f"{_keys_of(tenant)}{agent}/{digest}"
    if message.context_id or message.task_id:
        return RequestKey(named, digest)
    attempts = Attempts(service, f"{named}#")
    last = await attempts.last()
    number = max(0, attempts.number(last))
    if last and not joins:
        task = await service.app.task(last.task_id)
        number += time.time() - task.updated_at > TRY_SECONDS
    return RequestKey(attempts.key(number), digest)


def _keys_of(tenant: Tenant) -> str:
    """What the idempotency keys of a person's messages begin with."""
    return tenant.stored(f"{_KEYS}{tenant.person}/")


async def _continue(service: Service, tenant: Tenant, row: Task, message: Message, key: RequestKey) -> Begun:
    if row.status in ENDED or row.status == TaskStatus.ERROR:
        raise UnsupportedOperationError("The task has ended: send the message without a taskId, in the same context.")
    if row.status == TaskStatus.WAITING:
        refuse_files(_files(message))
        question, keys = await service.app.question(row.task_id), _keys_of(tenant)
        named = str(dict(message.metadata).get("interrupt_id", ""))
        if (before := await service.app.tasks.before_unseen_question(row, question, key, keys, named)) is not None:
            return row, before
        if (answer := _answer(question, message, row)) is None:
            return row, await service.app.tasks.ask_again(row, key)
        return await service.answer(tenant, row, question, answer, key)
    return await service.start(
        tenant,
        _text(message),
        key,
        session_id=row.session_id,
        agent=row.agent_id,
        user_id=tenant.stored(ANYBODY),
        files=_files(message),
        origin="a2a",
        steer=True,
    )


async def note_delivered(service: Service, tenant: Tenant, row: Task, result: Mapping[str, Any]) -> None:
    """Note that the person of a key was sent a task, by its `outcome`: what it asks can be answered by a text."""
    if question := result.get("question"):
        await service.app.tasks.note_delivered(row, question, _keys_of(tenant))


def _answer(question: Mapping[str, Any], message: Message, row: Task) -> Any:
    """The answer that a message is: its data, {"verdict", "reason"} or {"answer"}, or else its text."""
    form = next((data for data in _data(message) if isinstance(data, dict)), None)
    if form is None:
        return answer_of(question, get_message_text(message))
    if question["kind"] == "approval":
        return verdict_of(question, form, row.reply_language, accepted=True)
    return {"answer": form.get("answer")}


def _text(message: Message) -> str:
    """The text, with data as JSON below it."""
    data = [json.dumps(part, ensure_ascii=False) for part in _data(message)]
    return "\n\n".join(text for text in (get_message_text(message), *data) if text)


def _data(message: Message) -> list[Any]:
    """The values of its data parts."""
    try:
        return [_with_whole_numbers(data) for data in get_data_parts(message.parts)]
    except ValueError:
        raise InvalidParamsError("A data part has NaN or Infinity, which JSON has not: leave it out.") from None


def _with_whole_numbers(value: Any) -> Any:
    """The value as the client wrote it: the protocol's package gives each number as a float."""
    match value:
        case dict():
            return {name: _with_whole_numbers(each) for name, each in value.items()}
        case list():
            return [_with_whole_numbers(each) for each in value]
        case float() if value.is_integer() and abs(value) <= _MOST_EXACT:
            return int(value)
    return value


def _files(message: Message) -> list[File]:
    """The files that go along."""
    files: list[File] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "raw":
                files.append((part.filename or "file", part.raw))
            case "url":
                raise ContentTypeNotSupportedError("Files by address are not read: send the content as raw bytes.")
    return files
