"""Agents elsewhere as tools, over A2A.

A call is a task there. Its message's id and its context are the call's idempotency key, so that a call that was
interrupted finds its task again; where the agent cannot tell whether it has one, the outcome is unknown.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from segue.core.agents import RemoteAgent
from segue.core.environment import need_extra
from segue.core.errors import Clause, ToolServerUnavailable
from segue.core.provenance import SourceKind

from ..bound_tool import NOT_DONE, BadArguments, Marked, Marks, UnknownOutcome, current_call, refuse_unknown
from .client import COMPRESSED, REFUSALS, Received

if TYPE_CHECKING:
    import httpx
    from a2a.client import Client
    from a2a.types import AgentCard, Task

REPEATS_JOIN = "urn:segue:a2a:repeats-join"
"""The extension of agents for which a message that is sent again, with its id and content, is the same task."""
CONNECT_SECONDS = 10.0
POLL_SECONDS = 0.5
"""How often a task that is under way already is asked for its state."""
FAILURES = 5
"""After so many in a row an agent is lost that is asked for a task's state."""
READ_SECONDS = 60.0
"""How long a reply may take, where the agent sets no timeout."""
_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What the agent is to do, with all that it has to know."},
        "task_id": {
            "type": "string",
            "description": "To answer what the agent asked: the `task_id` of its question; the message is the answer.",
        },
    },
    "required": ["message"],
}


class RemoteAgentError(Exception):
    """The agent failed, or cannot be reached; the message is for the model."""


@dataclass(frozen=True)
class RemoteAgentTool(Marked):
    """An agent elsewhere. A call that was interrupted is made again only where it joins the task that it began."""

    agent: RemoteAgent
    card: "AgentCard" = field(repr=False)
    marks: Marks
    spec: Mapping[str, Any] = field(repr=False)

    @property
    def source_kind(self) -> SourceKind:
        return "agent-other"

    @property
    def foreign_text(self) -> str:
        """What the card says of the agent, unless the agents file says it or the agent is trusted."""
        return "" if self.trusted or self.agent.description else str(self.spec["function"]["description"])

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def owner(self) -> str:
        """Whose tool it is, in an error."""
        return f"the A2A agent {self.name}"

    @property
    def repeats_join(self) -> bool:
        """Whether a message that is sent again is the same task: the card says so."""
        return _repeats_join(self.card)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Send the message, and wait until the task has an answer or asks for input."""
        refuse_unknown(_PARAMETERS, arguments)
        if not isinstance(arguments.get("message"), str) or not arguments["message"].strip():
            raise BadArguments("message: give the text for the agent")
        call = current_call.get(None)
        async with self.calling(arguments, call.idempotency_key if call else str(uuid4())) as remote:
            if call and call.attempt > 1 and not self.repeats_join:
                return await remote.result(begun=True, repeatable=self.read_only)
            return await remote.result()

    async def check_effect(self, arguments: Mapping[str, Any]) -> Any:
        """A call may be made again where it joins the task that it began."""
        if self.repeats_join:
            return NOT_DONE
        async with self.calling(arguments, current_call.get().idempotency_key) as remote:
            return NOT_DONE if await remote.find() else None

    @asynccontextmanager
    async def calling(self, arguments: Mapping[str, Any], key: str) -> AsyncIterator["_RemoteCall"]:
        async with _client(self.agent, self.card) as client:
            yield _RemoteCall(client, self.name, arguments, key)


class _RemoteCall:
    """One call at an agent: the task that it begins or answers there."""

    def __init__(self, client: "Client", name: str, arguments: Mapping[str, Any], key: str) -> None:
        self._client = client
        self._name = name
        self._arguments = arguments
        self._key = key
        self._answered_task_id = str(arguments.get("task_id") or "")
        """The task whose question the call answers; empty where it begins one."""

    async def result(self, *, begun: bool = False, repeatable: bool = False) -> Any:
        """The task's result. `begun`: an earlier attempt may have started it; `repeatable`: then it may start again."""
        task: Task | None = None
        try:
            task = await self.find() if begun else None
            if begun and not (task or repeatable):
                raise UnknownOutcome(f"{self._name} does not show a task of the call")
            task = task or await self._send()
            return _result(self._name, await self._end_of(task))
        except asyncio.CancelledError:
            if (call := current_call.get(None)) and call.abandoned.is_set():
                await self._cancel(task)
            raise

    async def find(self) -> "Task | None":
        """The task that has the call's message, as far as the agent can tell: the only one in the call's context."""
        from a2a.client.errors import A2AClientError
        from a2a.types import GetTaskRequest, ListTasksRequest, TaskState
        from a2a.utils.errors import A2AError
        from google.protobuf.json_format import ParseError

        try:
            if not self._answered_task_id:
                listed = await self._client.list_tasks(ListTasksRequest(context_id=self._key, include_artifacts=True))
                own = [task for task in listed.tasks if task.context_id == self._key]
                return own[0] if len(own) == 1 else None
            task = await self._client.get_task(GetTaskRequest(id=self._answered_task_id))
        except (A2AClientError, ParseError) as error:
            raise UnknownOutcome(f"{self._name} cannot be asked for the task of the call: {error}") from error
        except (A2AError, NotImplementedError):  # it lists no tasks, or has no such task
            return None
        received = any(message.message_id == self._key for message in task.history)
        return task if received or task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED else None

    async def _send(self) -> "Task":
        import httpx
        from a2a.types import Message, Part, Role, SendMessageConfiguration, SendMessageRequest
        from a2a.utils.errors import A2AError
        from google.protobuf.json_format import ParseError

        about = {"task_id": self._answered_task_id} if self._answered_task_id else {"context_id": self._key}
        parts = [Part(text=self._arguments["message"])]
        message = Message(message_id=self._key, role=Role.ROLE_USER, parts=parts, **about)
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=True))
        try:
            async for response in self._client.send_message(request):
                if response.HasField("task"):
                    return response.task
                if response.HasField("message"):
                    return _answered(response.message)
        except (A2AError, ParseError) as error:
            if isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                raise RemoteAgentError(f"{self._name} cannot be reached: {error}") from error
            if _is_refusal(error):
                raise RemoteAgentError(f"{self._name} refused the message: {error}") from error
            raise UnknownOutcome(f"{self._name} may have started the task: {error}") from error
        raise UnknownOutcome(f"{self._name} answered nothing, and may have started the task")

    async def _end_of(self, task: "Task") -> "Task":
        """The task once it does not run any more."""
        from a2a.types import GetTaskRequest, TaskState
        from a2a.utils.errors import A2AError

        seconds, failures = POLL_SECONDS / 10, 0
        while task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING):
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, POLL_SECONDS)
            try:
                task, failures = await self._client.get_task(GetTaskRequest(id=task.id)), 0
            except A2AError as error:
                failures += 1
                if failures == FAILURES:
                    raise UnknownOutcome(f"{self._name} was lost while it worked on its task: {error}") from error
        return task

    async def _cancel(self, task: "Task | None") -> None:
        """Cancel the task there."""
        from a2a.types import CancelTaskRequest
        from a2a.utils.errors import A2AError

        with suppress(A2AError):
            if task := task or await self.find():
                await self._client.cancel_task(CancelTaskRequest(id=task.id))
                return
        raise UnknownOutcome(f"the call was cancelled, and {self._name} may still be running its task")


def _is_refusal(error: Exception) -> bool:
    """Whether an agent that answers with the error has not started the task."""
    from a2a.utils import errors

    return isinstance(
        error,
        errors.InvalidParamsError
        | errors.InvalidRequestError
        | errors.JSONParseError
        | errors.MethodNotFoundError
        | errors.TaskNotFoundError
        | errors.UnsupportedOperationError
        | errors.ContentTypeNotSupportedError
        | errors.ExtensionSupportRequiredError
        | errors.VersionNotSupportedError,
    )


def _answered(message: Any) -> "Task":
    """The task of an agent that only answers, without one."""
    from a2a.types import Artifact, Task, TaskState, TaskStatus

    done = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    return Task(status=done, artifacts=[Artifact(parts=message.parts)])


def _result(name: str, task: "Task") -> Any:
    """The task's result: its answer, or its question with the id to answer it by."""
    from a2a.types import TaskState

    said = _text(task.status.message.parts)
    match task.status.state:
        case TaskState.TASK_STATE_COMPLETED:
            return "\n".join(_text(artifact.parts) for artifact in task.artifacts) or said
        case TaskState.TASK_STATE_INPUT_REQUIRED:
            return {"question": said, "task_id": task.id, "answer_with": f"{name}(message, task_id)"}
        case TaskState.TASK_STATE_AUTH_REQUIRED:
            raise RemoteAgentError(f"{name} asks for a login, which only its operator can give: {said}")
    state = TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()
    raise RemoteAgentError(f"the task of {name} ended {state}: {said or 'it did not say why'}")


def _text(parts: Iterable[Any]) -> str:
    """The texts and data of parts, and the files that are texts; any other is only named."""
    from google.protobuf.json_format import MessageToJson

    said: list[str] = []
    for part in parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            said.append(part.text)
        elif kind == "data":
            said.append(MessageToJson(part.data, indent=None))
        elif kind:
            said.append(_file(part))
    return "\n".join(said)


def _file(part: Any) -> str:
    """A file as the model reads it: its name, and its text where it is one, else where it is or how large."""
    name = part.filename or part.media_type or "unnamed"
    if part.url:
        return f"[file: {name}, {part.url}]"
    if part.media_type.partition("/")[0] == "text" or part.media_type == "application/json":
        with suppress(UnicodeDecodeError):
            return f"[file: {name}]\n{part.raw.decode()}"
    return f"[file: {name}, {len(part.raw)} bytes]"


@asynccontextmanager
async def _http(agent: RemoteAgent, seconds: float) -> AsyncIterator["httpx.AsyncClient"]:
    """Sends the agent's headers; replies are bounded."""
    import httpx

    async def limit(response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx.ReadError(COMPRESSED)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        received = Received()
        async for piece in response.stream:
            if reason := received.add(piece):
                raise httpx.ReadError(reason)
        body, reason = received.end()
        if reason:
            raise httpx.ReadError(reason)
        await response.stream.aclose()
        response.stream = httpx.ByteStream(body)

    headers = {name: value.get_secret_value() for name, value in agent.headers.items()}
    async with httpx.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=agent.timeout or seconds,
        event_hooks={"response": [limit]},
    ) as http:
        yield http


def _repeats_join(card: "AgentCard") -> bool:
    return any(each.uri == REPEATS_JOIN for each in card.capabilities.extensions)


@asynccontextmanager
async def _client(agent: RemoteAgent, card: "AgentCard") -> AsyncIterator["Client"]:
    from a2a.client import ClientConfig, ClientFactory
    from a2a.extensions.common import HTTP_EXTENSION_HEADER
    from a2a.utils.constants import TransportProtocol

    async with _http(agent, READ_SECONDS) as http:
        if _repeats_join(card):
            http.headers[HTTP_EXTENSION_HEADER] = REPEATS_JOIN
        config = ClientConfig(
            httpx_client=http,
            streaming=False,
            supported_protocol_bindings=[TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON],
        )
        yield ClientFactory(config).create(card)


class RemoteAgents:
    """The agents elsewhere that an app knows, by their cards, which are read once."""

    def __init__(self) -> None:
        self._tools: dict[str, RemoteAgentTool] = {}

    async def open(self, agents: Iterable[RemoteAgent]) -> list[RemoteAgentTool]:
        """The tools that these agents are."""
        need_extra("An agent with A2A agents as tools", "a2a", "a2a")
        return list(await asyncio.gather(*map(self._tool, agents)))

    async def _tool(self, agent: RemoteAgent) -> RemoteAgentTool:
        known = self._tools.get(agent.name)
        if known is None or known.agent != agent:
            known = self._tools[agent.name] = _tool(agent, await _card(agent))
        return known


async def _card(agent: RemoteAgent) -> "AgentCard":
    """The agent's card."""
    import httpx
    from a2a.client import A2ACardResolver
    from a2a.client.errors import AgentCardResolutionError

    try:
        async with _http(agent, CONNECT_SECONDS) as http:
            card = await A2ACardResolver(http, agent.url).get_agent_card()
        _keep_own_address(card, agent.url)
        async with _client(agent, card):
            return card
    except (AgentCardResolutionError, ValueError, RecursionError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolServerUnavailable(
            agent.name, REFUSALS.get(str(error.__cause__), str(error)), Clause("A2A agent")
        ) from error


def _keep_own_address(card: "AgentCard", url: str) -> None:
    """Take the interfaces out of a card that are at another address than the card: the headers are not for them."""
    import httpx

    def origin(address: str) -> tuple[str, str, int | None]:
        parsed = httpx.URL(address)
        return parsed.scheme, parsed.host, parsed.port

    own = [each for each in card.supported_interfaces if origin(each.url) == origin(url)]
    others = ", ".join(sorted({each.url for each in card.supported_interfaces}))
    if not own:
        raise ValueError(f"its card names only other addresses: set url to the one that you trust: {others}")
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(own)


def _tool(agent: RemoteAgent, card: "AgentCard") -> RemoteAgentTool:
    skills = "; ".join(f"{skill.name}: {skill.description}" for skill in card.skills if skill.description)
    described = agent.description or "\n".join(text for text in (card.description, skills) if text)
    marks = Marks(
        read_only=agent.read_only,
        needs_approval=agent.needs_approval,
        timeout=agent.timeout,
        title=card.name or agent.name,
    )
    function = {"name": agent.name, "description": described, "parameters": _PARAMETERS}
    return RemoteAgentTool(
        agent, card, marks, {"type": "function", "function": function, "segue": marks.shown(agent.name)}
    )
