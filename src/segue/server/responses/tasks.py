"""The task that a request for a response begins, continues or forks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.context import Ids
from ...core.errors import InvalidAnswer
from ...core.question import CLIENT_CALLS
from ...core.records import Json, RequestKey, Task
from ...core.task_status import ENDED
from ...prompts.elicitation import answer_of
from ..client_calls import bring_results
from ..errors import Problem, not_found
from ..openai.attempts import Attempts, is_awaited, rejoin
from ..openai.bodies import ChatMessage
from ..openai.client_calls import bring, task_of_results
from ..openai.content_parts import refuse_files
from ..openai.conversation import Conversation
from ..openai.forks import fork_after
from ..openai.uploaded_files import with_contents
from ..service import Begun, Service
from ..tenants import Tenant
from .bodies import InputItem, ResponseRequest
from .segment import Segment, last_segment, own_segment, response_id, segment_of

_ITEM = re.compile(r"(?:msg|rs|mcp|fc)_([^_]+)_(\d{1,15})_\d+")
_APPROVAL = re.compile(r"mcpr_([^_]+)_([^_]+)_(\d{1,9})")
_NEW = ("message", "mcp_approval_response", "function_call_output")


@dataclass(frozen=True)
class ResponseTasks:
    """Finds or starts the task of a request."""

    service: Service
    tenant: Tenant
    body: ResponseRequest
    options: Json
    """Those of `App.start`."""

    async def begin(self, asked: RequestKey | None, digest: str, retries: int, about: Json) -> Begun:
        """The task that answers the request, and the number of its event that the response begins after.

        `asked` is the client's own key. Without one, a request with this `digest` that was sent before is the same one
        if its client may not have the response; `retries` is how often the client says that it sent it before.
        """
        if asked:
            known = await self.service.known(asked)
            return known or await self._begin(replace(asked, about=about))
        attempts = Attempts(self.service, lambda number: self.tenant.stored(f"response:{digest}:{number}"))
        count = await attempts.count()
        last = await attempts.known(count - 1) if count else None
        if last and last.task_id:
            task = await self.service.app.tasks.get(last.task_id)
            segment = await segment_of(self.service, task, last.seq)
            if await is_awaited(self.service, task, last.key, retries, over=segment.is_over or not segment.is_last):
                with self.service.delivering(last.key):
                    return await rejoin(self.service, self.tenant, task), last.seq
        while self.service.has_delivered(attempts.key(count)):  # another one that has only begun
            count += 1
        key = RequestKey(attempts.key(count), "", about)
        with self.service.delivering(key.key):
            return await self._begin(key)

    async def _begin(self, key: RequestKey) -> Begun:
        """Begin or continue a task.

        A response to an earlier one continues in a fork where its session went on meanwhile. What is sent to a task
        that waits is the answer, what is sent to one that is unfinished steers it.

        Raises:
            Problem: an earlier response cannot be continued, or is not there.
            Those of `App.start` and `App.take_up`.
        """
        previous, items = await self._previous()
        if decisions := [item for item in items if item.type == "mcp_approval_response"]:
            if previous is None or len(decisions) < len(items):
                raise InvalidAnswer("Approvals come alone, with the response that requested them.")
            return await self._decide(previous, decisions, key)
        if any(item.type == "function_call_output" for item in self._last_items):
            return await self._bring(previous, key)
        message = await self._message(previous, items)
        if previous is None:
            thread_id = await self._session()
            return await self._send(message, thread_id, await self._latest(thread_id), key)
        latest = await self._latest(previous.row.thread_id)
        if latest and latest.task_id == previous.task_id and previous.is_last:
            return await self._send(message, previous.row.thread_id, latest, key)
        if not previous.is_last or previous.row.status not in ENDED:
            raise Problem(409, "ResponseContinued", named=previous.id)
        task = await self.service.app.tasks.get(previous.task_id)
        return await self._send(message, await fork_after(self.service, self.tenant, task), None, key)

    async def _previous(self) -> tuple[Segment | None, Sequence[InputItem]]:
        """The response that the request continues, and what it adds to that.

        A client that sends the items of earlier responses again names the last of them by that.
        """
        items = self._items
        known = [place for place, item in enumerate(items) if _response_of(item.id or "")]
        new = [item for item in items[known[-1] + 1 if known else 0 :] if item.type in _NEW]
        decided = _response_of(new[0].approval_request_id or "") if new else ""
        named = self.body.previous_response_id or decided or (_response_of(items[known[-1]].id or "") if known else "")
        if not named:
            return None, new
        segment = await own_segment(self.service, self.tenant, named)
        return (await last_segment(self.service, segment.row) if decided else segment), new

    @property
    def _items(self) -> Sequence[InputItem]:
        given = self.body.input
        return [InputItem(content=given)] if isinstance(given, str) else given

    @property
    def _last_items(self) -> Sequence[InputItem]:
        """What the client adds: everything after the last item that an agent made."""
        items = self._items
        made = [
            place
            for place, item in enumerate(items)
            if item.type not in _NEW or (item.type == "message" and item.role == "assistant")
        ]
        return items[made[-1] + 1 if made else 0 :]

    async def _bring(self, previous: Segment | None, key: RequestKey) -> Begun:
        """Go on with the task whose calls the request has results of.

        Raises:
            Problem: there is no such call, or it is not the previous response's, or the conversation's.
        """
        self.body.check_with_result()
        said = Conversation.of([item.message for item in self._last_items], "", "")
        refuse_files(said.new_files)
        task = await task_of_results(self.service, self.tenant, said.results)
        elsewhere = previous and previous.task_id != task.task_id
        if elsewhere or (self.body.session_id and await self._session() != task.thread_id):
            raise not_found("call", next(iter(said.results)))
        return await bring(self.service, self.tenant, task, said.results, said.message, key)

    async def _message(self, previous: Segment | None, items: Sequence[InputItem]) -> Conversation:
        """What is new, with the instructions, unless the earlier response had them."""
        messages = [item.message for item in items if item.type == "message"]
        messages = await with_contents(self.service, self.tenant, messages)
        instructions = self.body.instructions
        if instructions and not (previous and previous.about.get("instructions") == instructions):
            messages.insert(0, ChatMessage(role="system", content=instructions))
        return Conversation.of(messages or [ChatMessage(role="assistant")], "", "")

    async def _session(self) -> str:
        """The stored name of the conversation; a new one where none is named."""
        if self.body.session_id is None:
            return self.tenant.stored(Ids().thread())
        return await self.service.own_session(self.tenant, self.body.session_id)

    async def _latest(self, thread_id: str) -> Task | None:
        return await self.service.app.tasks.newest(thread_id)

    async def _send(self, said: Conversation, thread_id: str, latest: Task | None, key: RequestKey) -> Begun:
        """Send a message to a session; to a task that waits it is the answer, whatever its instructions."""
        files = [*said.files.values()]
        if latest and latest.status == "waiting":
            refuse_files(files)
            question = await self.service.app.question(latest.task_id)
            if CLIENT_CALLS in question:
                return await bring_results(self.service, self.tenant, latest, {}, said.message, key)
            return await self.service.answer(self.tenant, latest, question, answer_of(question, said.message), key)
        options = {"session_id": thread_id, "steer": latest is not None, "files": files, **self.options}
        return await self.service.start(self.tenant, said.first_message, key, **options)

    async def _decide(self, previous: Segment, decisions: Sequence[InputItem], key: RequestKey) -> Begun:
        """Give a task the verdicts on its calls.

        Raises:
            InvalidAnswer, QuestionClosed: they do not fit what is asked.
        """
        verdicts: list[dict[str, Any]] = []
        asked = ""
        for decision in decisions:
            named = _APPROVAL.fullmatch(decision.approval_request_id or "")
            if named is None or named[1] != previous.task_id or asked not in ("", named[2]):
                raise InvalidAnswer("The decisions are not on the calls of one response: send those of one.")
            asked, verdict = named[2], "approve" if decision.approve else "reject"
            verdicts.append({"index": int(named[3]), "verdict": verdict, "reason": decision.reason or ""})
        answer = {"verdicts": verdicts}
        return await self.service.take_up(self.tenant, previous.row, key, answer=answer, interrupt_id=asked)


def _response_of(named: str) -> str:
    """The response that the id of an item names; empty where it names none."""
    if approval := _APPROVAL.fullmatch(named):
        return response_id(approval[1], 0)
    item = _ITEM.fullmatch(named)
    return response_id(item[1], int(item[2])) if item else ""
