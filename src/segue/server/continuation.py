"""How a request is recognised: the conversation that it continues, its earlier attempts, and forks."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from ..core.errors import InvalidMessage, TaskError
from ..core.events import ApprovalRequested, QuestionAsked, Resumed
from ..core.records import KnownRequest, RequestKey, Task
from ..core.task import ENDED, TaskStatus
from ..prompts.protocols import asks_to_continue
from .requests import ChatMessage, File, refuse_files
from .service import Service
from .settings import CLIENT_SECONDS
from .tenants import Tenant

_FORK = "fork/"
"""Begins the key of the fork that a request begins its task in; no other begins so."""
_NEW = ("user", "tool")
"""Whose messages a client adds to a conversation."""


class ClientMessage(NamedTuple):
    """A message as a client sends it.

    `references` are the digests of a user's files, the ids of an assistant's calls, or the id of the call that a
    tool's message has the result of.
    """

    role: str
    text: str
    references: tuple[str, ...]


Messages = tuple[ClientMessage, ...]


@dataclass(frozen=True)
class Conversation:
    """What a client sends each time: everything that was said, and the new message last."""

    name: str
    """The session that the client names; empty if none."""
    parties: Sequence[str]
    """Who talks with whom: the person of the key, the user, the agent and the mode."""
    said: Messages
    instructions: Sequence[str]
    """The texts of its system messages."""
    files: Mapping[str, File] = field(default_factory=dict)
    """By digest."""

    @classmethod
    def of(cls, messages: Sequence[ChatMessage], name: str = "", parties: Sequence[str] = ()) -> Self:
        """The conversation of a request's messages.

        Raises:
            InvalidMessage: the last one is neither the user's nor a tool's.
        """
        if messages[-1].role not in _NEW:
            raise InvalidMessage("The last message must come from the user or from a tool.")
        spoken = [(each, _by_digest(each.files)) for each in messages if each.role in (*_NEW, "assistant")]
        refuse_files([file for each, files in spoken if each.role == "tool" for file in files.values()])
        said = tuple(ClientMessage(each.role, each.text, (*_calls_of(each), *files)) for each, files in spoken)
        system = [each.text for each in messages if each.role in ("system", "developer")]
        files = {digest: file for _, found in spoken for digest, file in found.items()}
        return cls(name, parties, said, system, files)

    @property
    def message(self) -> str:
        """What is new: the user's messages after the last answer."""
        return "\n\n".join(said.text for said in self._new if said.role == "user")

    @property
    def results(self) -> dict[str, str]:
        """The results that are new, by the ids of their calls."""
        return {said.references[0]: said.text for said in self._new if said.role == "tool"}

    @property
    def _new(self) -> Messages:
        return self.said[len(self.earlier) :]

    @property
    def new_files(self) -> list[File]:
        """The files of the new message."""
        digests = [digest for said in self._new if said.role == "user" for digest in said.references]
        return [self.files[digest] for digest in digests]

    @property
    def earlier(self) -> Messages:
        """Everything before the new message."""
        return _without_last(self.said, *_NEW)

    @property
    def asked_before(self) -> Messages:
        """What the request before this one held: everything before the last answer."""
        return _without_last(self.earlier, "assistant")

    @property
    def last_answer(self) -> str:
        """The answer before the new message, as the client shows it."""
        return "\n\n".join(said.text for said in self.earlier[len(self.asked_before) :])

    def shows(self, question: str) -> bool:
        """Whether the answer before the new message ends with a question as it was sent, whatever its white space."""
        return " ".join(self.last_answer.split()).endswith(" ".join(question.split()))

    def text_before(self, notice: str) -> str | None:
        """The beginning of the answer that ends with a notice, where the new message asks for its rest; else None."""
        if self.new_files or not (self.shows(notice) and asks_to_continue(self.message)):
            return None
        return self.last_answer.rpartition(notice)[0].removesuffix("\n\n")

    def key(self, said: Messages) -> str:
        """What the idempotency keys of requests with these messages begin with."""
        return f"completion:{self._digest(said)}#"

    @property
    def session_id(self) -> str:
        """What its session is called: as the client says, else by how it begins."""
        return self.name or f"chat-{self._digest(self.said)[:16]}"

    def _digest(self, said: Messages) -> str:
        form = json.dumps([self.name, self.parties, said], ensure_ascii=True)
        return hashlib.sha256(form.encode()).hexdigest()

    @property
    def first_message(self) -> str:
        """The new message for a session that knows nothing of what was said before."""
        context = ""
        if self.earlier:
            lines = "\n".join(f"{said.role}: {said.text}" for said in self.earlier if said.text)
            context = f"<conversation>\n{lines}\n</conversation>\n\n"
        return context + self.message


def _by_digest(files: Sequence[File]) -> dict[str, File]:
    return {hashlib.sha256(_content_of(file)).hexdigest(): file for file in files}


def _content_of(file: File) -> bytes:
    return file[1] if isinstance(file, tuple) else file.url.encode()


def _calls_of(message: ChatMessage) -> Sequence[str]:
    """The calls that an assistant's message makes, or the one that a tool's message has the result of."""
    if message.role == "tool":
        return (message.tool_call_id or "",)
    return [call.id for call in message.tool_calls or ()]


def _without_last(said: Messages, *roles: str) -> Messages:
    """The messages without those of the roles at the end."""
    end = len(said)
    while end and said[end - 1].role in roles:
        end -= 1
    return said[:end]


TRY_SECONDS = CLIENT_SECONDS + 10
"""How long a request that is sent again may be a retry."""


@dataclass(frozen=True)
class Attempts:
    """The attempts of one request, whose idempotency keys are a prefix and a number, from 0; some may be deleted."""

    service: Service
    prefix: str

    def key(self, number: int) -> str:
        return f"{self.prefix}{number}"

    def number(self, attempt: KnownRequest | None) -> int:
        """The number of an attempt; -1 of none."""
        return int(attempt.key.removeprefix(self.prefix)) if attempt else -1

    async def last(self) -> KnownRequest | None:
        """What the newest attempt did."""
        return next(iter(await self.newest(1)), None)

    async def newest(self, limit: int = 100) -> Sequence[KnownRequest]:
        """What the newest attempts did, the last one first."""
        return await self.service.app.tasks.last_requests(self.prefix, limit)


async def is_awaited(service: Service, task: Task, name: str, retries: int, *, over: bool) -> bool:
    """Whether the client of a request may not have its answer.

    That is so if the request may have ended since the first of the client's `retries`. Without those it is so for a
    few minutes if the request is not `over` or was interrupted, as by a service that was killed, unless this process
    has delivered what has this `name`.
    """
    age = time.time() - task.updated_at
    if retries and age <= retries * TRY_SECONDS:
        return True
    if service.has_delivered(name) or age > TRY_SECONDS:
        return False
    return not over or await _was_interrupted(service, task)


async def _was_interrupted(service: Service, task: Task) -> bool:
    types = {type(event) for event in await service.app.tasks.events(task.task_id)}
    return Resumed in types and types.isdisjoint((QuestionAsked, ApprovalRequested))


async def rejoin(service: Service, tenant: Tenant, task: Task) -> Task:
    """The task, which is resumed if it was paused, interrupted or failed."""
    if task.status in (*ENDED, TaskStatus.WAITING) or await service.app.tasks.runs_elsewhere(task.task_id):
        return task
    try:
        with service.starting_task(tenant, task.session_id):
            return (await service.app.tasks.resume(task.task_id))[0]
    except TaskError:  # it runs or was resumed meanwhile, or its session has gone on without it
        return await service.app.tasks.get(task.task_id)


async def end_stopped(service: Service, task: Task) -> None:
    """End a task whose client left: the history has what it did, and no call that it had decided runs any more."""
    if task.requested == "stop":
        await service.until_stopped(task.task_id)
        with suppress(TaskError):  # it has its answer
            await service.app.cancel(task.task_id)


async def fork_after(service: Service, tenant: Tenant, task: Task, key: RequestKey) -> str:
    """The stored name of a new session that is as a session was when the task had ended.

    The same request again, by its key, has the same one, unless something was sent to it since.

    Raises:
        TaskError: the snapshots of then were pruned.
    """
    named = replace(key, key=f"{_FORK}{key.key}", digest="", also=None)
    if known := await service.app.tasks.known(named):
        newest = await service.app.tasks.newest(known.session_id)
        if newest and newest.copy_of == task.task_id:
            return known.session_id
    snapshots = await service.app.sessions.snapshots(task.session_id, -1)
    ends = [each for each in snapshots if each.task_id == task.task_id and not each.inside]
    if not ends:
        raise TaskError(
            "The snapshots before this message of session '{session_id}' were pruned: start a new conversation.",
            session_id=task.session_id,
        )
    thread_id, new = await unused_session(service, tenant, tenant.shown(task.session_id)), None if known else named
    await service.once(new, service.app.sessions.fork(task.session_id, ends[0].checkpoint_id, thread_id, key=new))
    made = await service.app.tasks.known(new)
    return made.session_id if made else thread_id


async def unused_session(service: Service, tenant: Tenant, session_id: str) -> str:
    """The stored name of a session that does not exist: the given one, else with a number."""
    name, number = session_id, 1
    sessions, tasks = service.app.sessions, service.app.tasks
    while await tasks.newest(tenant.stored(name)) or await sessions.choices(tenant.stored(name)):
        number += 1
        name = f"{session_id}.{number}"
    return tenant.stored(name)
