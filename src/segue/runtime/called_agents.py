"""Calls of agents that are tools: the task of each, in a session of its own below that of the task that calls it."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from contextvars import Context
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeVar

from ..checkpoints.storage import Storage
from ..core.actor import act_as, actor
from ..core.calls import OF_AGENT, PAUSE, SECRET, SOURCES, CallKey, CallResult
from ..core.context import AgentCall, AgentCalls
from ..core.errors import InvalidAnswer, QuestionClosed, TaskError, ThreadBusy, UnknownAgent
from ..core.events import AgentCalled, Phase
from ..core.message import AnswerFormat, ReplyOptions
from ..core.provenance import Source
from ..core.records import Call, Json, RequestKey, Task
from ..core.task import ACTIVE, MOST_SESSION, TaskStatus
from ..nodes.context import announce
from ..prompts.catalogue import task_text
from ..tools.adapters.agents import TASK
from .control import Control
from .questions import version_answer
from .relay import POLL_SECONDS
from .reply import Projection, project
from .run import Capacity, usage_by_events
from .runner import Runner
from .start import Request, Starter

_T = TypeVar("_T")


def _session_below(session_id: str, agent_id: str, key: str) -> str:
    """The session of the task that a call of an agent begins: the same whenever the call is made again there."""
    end = f".{agent_id}.{sha256(f'{session_id}/{key}'.encode()).hexdigest()[:12]}"
    return session_id[: MOST_SESSION - len(end)] + end


async def _apart(work: Coroutine[Any, Any, _T]) -> _T:
    """Do something outside of the call that it is for: what it begins is no part of that call's graph."""
    context = Context()
    context.run(Capacity.enter)
    context.run(act_as, actor())
    return await asyncio.create_task(work, name="call agent", context=context)


class CalledAgents:
    """Carries out the calls of agents that are tools.

    A call finds the task that it began by its session, so that one which is made again after a crash, an answer or a
    pause joins that task. A question of the task is the call's own, until it is answered.
    """

    def __init__(self, storage: Storage, runner: Runner, control: Control, starter: Starter) -> None:
        self._storage = storage
        self._runner = runner
        self._tasks = runner.tasks
        self._control = control
        self._starter = starter

    def of(self, caller: Task) -> AgentCalls:
        """Those of one task."""
        return _CallsOf(self, caller)

    async def call(self, caller: Task, call: AgentCall) -> CallResult:
        """The result of a call that the task `caller` makes."""
        task = await self._joined(caller, call) if call.joins else await self._begun(caller, call)
        if task is None:
            return CallResult.failed(task_text("agent_not_begun", caller.reply_language, task_id=call.joins))
        if call.later and not call.joins:
            await self._continue(task)
            begun = CallResult.done({TASK: task.task_id, "status": task_text("agent_runs", caller.reply_language)})
            return begun.with_labels(used={"begun": task.task_id, "usage": {}, "tool_calls": _reserved(task)})
        while not _has_stopped(task):
            if task.status == TaskStatus.WAITING:
                await self._ask(task, call)
            else:
                if call.services.pausing():
                    call.ask({"kind": PAUSE})
                await self._run(task, call)
            task = await self._tasks.get(task.task_id)
        return await self._result(task, caller, returned=_reserved(task) + 1 if call.joins else 0)

    async def ended(self, task_ids: Collection[str]) -> list[str]:
        """Those of the tasks that have ended."""
        return [task_id for task_id in task_ids if _has_stopped(await self._tasks.get(task_id))]

    async def _joined(self, caller: Task, call: AgentCall) -> Task | None:
        """The task that an earlier call of the caller began; None where there is no such task."""
        tasks = await self._tasks.called_by(caller.task_id)
        return next((each for each in tasks if each.task_id == call.joins), None)

    async def _begun(self, caller: Task, call: AgentCall) -> Task:
        """The task that the call begins, or began before; an event says so once."""
        session_id = _session_below(caller.session_id, call.agent.agent, call.key)
        called = await self._tasks.called_by(caller.task_id)
        task = next((each for each in called if each.session_id == session_id), None)
        if task is None:
            task = await _apart(self._start(caller, call, session_id))
        begun = AgentCalled(
            index=call.index,
            name=call.agent.name,
            agent_id=task.agent_id,
            called_task_id=task.task_id,
            background=call.later,
            **call.ids,
        )
        await call.services.record(call.source, call.services.announced(announce(begun)))
        return task

    async def _start(self, caller: Task, call: AgentCall, session_id: str) -> Task:
        agent = self._control.registry.agent(call.agent.agent)
        schema = agent.answer_schema
        request = Request(
            call.message,
            session_id=session_id,
            agent=agent.agent_id,
            mode=agent.mode,
            user_id=caller.user_id,
            language=caller.language or "",
            key=RequestKey(f"call:{session_id}", sha256(call.message.encode()).hexdigest()),
            reply_options=ReplyOptions(
                answer_format=AnswerFormat(json_schema=schema) if schema else None,
                **await self._limits(caller, call),
            ),
            origin="agent",
            called_by=caller,
        )
        task, _ = await self._starter.start(request)
        return task

    async def _limits(self, caller: Task, call: AgentCall) -> Json:
        """The call's share of what is left of the caller's budget."""
        budget = self._control.registry.of(caller).agent(caller.agent_id).budget
        own = ReplyOptions.of(caller.reply_options)
        calls = await self._storage.ledger(caller.session_id).finished()
        beside = call.share.calls
        before = [each for each in calls if CallKey(each.task_id, each.scope, each.idx) not in beside]
        made = sum(_count(each) for each in before if each.task_id == caller.task_id) + len(beside)
        most = budget.tool_calls if own.most_calls is None else min(budget.tool_calls, own.most_calls)
        seconds = budget.seconds if own.most_seconds is None else min(budget.seconds, own.most_seconds)
        worked = call.services.clock() - call.services.began
        return {"most_calls": call.share.of(most - made), "most_seconds": max(seconds - worked, 1.0)}

    async def _ask(self, task: Task, call: AgentCall) -> None:
        """Have the caller's graph ask what the task asks, and pass the answer on once it is there."""
        with suppress(QuestionClosed, TaskError, InvalidAnswer):  # it was passed on before
            if task.asks_for_version:
                question = await self._control.questions.of(task.task_id)
            else:
                question = await self._control.questions.whole(task)
            asks = {"agent_id": task.agent_id, "task_id": task.task_id, **question.get(OF_AGENT, {})}
            given = call.ask({**question, OF_AGENT: {**asks, "interrupt_id": question["interrupt_id"]}})
            if given["interrupt_id"] != question["interrupt_id"]:
                return
            value = version_answer(given["value"]["answer"]) if task.asks_for_version else given["value"]
            checked = {"interrupt_id": question["interrupt_id"], "value": value}
            await _apart(self._control.resume_with(task.task_id, checked))

    async def _run(self, task: Task, call: AgentCall) -> None:
        """Wait until the task stops, and continue it if nobody runs it; show meanwhile what it does."""
        await self._continue(task)
        following, requested = asyncio.create_task(self._show(task, call), name="follow agent"), ""
        try:
            while not following.done():
                await asyncio.wait({following}, timeout=POLL_SECONDS)
                services = call.services
                wanted: Literal["pause", "stop"] = "stop" if services.model_calls.stopped else "pause"
                if services.pausing() and requested != wanted:
                    requested = wanted
                    with suppress(TaskError):  # it has just stopped
                        await self._control.pause(task.task_id, wanted, part=True)
            await following
        except asyncio.CancelledError:
            following.cancel()
            self._control.stop_now(task.task_id)
            raise

    async def _continue(self, task: Task) -> None:
        """Continue a task that is under way if nobody runs it."""
        if task.status == TaskStatus.WAITING or _has_stopped(task) or self._runner.run_of(task.task_id):
            return
        if not await self._runner.leases.held(task.session_id):
            with suppress(ThreadBusy):
                await _apart(self._control.resume_with(task.task_id, None))

    async def _show(self, task: Task, call: AgentCall) -> None:
        """Stream what the task calls until it stops, for those who read only `thinking`."""
        seen = await self._storage.events.last(task.task_id)
        async with aclosing(self._control.follow(task.task_id, seen.seq if seen else 0)) as events:
            async for event in events:
                if isinstance(event, Phase) and event.call and (event.trace_id or event.step_id):
                    content = f"{task.agent_id} › {event.content.lstrip()}"
                    call.services.emit(Phase(content=content, call=True, **call.ids))

    async def _result(self, task: Task, caller: Task, returned: int) -> CallResult:
        """The result of a call whose task has stopped for good, or failed; what that used is counted once.

        So many calls are `returned`: those reserved when it began in the background, and the one that has its result.
        """
        before = await self._storage.ledger(caller.session_id).finished()
        language, is_counted = caller.reply_language, task.task_id in [_counted(each.outcome) for each in before]
        own = await self._calls(task)
        result = task.result or {}
        if task.status == TaskStatus.ERROR:
            await self.cancel_below(task)  # it left what it had called
        made = await self._made(task) - returned
        used = {"task_id": task.task_id, "usage": await self._used(task), "tool_calls": made}
        labels: Json = {
            "used": None if is_counted else used,
            "sources": _sources(own),
            "secret": any((each.outcome or {}).get(SECRET) for each in own),
        }
        if task.status == TaskStatus.DONE:
            answer = result["answer"]
            form = ReplyOptions.of(task.reply_options).answer_format
            return CallResult.done(form.read(answer) if form else answer).with_labels(**labels)
        name = "agent_cancelled" if task.status == TaskStatus.CANCELLED else "agent_failed"
        why = task.error or result.get("error") or result.get("answer") or ""
        return CallResult.failed(task_text(name, language, agent=task.agent_id, why=why)).with_labels(**labels)

    async def _calls(self, task: Task) -> list[Call]:
        """The finished calls of a task."""
        return [each for each in await self._storage.ledger(task.session_id).finished() if each.task_id == task.task_id]

    async def _made(self, task: Task) -> int:
        """How many calls a task made that has stopped, with those of what it called: also without its result."""
        calls = await self._calls(task)
        begun, counted = {_begun(each.outcome) for each in calls}, {_counted(each.outcome) for each in calls}
        left = [each for each in await self._tasks.called_by(task.task_id) if each.task_id not in counted]
        inside = [await self._made(each) - _reserved(each) * (each.task_id in begun) for each in left]
        return sum(map(_count, calls)) + sum(inside)

    async def _used(self, task: Task) -> Json:
        """What a task used that has stopped, with what it called; one that raised an error has only its log."""
        if task.result:
            return task.result.get("usage") or {}
        known = project(await self._storage.events.read(task.task_id))
        for used in await self.used_below(task, known):
            known.usage.add(used)
        return usage_by_events(known, self._control.registry.of(task).get(task.agent_id))

    async def used_below(self, task: Task, known: Projection) -> list[Json]:
        """What the tasks used that a task called, without those whose results its log has."""
        counted = {_counted(each.result) for each in known.results}
        left = [each for each in await self._tasks.called_by(task.task_id) if each.task_id not in counted]
        return [await self._used(each) for each in left]

    async def pause_below(self, task: Task, requested: Literal["pause", "stop"]) -> None:
        """Pause what a task called in the background, and wait until that has stopped.

        Of one that waits, what it called is paused.
        """
        for each in await self._tasks.called_by(task.task_id):
            run = self._runner.run_of(each.task_id)
            with suppress(TaskError):  # it has just stopped
                if each.status in ACTIVE:
                    await self._control.pause(each.task_id, requested, part=True)
            if run and run.task:
                await asyncio.wait([run.task])
            if (await self._tasks.get(each.task_id)).status == TaskStatus.WAITING:
                await self.pause_below(each, requested)

    async def continue_below(self, task: Task) -> None:
        """Continue what a task that goes on called in the background, and whose results it does not have.

        One whose agent is no longer there is left: it is cancelled when the task ends.
        """
        calls = await self._calls(task)
        left = {_begun(each.outcome) for each in calls} - {_counted(each.outcome) for each in calls}
        for each in await self._tasks.called_by(task.task_id):
            if each.status == TaskStatus.WAITING:
                await self.continue_below(each)
            elif each.task_id in left:
                with suppress(TaskError, UnknownAgent):
                    await self._continue(each)

    async def cancel_below(self, task: Task) -> None:
        """Cancel what a task called that has not stopped; it ends itself only then."""
        for each in await self._tasks.called_by(task.task_id):
            if each.status == TaskStatus.ERROR:
                await self.cancel_below(each)
            elif not each.is_over:
                with suppress(TaskError):  # it has just ended
                    await self._control.cancel(each.task_id)


@dataclass(frozen=True)
class _CallsOf:
    """The calls of one task."""

    agents: CalledAgents
    caller: Task

    async def call(self, call: AgentCall) -> CallResult:
        return await self.agents.call(self.caller, call)

    async def ended(self, task_ids: Collection[str]) -> Collection[str]:
        return await self.agents.ended(task_ids)


def _has_stopped(task: Task) -> bool:
    return task.is_over or task.status == TaskStatus.ERROR


def _count(call: Call) -> int:
    """How many calls a finished one counts as."""
    return 1 + CallResult.of(call.outcome or {}).calls_inside


def _reserved(task: Task) -> int:
    """The calls that one in the background counts as until its result is there: the most that it can make."""
    return ReplyOptions.of(task.reply_options).most_calls or 0


def _counted(result: Mapping[str, Any] | None) -> str:
    """The task whose use the stored result of a call counts; empty where it is none's."""
    return str((CallResult.of(result or {}).used or {}).get("task_id", ""))


def _begun(result: Mapping[str, Any] | None) -> str:
    """The task that the call with this stored result began in the background; empty where it began none."""
    return str((CallResult.of(result or {}).used or {}).get("begun", ""))


def _sources(calls: Sequence[Call]) -> tuple[Source, ...]:
    """The untrusted sources of what calls returned."""
    found: list[Source] = []
    for call in calls:
        outcome = call.outcome or {}
        found += map(Source.of, outcome[SOURCES]) if SOURCES in outcome else [Source("tool", call.name)]
    return tuple(dict.fromkeys(found))
