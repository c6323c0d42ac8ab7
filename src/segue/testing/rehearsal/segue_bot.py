"""A Segue agent, in any mode, as the bot of a conversation."""

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from hashlib import sha256
from typing import Any, NoReturn, TypeVar

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import StructuredTool
from langgraph.types import interrupt

from ...app import App
from ...checkpoints.leases import LEASE_SECONDS
from ...core.agents import Agent
from ...core.calls import API_CALL, PAUSE, WAIT, CallResult, CallStatus, Execution, Tool
from ...core.conversation import MODE, BotOutput, BotOutputType, Conversation, Role, Setting, as_text, bot_session
from ...core.errors import ConfigurationError, TaskError, ThreadBusy, UnknownMode
from ...core.records import Json, Task
from ...core.spend import SPEND
from ...core.task import ENDED, OPEN, TaskStatus
from ...nodes.participants import AGENT_BOT
from ...runtime.control import Started
from ...runtime.relay import POLL_SECONDS, Observer
from ...runtime.start import Request
from ...tools.bound_tool import BoundTool, Marks
from ...tools.calls import missing

T = TypeVar("T")

FREE_SECONDS = 2 * LEASE_SECONDS
"""Seconds to wait for the bot's session: of a process that was killed its lease stays for a while."""


class SegueBot:
    """Answers each turn with a task of a session of its own, in the same database.

    A call of the agent suspends the task and becomes an action of the conversation, whose result the task continues
    with. What to do next is read from the database, so a bot can be rebuilt at any time.
    """

    def __init__(self, bots: "Bots", setting: Setting) -> None:
        self._bots, self._app = bots, (app := bots.app)
        self._setting = setting
        if setting.argument and setting.argument not in app.modes:
            raise UnknownMode(setting.argument, app.modes)
        self._agent = bot_agent(setting)

    async def process(self, conversation: Conversation) -> BotOutput:
        await self._register(conversation.conversation_id)
        asked = (conversation.state.get(Role.BOT) or {}).get("asked", [])
        result = await _outside(self._next(conversation, asked))
        while result["status"] == TaskStatus.WAITING:
            question = result.get("question") or await self._app.question(result["task_id"])
            if question["kind"] == SPEND and "question" not in result:  # there may be room meanwhile
                result = await _outside(self._resume(result["task_id"], wait=FREE_SECONDS))
                continue
            if question["kind"] == SPEND:
                interrupt({name: value for name, value in question.items() if name != "interrupt_id"})
                result = await _outside(self._resume(result["task_id"]))
                continue
            if question["kind"] == WAIT:
                _suspend()
            if question["kind"] != API_CALL:
                question_ref = {"turn": conversation.turn, "task_id": result["task_id"], "id": question["interrupt_id"]}
                text = str(question.get("question", ""))
                return BotOutput(action_type=BotOutputType.RESPONSE, text=text, state={"asked": [*asked, question_ref]})
            (call,) = question["calls"]
            if (known := _result_of(conversation, call["call_id"])) is None:
                return _action(call)
            result = await _outside(self._submit_result(result["task_id"], question, known))
        if result["status"] == TaskStatus.PAUSED:
            _suspend()
        return BotOutput(
            action_type=BotOutputType.RESPONSE,
            text=result["answer"],
            usage=result.get("usage", {}),
            error=result.get("error") or "",
        )

    async def _register(self, conversation_id: str) -> None:
        """Have the agent in the registry, also in place of an older version of it whose task is to be continued."""
        self._bots.register(self._agent, conversation_id)
        newest = await self._app.tasks.newest(bot_session(conversation_id))
        if newest and not newest.is_over:
            self._bots.register(self._agent.model_copy(update={"agent_id": newest.agent_id}), conversation_id)

    async def _next(self, conversation: Conversation, asked: Sequence[Json]) -> Json:
        """Begin this turn's task, or continue it; what the turn before left unfinished is cancelled.

        `asked` are the questions of the bot's tasks, each of which the user's next message answers:
        [{"turn", "task_id", "id"}].
        """
        session_id = bot_session(conversation.conversation_id)
        begun = conversation.turn - sum(question["turn"] < conversation.turn for question in asked)
        tasks = await self._app.tasks.list(session_id=session_id, limit=conversation.turn)
        if asked and asked[-1]["turn"] == conversation.turn - 1:
            return await self._replied(asked[-1], conversation)
        if len(tasks) == begun:
            return await self._continue(tasks[0])
        if missing := begun - 1 - len(tasks):
            raise ConfigurationError(
                "The bot's session {session_id} lacks {missing} turns of the conversation: import it under this name.",
                session_id=session_id,
                missing=missing,
            )
        if tasks and tasks[0].status in OPEN:
            await self._app.cancel(tasks[0].task_id)
        request = Request(
            _said(conversation),
            session_id=session_id,
            agent=self._agent.agent_id,
            mode=self._setting.argument,
            user_id=self._setting.user_id,
            model=self._setting.model,
            language=conversation.language,
            origin="conversation",
            wait=FREE_SECONDS,
        )
        return await self._result(await self._app.tasks.start(request))

    async def _replied(self, asked: Json, conversation: Conversation) -> Json:
        """The outcome of the task after the user's answer to its question, which it has already after a crash."""
        task = await self._app.task(asked["task_id"])
        if task.status == TaskStatus.WAITING:
            question = await self._app.question(task.task_id)
            if question["interrupt_id"] == asked["id"]:
                return await self._submit_result(task.task_id, question, {"answer": _said(conversation)})
        return await self._continue(task)

    async def _continue(self, task: Task) -> Json:
        """The result of a task that began before, perhaps in another process, whose run of it is waited for."""
        task_id = task.task_id
        while True:
            if started := self._app.tasks.started(task_id):
                return await self._result(started)
            if task.status == TaskStatus.WAITING:
                return {"status": task.status, "task_id": task_id}
            if task.result:
                return {**task.result, "status": task.status, "task_id": task_id}
            try:
                return await self._resume(task_id)
            except ThreadBusy:
                if self._setting.services.pausing():
                    return {"status": TaskStatus.PAUSED, "task_id": task_id}
                await asyncio.sleep(POLL_SECONDS)
                task = await self._app.task(task_id)

    async def _resume(self, task_id: str, wait: float = 0.0) -> Json:
        return await self._result(await self._app.tasks.resume_with(task_id, None, wait))

    async def _submit_result(self, task_id: str, question: Json, result: Json) -> Json:
        """The outcome of the task after the result of its call."""
        answer = {"interrupt_id": question["interrupt_id"], "value": result}
        return await self._result(await self._app.tasks.resume_with(task_id, answer, FREE_SECONDS))

    async def _result(self, started: Started) -> Json:
        """The outcome of a run; it is paused at its next boundary where a pause of the conversation is requested."""
        ended = asyncio.create_task(self._app.tasks.result(*started))
        try:
            while not ended.done() and not self._setting.services.pausing():
                await asyncio.wait({ended}, timeout=POLL_SECONDS)
            if not ended.done():
                with suppress(TaskError):  # it may just have ended
                    await self._app.pause(started[0].task_id)
            return await ended
        finally:
            ended.cancel()  # of a conversation that is cancelled; its bot's task is cancelled once that has ended


def attach(app: App) -> "Bots":
    """Make the app's agents available as bots, under `segue:<mode>`."""
    present = app.agents.participants.bots.find(AGENT_BOT)
    if isinstance(present, Bots) and present.app is app:
        return present
    bots = Bots(app)
    app.agents.participants.bots.register(AGENT_BOT, bots)
    app.tasks.observe(bots)
    return bots


class Bots(Observer):
    """Builds the bots of an app's conversations, and takes their agents back once no conversation needs them.

    What a bot has left unfinished is cancelled with its conversation, or once that ended; where the conversation failed
    it stays, since that may be resumed.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self._conversations: dict[str, set[str]] = {}
        self._releasing: set[asyncio.Task[None]] = set()

    def __call__(self, setting: Setting) -> SegueBot:
        return SegueBot(self, setting)

    def register(self, agent: Agent, conversation_id: str) -> None:
        """Have an agent that is the bot of a conversation in the registry."""
        if agent.agent_id not in self.app.agents:
            self.app.register(agent, ConversationExecutor())
        self._conversations.setdefault(agent.agent_id, set()).add(conversation_id)

    def stopped(self, task: Task) -> None:
        if task.mode == MODE and (task.status in ENDED or task.status == TaskStatus.ERROR):
            releasing = asyncio.create_task(self._release(task), name="releasing a bot")
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)

    async def _release(self, conversation: Task) -> None:
        if conversation.status in ENDED:
            for task in await self.app.tasks.list(session_id=bot_session(conversation.session_id), limit=1):
                if task.status in OPEN:
                    with suppress(TaskError):  # it may just have ended
                        await self.app.cancel(task.task_id)
        for agent_id, conversations in [*self._conversations.items()]:
            conversations.discard(conversation.session_id)
            if not conversations:
                del self._conversations[agent_id]
                self.app.agents.forget(agent_id)

    async def close(self) -> None:
        """Wait for what is being released."""
        await asyncio.gather(*self._releasing, return_exceptions=True)


def bot_agent(setting: Setting) -> Agent:
    """The agent of the setting with the functions of the API in place of its tools, under an id of its own.

    Its tasks follow their conversation, whose version of the agent it is.
    """
    agent, seed, language = setting.agent, setting.config.seed, setting.language
    version = [agent.version] if agent.version else []
    kept = json.dumps([setting.specs, seed, language, *version], sort_keys=True, default=str)
    digest = sha256(kept.encode()).hexdigest()[:8]
    tools = [described(spec) for spec in setting.specs]
    changes = {"agent_id": f"{agent.agent_id[:50]}.{digest}", "tools": tuple(tools), "mcp": (), "seed": seed}
    return agent.model_copy(update={**changes, "language": language, "on_upgrade": "continue", "older": ()})


def described(spec: Mapping[str, Any]) -> BoundTool:
    """A tool of this specification, whose calls the conversation carries out."""
    function = spec["function"]

    async def refuse_to_run(**arguments: Any) -> Any:
        raise RuntimeError(f"{function['name']} is an API of the conversation and cannot run here.")

    inner = StructuredTool.from_function(
        coroutine=refuse_to_run,
        name=function["name"],
        description=function.get("description") or function["name"],
        args_schema=dict(function.get("parameters") or {"type": "object", "properties": {}}),
    )
    # The conversation asks for approval, and repeats what a crash interrupted.
    marks = replace(Marks.read(spec), read_only=False, needs_approval=False, idempotent=True)
    return BoundTool(
        inner=inner,
        marks=marks,
        spec=spec,
        check=dict,
        synchronous=False,
        origin=function["name"],
    )


class ConversationExecutor:
    """Has every call of the bot's task carried out by the API of the conversation; no tool runs here.

    A call waits for an answer: its task is suspended, and the call becomes an action of the conversation.
    """

    def needs_approval(self, tool: Tool) -> bool:
        return False

    def parallel(self, tool: Tool) -> bool:
        return False

    async def execute(self, execution: Execution) -> CallResult:
        if execution.tool is None:
            return missing(execution)
        if not execution.answers:
            call = {"index": 0, "name": execution.name, "arguments": dict(execution.arguments)}
            return CallResult.asking({"kind": API_CALL, "calls": [{**call, "call_id": execution.idempotency_key}]})
        given = execution.answers[-1]
        if given["ok"]:
            return CallResult.done(given["data"])
        status = CallStatus.REJECTED if given["rejected"] else CallStatus.FAILED
        return CallResult(status=status, error=as_text(given["data"]))


def _suspend() -> NoReturn:
    """Have the conversation wait until it is resumed; an answer to an earlier question resumes nothing."""
    while True:
        interrupt({"kind": PAUSE})


def _said(conversation: Conversation) -> str:
    """The user's latest message."""
    return next(u.text for u in reversed(conversation.utterances) if u.role is Role.USER)


def _action(call: Json) -> BotOutput:
    return BotOutput(
        action_type=BotOutputType.ACTION,
        action=call["name"],
        action_input=call["arguments"],
        call_id=call["call_id"],
    )


def _result_of(conversation: Conversation, call_id: str) -> Json | None:
    """The result that the conversation has for a call."""
    found = [u for u in conversation.results if u.call_id == call_id and u.turn == conversation.turn]
    if not found:
        return None
    return {"ok": found[-1].ok, "data": found[-1].data, "rejected": found[-1].approval == "reject"}


async def _outside(work: Coroutine[Any, Any, T]) -> T:
    """Run the bot's task as one of its own, and not as a part of the graph that asks for it."""
    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    return await asyncio.get_running_loop().create_task(work, context=context)
