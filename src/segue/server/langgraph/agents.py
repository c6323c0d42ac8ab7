"""Segue's agents as graphs of LangGraph's server API: each message of a thread is a task of the app, in its session.

begin ── work ──┬── the task has ended: its answer is the last message
          ↑     └── it asks: ask ── reply
          └──────────────────────────┘

The thread has the messages; the session, the task, its calls, events and approvals are the app's own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import aclosing
from contextvars import Context
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from langgraph.types import interrupt
from pydantic import PrivateAttr
from typing_extensions import TypedDict

from ...core.actor import acting
from ...core.errors import InvalidAnswer, InvalidMessage, QuestionClosed, TaskError
from ...core.records import Json, RequestKey, Task
from ...core.task import ACTIVE, ANYBODY, TaskStatus
from ...runtime.graph_runs import POLL_SECONDS, TENANT, Graph
from ...runtime.reply import Added, Kind, Part, ReplyStream, TextDropped
from ..service import Service
from ..stream import events_of
from ..tenants import Tenant
from ..views import event_view

T = TypeVar("T")

SESSION = "langgraph."
"""Before the id of a thread in the name of its session."""
EVENT = "segue"
"""The name of the custom events that are the durable events of a task."""
PAUSED = "paused"
"""The kind of the question that a paused task asks: any answer resumes it."""


class AgentState(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    session_id: str
    """The session of the thread, another one after a fork."""
    task_id: str
    """The task of the last message."""
    seq: int
    """The number of its last event that was followed."""
    question: Json
    """What the task waits with; empty while it does not."""
    answer: Any


class AgentOptions(TypedDict, total=False):
    """How a message is worked on, as in `App.start`."""

    mode: str
    model: str


class TaskFailed(Exception):
    """The task of the message failed or was cancelled."""


class TaskReply(BaseChatModel):
    """What a task writes, as the stream of a model, so that LangGraph streams it as messages."""

    service: Any
    tenant: Any
    task_id: str
    seq: int
    """The number of the last event that came."""
    _is_dropped: bool = PrivateAttr(default=False)

    @property
    def _llm_type(self) -> str:
        return "segue"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, run_manager))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply, tell, app = ReplyStream(), get_stream_writer(), self.service.app
        reply.recall(event for event in await app.events(self.task_id) if event.seq <= self.seq)
        async with aclosing(events_of(self.service, self.task_id, self.seq, takes_over=True)) as events:
            async for event in events:
                if event.seq:
                    self.seq = event.seq
                    tell({"name": EVENT, "event": event_view(event.json(), self.tenant)})
                for chunk in self._chunks(reply.of(event)):
                    yield chunk
        task = await app.task(self.task_id)
        if task.status == TaskStatus.DONE:
            for chunk in self._chunks(reply.end(_answer(task))):
                yield chunk
        yield ChatGenerationChunk(message=AIMessageChunk(content="", id=self.task_id, chunk_position="last"))

    def _chunks(self, parts: Iterable[Part]) -> Iterator[ChatGenerationChunk]:
        """The pieces of the text, until one is dropped: the message in the state takes its place."""
        for part in parts:
            if isinstance(part, TextDropped):
                self._is_dropped = True
            elif isinstance(part, Added) and part.kind == Kind.TEXT and not self._is_dropped:
                yield ChatGenerationChunk(message=AIMessageChunk(content=part.text, id=self.task_id))


def agent_graph(service: Service, agent_id: str) -> Graph:
    """The graph that has the app work on the messages of a thread."""
    builder = StateGraph(AgentState, AgentOptions)
    nodes = _Nodes(service, agent_id)
    builder.add_node("begin", nodes.begin)
    builder.add_node("work", nodes.work)
    builder.add_node("ask", nodes.ask)
    builder.add_node("reply", nodes.reply)
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "work")
    builder.add_conditional_edges("work", _asks)
    builder.add_edge("ask", "reply")
    builder.add_conditional_edges("reply", _is_answered)
    return builder.compile(name=agent_id)


def _asks(state: AgentState) -> Literal["ask", "__end__"]:
    return "ask" if state["question"] else "__end__"


def _is_answered(state: AgentState) -> Literal["ask", "work"]:
    return "ask" if state["question"] else "work"


class _Nodes:
    """What the nodes of an agent's graph do; one that is done again after a crash begins and answers nothing twice."""

    def __init__(self, service: Service, agent_id: str) -> None:
        self._service = service
        self._agent_id = agent_id

    async def begin(self, state: AgentState, config: RunnableConfig) -> AgentState:
        """Start the task of the last message; where the thread was forked, in a branch of the session."""
        messages = state.get("messages") or []
        if not messages or messages[-1].type != "human":
            raise InvalidMessage("The last message is not the user's: send the user's message last.")
        message, tenant, thread_id = messages[-1], _tenant_of(config), config["configurable"]["thread_id"]
        key = _key(tenant, f"{thread_id}/{message.id}", message.text)
        options = {name: str(value) for name, value in (get_runtime(AgentOptions).context or {}).items() if value}
        session_id = tenant.stored(state.get("session_id") or f"{SESSION}{thread_id}")

        async def start() -> Task:
            if known := await self._service.known(key):
                return known[0]
            later = await self._tasks_after(session_id, state.get("task_id"))
            if later:
                branch = tenant.stored(f"{SESSION}{thread_id}.{sha256(str(message.id).encode()).hexdigest()[:12]}")
                return await self._service.app.rewind.branch(later[0].task_id, branch, message.text, key)
            about = {"session_id": session_id, "agent": self._agent_id, "user_id": tenant.stored(ANYBODY), **options}
            task, _ = await self._service.start(tenant, message.text, key, origin="langgraph", steer=True, **about)
            return task

        task = await _apart(tenant, start())
        return {
            "task_id": task.task_id,
            "session_id": tenant.shown(task.session_id),
            "seq": 0,
            "question": {},
            "answer": None,
        }

    async def _tasks_after(self, session_id: str, task_id: str | None) -> list[Task]:
        """The tasks of a session that follow one of it, or all of them."""
        tasks = [*reversed(await self._service.app.tasks.list(session_id=session_id))]
        places = [place for place, task in enumerate(tasks, 1) if task.task_id == task_id]
        return tasks[places[0] :] if places else tasks

    async def work(self, state: AgentState, config: RunnableConfig) -> AgentState:
        """Follow the task until it has ended or asks."""
        app, task_id, tenant = self._service.app, state["task_id"], _tenant_of(config)
        reply = TaskReply(service=self._service, tenant=tenant, task_id=task_id, seq=state["seq"])
        try:
            await reply.ainvoke([])
            while (task := await app.task(task_id)).status in ACTIVE:  # its process died: another one takes it up
                await asyncio.sleep(POLL_SECONDS)
                await reply.ainvoke([])
        except asyncio.CancelledError:
            if not self._service.draining:
                await asyncio.shield(_apart(tenant, app.cancel(task_id)))
            raise
        if task.status == TaskStatus.WAITING:
            return {"question": dict(await app.question(task_id)), "seq": reply.seq}
        if task.status == TaskStatus.PAUSED:
            return {"question": {"kind": PAUSED, "interrupt_id": f"{PAUSED}:{task_id}"}, "seq": reply.seq}
        if task.status != TaskStatus.DONE:
            raise TaskFailed(tenant.without_prefix(task.error or str(task.status)))
        return {"messages": [AIMessage(_answer(task), id=task_id)], "question": {}}

    def ask(self, state: AgentState) -> AgentState:
        return {"answer": interrupt(state["question"])}

    async def reply(self, state: AgentState, config: RunnableConfig) -> AgentState:
        """Give the task its answer; one that does not fit is asked for again."""
        tenant, question, answer = _tenant_of(config), state["question"], state["answer"]
        task = await self._service.app.task(state["task_id"])
        key = _key(tenant, f"{config['configurable']['thread_id']}/{question['interrupt_id']}", json.dumps(answer))
        try:
            if question["kind"] == PAUSED:
                await _apart(tenant, self._service.resume(tenant, task, key))
            else:
                await _apart(tenant, self._service.answer(tenant, task, question, _reply_to(question, answer), key))
        except InvalidAnswer as error:
            return {"question": {**question, "error": str(error)}}
        except (QuestionClosed, TaskError):
            pass  # it was answered elsewhere
        return {"question": {}}


def _answer(task: Task) -> str:
    return str((task.result or {}).get("answer") or "")


def _reply_to(question: Mapping[str, Any], answer: Any) -> Any:
    """An answer as the app takes it: of LangChain's form for approvals, too."""
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if question["kind"] != "approval" or not isinstance(decisions, list):
        return answer
    verdicts = []
    for call, decision in zip(question["calls"], decisions, strict=False):
        verdict = {"index": call["index"], "verdict": decision.get("type")}
        if decision.get("type") == "edit":
            verdict["arguments"] = (decision.get("edited_action") or {}).get("args")
        if decision.get("message"):
            verdict["reason"] = decision["message"]
        verdicts.append(verdict)
    return {"verdicts": verdicts}


def _key(tenant: Tenant, name: str, content: str) -> RequestKey:
    return RequestKey(tenant.stored(f"langgraph:{name}"), sha256(content.encode()).hexdigest())


def _tenant_of(config: RunnableConfig) -> Tenant:
    """Whose run it is, and with which roles it was begun."""
    return Tenant.of_json(config["configurable"][TENANT])


async def _apart(tenant: Tenant, work: Coroutine[Any, Any, T]) -> T:
    """Do something outside of this graph's run, in the name of a tenant: what it begins is no part of the run."""

    async def act() -> T:
        with acting(tenant.actor, tenant.roles):
            return await work

    return await asyncio.create_task(act(), name="agent of a thread", context=Context())
