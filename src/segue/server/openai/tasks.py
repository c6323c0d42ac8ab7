"""The task that a client's request begins, continues or asks for again."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace

from ...core.errors import TaskError
from ...core.question import CLIENT_CALLS
from ...core.records import Json, RequestKey, Task
from ...core.task_status import ACTIVE, ENDED, TaskStatus
from ...prompts.elicitation import answer_of
from ...runtime.queries import is_over
from ..client_calls import bring_results
from ..service import Begun, Service
from ..tenants import Tenant
from .client_calls import bring, task_of_results
from .content_parts import File, refuse_files
from .conversation import Conversation, Said
from .forks import fork_after, free_session

TRY_SECONDS = 610.0
"""How long the `openai` package waits for an answer before it tries again."""


class CompletionTasks:
    """Finds or starts the task of a request, by the conversation that the client sends."""

    def __init__(self, service: Service, tenant: Tenant, options: Json) -> None:
        self._service = service
        self._app = service.app
        self._tenant = tenant
        self._options = options

    async def begin(self, conversation: Conversation, retries: int, asked: RequestKey | None) -> Begun:
        """The task that answers the conversation's new message.

        The same request again joins its task while the client may not have its answer; otherwise the message is
        answered anew, in a fork. A message after an earlier answer starts a fork there. A message to a task that waits
        for a person is the answer; results go on with the task that made their calls. `asked` is the client's own key.

        Raises:
            Those of `App.start` and `App.take_up`.
        """
        if known := await self._service.known(asked):
            return known
        count = await self._count(conversation, conversation.said)
        last = await self._attempt(conversation, conversation.said, count - 1) if count else None
        key = RequestKey(self._key(conversation, conversation.said, count), self._digest_of_tools())
        key = replace(asked, also=key) if asked else key
        if conversation.results:
            return await self._bring(conversation, key if last is None else asked)
        if last and await self._is_awaited(last, retries) and await self._has_tools(conversation, count - 1):
            self._service.given_again.add(last.task_id)
            return await self._again(last)
        before = await self._before(conversation)
        if before is None:
            thread_id = await free_session(self._service, self._tenant, conversation.session_id)
            return await self._start(conversation.first_message, [*conversation.files.values()], thread_id, key)
        latest, *_ = await self._app.tasks(session_id=before.thread_id, limit=1)
        message, files = conversation.message, conversation.new_files
        if latest["task_id"] != before.task_id:
            return await self._start(message, files, await fork_after(self._service, self._tenant, before), key)
        if before.status == TaskStatus.WAITING:
            refuse_files(files)
            return await self._answer(before.json(), message, key)
        return await self._start(message, files, before.thread_id, key, steer=True)

    async def _answer(self, task: Json, message: str, key: RequestKey) -> Begun:
        question = await self._app.question(task["task_id"])
        if CLIENT_CALLS in question:
            return await bring_results(self._service, self._tenant, task, {}, message, key)
        return await self._service.answer(self._tenant, task, question, answer_of(question, message), key)

    async def _bring(self, conversation: Conversation, key: RequestKey | None) -> Begun:
        """Go on with the task whose calls the conversation has results of, and that may have stopped since."""
        refuse_files(conversation.new_files)
        task = await task_of_results(self._service, self._tenant, conversation.results)
        given = self._service, self._tenant, task, conversation.results, conversation.message
        row, after = await bring(*given, key)
        if row["status"] not in ACTIVE:
            row, _ = await self._again(await self._app.queries.task(row["task_id"]))
        return row, after

    def _digest_of_tools(self) -> str:
        tools = self._options["client_tools"]
        return hashlib.sha256(json.dumps(tools, sort_keys=True).encode()).hexdigest() if tools else ""

    async def _has_tools(self, conversation: Conversation, attempt: int) -> bool:
        """Whether the request with these messages that was the `attempt`-th offered the same tools."""
        known = await self._app.queries.request(self._key(conversation, conversation.said, attempt))
        return known is not None and known.digest == self._digest_of_tools()

    def _key(self, conversation: Conversation, said: Said, attempt: int) -> str:
        return self._tenant.stored(conversation.key(said, attempt))

    async def _attempt(self, conversation: Conversation, said: Said, attempt: int) -> Task | None:
        """The task of the request with these messages that was the `attempt`-th, from 0."""
        known = await self._app.queries.request(self._key(conversation, said, attempt))
        return await self._app.queries.task(known.task_id) if known else None

    async def _count(self, conversation: Conversation, said: Said) -> int:
        """How many requests with these messages there were, found in logarithmically many looks."""
        low, high = 0, 1
        while await self._app.queries.request(self._key(conversation, said, high - 1)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            there = await self._app.queries.request(self._key(conversation, said, middle - 1))
            low, high = (middle, high) if there else (low, middle)
        return low

    async def _before(self, conversation: Conversation) -> Task | None:
        """The task that gave the last answer; of several attempts the one whose answer the client shows."""
        if not conversation.asked_before:
            return None
        said, shown = conversation.asked_before, conversation.last_answer.strip()
        newest = None
        for attempt in reversed(range(await self._count(conversation, said))):
            task = await self._attempt(conversation, said, attempt)
            newest = newest or task
            if task and ((task.result or {}).get("answer") or "").strip() == shown:
                return task
        return newest

    async def _is_awaited(self, task: Task, retries: int) -> bool:
        """Whether the client of a task may not have its answer.

        That is so while the task is unfinished, if it may have ended since the first of the client's `retries`, and
        once after it ended lately and had been interrupted, as by a service that was killed.
        """
        age = time.time() - task.updated_at
        if not is_over(task) or (retries and age <= retries * TRY_SECONDS):
            return True
        if task.task_id in self._service.given_again or age > TRY_SECONDS:
            return False
        types = {event["type"] for event in await self._app.events(task.task_id)}
        return "resumed" in types and types.isdisjoint(("question_asked", "approval_requested"))

    async def _again(self, task: Task) -> Begun:
        """Join a task, which is resumed if it was paused, interrupted or failed."""
        row = task.json()
        if task.status not in (*ENDED, TaskStatus.WAITING) and not await self._app.queries.runs_elsewhere(task.task_id):
            try:
                with self._service.starting_task(self._tenant, task.thread_id):
                    row = await self._app.take_up(task.task_id)
            except TaskError:  # it runs or was resumed meanwhile, or its session has gone on without it
                row = await self._app.task(task.task_id)
        return row, 0

    async def _start(
        self, message: str, files: Sequence[File], thread_id: str, key: RequestKey, steer: bool = False
    ) -> Begun:
        about = {"session_id": thread_id, "steer": steer, "files": files, **self._options}
        return await self._service.start(self._tenant, message, key, **about)
