"""Tasks of MCP servers, by the extension for tasks: a call that takes longer is answered with a handle and polled."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, cast

from mcp import ClientSession, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    ElicitRequest,
    EmptyResult,
    ErrorData,
    InputRequests,
    Request,
    RequestParams,
    Result,
)

from ..bound_tool import Job, LaterResult, UnknownOutcome, current_call, current_job
from .mcp_questions import Asking, current_asking

EXTENSION = "io.modelcontextprotocol/tasks"
_POLL_SECONDS = 1.0
"""Between two polls, where the server names no interval."""
_SHARE = 0.8
"""Of the seconds that a call may take: so long its task is polled here, then the caller's task waits in no process."""
_PAUSE_SECONDS = (10.0, 300.0)
"""The first and the longest wait in no process; each is twice as long as the one before."""
_RETRY_SECONDS = 60.0
_FAILURES = 10
"""After so many polls in a row that fail, each a longer while after the last, a task is lost."""

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskParams(RequestParams):
    """The parameters of a request about a task."""

    task_id: str


class UpdateParams(TaskParams):
    """What a client answers, by the keys of the requests; what cannot be read is for the server to ignore."""

    input_responses: dict[str, Any]


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"


class UpdateTask(Request[UpdateParams, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"


class CreatedTask(Result):
    """A handle in place of a result."""

    result_type: Literal["task"] = "task"
    task_id: str


class TaskState(Result):
    """A task as it is."""

    status: Status
    poll_interval_ms: float | None = None
    input_requests: InputRequests | None = None
    result: CallToolResult | None = None
    error: ErrorData | None = None


class TaskEnded(Exception):
    """The task ended without a result; the message is for the model."""


class Tasks(ClientExtension):
    """Has a call that is answered with a handle go on until it has its result."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[CreatedTask]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_begun),)


async def _begun(created: CreatedTask, context: ClaimContext) -> CallToolResult:
    job = current_job.get(None) or Job()
    await job.keep({"task": created.task_id})
    return await result_of(context.session, job)


async def result_of(session: ClientSession, job: Job) -> CallToolResult:
    """The result of the task that a call began, or began in an earlier process."""
    polled = _Polled(session, job)
    try:
        return await polled.result()
    except asyncio.CancelledError:
        if (call := current_call.get(None)) and call.abandoned.is_set():
            with suppress(MCPError):
                await session.send_request(CancelTask(params=polled.params), EmptyResult)
        raise


class _Polled:
    """A task of a server. What persons answered goes into the job before it is sent, so that it is sent again."""

    def __init__(self, session: ClientSession, job: Job) -> None:
        self._session = session
        self._job = job
        self.params = TaskParams(task_id=job.state["task"])
        self._deadline = asyncio.get_running_loop().time() + _SHARE * job.seconds

    async def result(self) -> CallToolResult:
        asking = current_asking.get()
        for _ in range(self._job.state.get("taken", 0)):
            asking.take()
        while True:
            state = await self._state()
            match state.status:
                case "completed":
                    return state.result or CallToolResult(content=[])
                case "failed":
                    raise TaskEnded(state.error.message if state.error else "the task failed")
                case "cancelled":
                    raise TaskEnded("the server cancelled the task")
                case "input_required":
                    await self._answer(state.input_requests or {}, asking)
            await self._pause((state.poll_interval_ms or 1_000 * _POLL_SECONDS) / 1_000)

    async def _state(self) -> TaskState:
        left = max(self._deadline - asyncio.get_running_loop().time(), 1.0)
        try:
            state = await self._session.send_request(GetTask(params=self.params), TaskState, left)
        except MCPError as error:
            if error.code in (REQUEST_TIMEOUT, INTERNAL_ERROR):
                raise try_later(self._job, error.message) from error
            if is_session_lost(error):
                raise
            raise UnknownOutcome(f"the MCP server does not show the task of the call: {error.message}") from error
        self._job.state = {**self._job.state, "failures": 0}
        return state

    async def _answer(self, requests: InputRequests, asking: Asking) -> None:
        given = dict(self._job.state.get("given", {}))
        for key, request in requests.items():
            if key in given:
                continue
            if not isinstance(request, ElicitRequest):
                raise TaskEnded(f"its task asks for {request.method}, which this client does not support")
            answer = asking.answer(request.params)
            if asking.interrupted:
                break
            given[key] = cast("Any", answer).model_dump(mode="json", by_alias=True, exclude_none=True)
        if open_ones := {key: given[key] for key in requests if key in given}:
            await self._job.keep({**self._job.state, "given": given, "taken": asking.taken})
            params = UpdateParams(task_id=self.params.task_id, input_responses=open_ones)
            await self._session.send_request(UpdateTask(params=params), EmptyResult)
        if asking.interrupted:
            raise asking.interrupted

    async def _pause(self, seconds: float) -> None:
        """Wait for the next poll, or else in no process."""
        if self._job.can_wait and asyncio.get_running_loop().time() + seconds > self._deadline:
            pauses = self._job.state.get("pauses", 0)
            first, longest = _PAUSE_SECONDS
            pause = max(seconds, min(first * 2**pauses, longest))
            raise LaterResult({**self._job.state, "pauses": pauses + 1}, timedelta(seconds=pause))
        await asyncio.sleep(seconds)


def is_session_lost(error: MCPError) -> bool:
    """Whether an error means that the session is over; an HTTP server that was restarted answers 404."""
    return error.code == CONNECTION_CLOSED or error.message == "Session terminated"


def try_later(job: Job, why: str) -> LaterResult | UnknownOutcome:
    """What a call comes to whose task cannot be asked for now."""
    failures = job.state.get("failures", 0) + 1
    if failures == _FAILURES or not job.can_wait:
        return UnknownOutcome(f"the task of the call cannot be asked for: {why}")
    return LaterResult({**job.state, "failures": failures}, timedelta(seconds=_RETRY_SECONDS * 2 ** (failures - 1)))
