"""Agents elsewhere as tools, over A2A.

A call is a task there. Its message's id and its context are made of the call's idempotency key, so that a call that was
interrupted finds its task again instead of beginning another one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from segue.core.agents import RemoteAgent
from segue.core.clause import Clause
from segue.core.environment import need_extra
from segue.core.errors import ToolServerUnavailable

from ..bound_tool import BadArguments, Marked, Marks, current_call, refuse_unknown

if TYPE_CHECKING:
    from a2a.client import Client
    from a2a.types import AgentCard, Task

CONNECT_SECONDS = 10.0
POLL_SECONDS = 0.5
"""How often a task that is under way already is asked for its state."""
_PARAMETERS = {
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
    """An agent elsewhere. It may be called again after a crash, since the call finds its task there."""

    agent: RemoteAgent
    card: "AgentCard" = field(repr=False)
    marks: Marks
    spec: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def owner(self) -> str:
        """Whose tool it is, in an error."""
        return f"the A2A agent {self.name}"

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Send the message, and wait until the task has an answer or asks for input.

        Raises:
            RemoteAgentError: the task failed, or the agent cannot be reached.
        """
        from a2a.client.errors import A2AClientError
        from a2a.utils.errors import A2AError

        refuse_unknown(_PARAMETERS, arguments)
        if not isinstance(arguments.get("message"), str) or not arguments["message"].strip():
            raise BadArguments("message: give the text for the agent")
        call = current_call.get(None)
        key = call.idempotency_key if call else str(uuid4())
        try:
            async with _client(self.agent, self.card) as client:
                known = await self._known(client, key) if call and call.attempt > 1 else None
                task = known or await self._sent(client, arguments, key)
                return _result(self.name, await self._ended(client, task))
        except A2AClientError as error:
            raise RemoteAgentError(
                f"{self.name} cannot be reached: {error}; it may have begun what it was told"
            ) from error
        except A2AError as error:
            raise RemoteAgentError(f"{self.name} refused the message: {error.message}") from error

    async def _known(self, client: "Client", key: str) -> "Task | None":
        """The task that an earlier attempt of the call began."""
        from a2a.client.errors import A2AClientError
        from a2a.types import ListTasksRequest
        from a2a.utils.errors import A2AError

        try:
            listed = await client.list_tasks(ListTasksRequest(context_id=key, include_artifacts=True))
        except A2AClientError:
            raise
        except A2AError as error:
            raise RemoteAgentError(
                f"unknown_outcome: {self.name} may have begun the task of an earlier attempt, and lists no tasks: "
                "check what it did before calling it once more"
            ) from error
        return listed.tasks[0] if listed.tasks else None

    async def _sent(self, client: "Client", arguments: Mapping[str, Any], key: str) -> "Task":
        from a2a.types import Message, Part, Role, SendMessageConfiguration, SendMessageRequest

        message = Message(message_id=key, role=Role.ROLE_USER, parts=[Part(text=arguments["message"])])
        if task_id := str(arguments.get("task_id") or ""):
            message.task_id = task_id
        else:
            message.context_id = key
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=True))
        async for response in client.send_message(request):
            if response.HasField("task"):
                return response.task
            if response.HasField("message"):
                return _answered(response.message)
        raise RemoteAgentError(f"{self.name} answered nothing")

    async def _ended(self, client: "Client", task: "Task") -> "Task":
        """The task once it does not run any more."""
        from a2a.types import GetTaskRequest, TaskState

        seconds = POLL_SECONDS / 10
        while task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING):
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, POLL_SECONDS)
            task = await client.get_task(GetTaskRequest(id=task.id))
        return task


def _answered(message: Any) -> "Task":
    """The task of an agent that only answers, without one."""
    from a2a.types import Artifact, Task, TaskState, TaskStatus

    done = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    return Task(status=done, artifacts=[Artifact(parts=message.parts)])


def _result(name: str, task: "Task") -> Any:
    """The task's result: its answer, or its question with the id to answer it by.

    Raises:
        RemoteAgentError: it failed.
    """
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
    """The texts and data of parts; a file is only named."""
    from google.protobuf.json_format import MessageToJson

    said: list[str] = []
    for part in parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            said.append(part.text)
        elif kind == "data":
            said.append(MessageToJson(part.data, indent=None))
        elif kind:
            said.append(f"[file: {part.filename or part.url or part.media_type}]")
    return "\n".join(said)


@asynccontextmanager
async def _client(agent: RemoteAgent, card: "AgentCard") -> AsyncIterator["Client"]:
    import httpx
    from a2a.client import ClientConfig, ClientFactory
    from a2a.utils.constants import TransportProtocol

    headers = {name: value.get_secret_value() for name, value in agent.headers.items()}
    async with httpx.AsyncClient(headers=headers, timeout=agent.timeout or 60.0) as http:
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
        """The tools that these agents are.

        Raises:
            MissingExtra: the package `a2a-sdk` is not installed.
            ToolServerUnavailable: one cannot be reached, or its card cannot be read.
        """
        need_extra("An agent with A2A agents as tools", "a2a", "a2a")
        return list(await asyncio.gather(*map(self._tool, agents)))

    async def _tool(self, agent: RemoteAgent) -> RemoteAgentTool:
        known = self._tools.get(agent.name)
        if known is None or known.agent != agent:
            known = self._tools[agent.name] = _tool(agent, await _card(agent))
        return known


async def _card(agent: RemoteAgent) -> "AgentCard":
    """The agent's card.

    Raises:
        ToolServerUnavailable: it cannot be read, or it names no way to the agent that is known here.
    """
    import httpx
    from a2a.client import A2ACardResolver
    from a2a.client.errors import AgentCardResolutionError

    headers = {name: value.get_secret_value() for name, value in agent.headers.items()}
    try:
        async with httpx.AsyncClient(headers=headers, timeout=agent.timeout or CONNECT_SECONDS) as http:
            card = await A2ACardResolver(http, agent.url).get_agent_card()
        async with _client(agent, card):
            return card
    except (AgentCardResolutionError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolServerUnavailable(agent.name, str(error), Clause("A2A agent")) from error


def _tool(agent: RemoteAgent, card: "AgentCard") -> RemoteAgentTool:
    skills = "; ".join(f"{skill.name}: {skill.description}" for skill in card.skills if skill.description)
    described = agent.description or "\n".join(text for text in (card.description, skills) if text)
    marks = Marks(
        read_only=agent.read_only,
        idempotent=True,
        needs_approval=agent.needs_approval,
        timeout=agent.timeout,
        title=card.name or agent.name,
    )
    function = {"name": agent.name, "description": described, "parameters": _PARAMETERS}
    return RemoteAgentTool(
        agent, card, marks, {"type": "function", "function": function, "segue": marks.shown(agent.name)}
    )
