"""The effects of a session's calls, and undoing them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..checkpoints.storage import Storage
from ..core.agents import Budget
from ..core.audit import Act
from ..core.calls import CallResult, Execution
from ..core.errors import TaskError
from ..core.records import Call, Json, Task
from ..core.timeline import UNDO_SCOPE, CallOrigin, Effect, UndoState
from ..core.tools import CallKey, Tool, has_effect
from ..nodes.shared.call_runner import run_once
from ..registry import Registry
from ..tools.bound_tool import BoundTool, idempotency_key
from ..tools.calls.run import TOOLS
from .history.timeline import outcome_of
from .runner import Runner

_UNDONE: Mapping[str, UndoState] = {
    "success": "done",
    "error": "failed",
    "unknown": "unknown",
    "running": "available",
}
"""By the outcome of the last undo; one that was interrupted is run again."""


class SessionEffects:
    """The calls of sessions that are not read-only, by the tools that are registered; an unknown tool has effects."""

    def __init__(self, storage: Storage, runner: Runner, registry: Registry) -> None:
        self._storage = storage
        self._runner = runner
        self._registry = registry

    async def reader(
        self, thread_id: str, tasks: Sequence[Task], after: float = 0.0
    ) -> Callable[[Call], Effect | None]:
        """The function that gives the effect of one of the session's calls that began after a moment."""
        origins = await self._storage.sessions.origins(thread_id, after)
        tools = {task.task_id: self._tools(task) for task in tasks}

        def effect_of(call: Call) -> Effect | None:
            tool = tools.get(call.task_id, {}).get(call.name)
            if not has_effect(call.name, tool) or call.scope.startswith(UNDO_SCOPE):
                return None
            origin = origins.get(_place(call)) or CallOrigin(call)
            return Effect(
                task_id=call.task_id,
                scope=call.scope,
                idx=call.idx,
                name=call.name,
                arguments=call.arguments,
                outcome=outcome_of(call.outcome),
                started_at=call.started_at,
                undo=_undo_state(tool, call, origin.undos),
            )

        return effect_of

    def _tools(self, task: Task) -> Mapping[str, Tool]:
        agent = self._registry.get(task.agent_id)
        return self._registry.tools_for(agent) if agent else {}

    async def undo(self, thread_id: str, effect: Effect) -> tuple[Effect, Json]:
        """Take the effect of a call back, at most once, also where forks have copies of it.

        Returns the effect as it is then, and the outcome of its undo.

        Raises:
            TaskError: its tool declares no undo.
            ThreadBusy: a task runs on the session that made the call.
        """
        original = await self._origin(thread_id, effect)
        made_in = original.call.thread_id
        task = await self._storage.tasks.get(original.call.task_id)
        agent = self._registry.get(task.agent_id)
        if agent:
            await self._registry.prepare(agent)
        tool = self._tools(task).get(effect.name)
        if not isinstance(tool, BoundTool) or tool.undo is None:
            raise TaskError("The call of {name} cannot be undone: its tool declares no undo.", name=effect.name)
        async with self._runner.leased(made_in):
            origin = await self._origin(thread_id, effect)  # as it is under the lease
            attempt = 1 + sum(undo.outcome is not None and outcome_of(undo.outcome) == "error" for undo in origin.undos)
            key = CallKey(task.task_id, f"{UNDO_SCOPE}{original.call.scope}:{attempt}", original.call.idx)
            ledger = self._storage.ledger(made_in, self._runner.saver.fence(made_in))
            seconds = tool.timeout or (agent.budget if agent else Budget()).tool_seconds
            about, act = (made_in, task.task_id), {"call": effect.name, "scope": effect.scope, "index": effect.idx}
            await self._storage.audit.record(Act("asked_to_undo", act), *about, opens=True)
            executor = self._registry.executor_of(task.agent_id) or TOOLS
            result, _ = await run_once(executor, ledger, _execution(tool.undo, original.call, task, key, seconds))
            made = result.json()
            await self._storage.audit.record(Act("undid", {**act, "outcome": outcome_of(made)}), *about)
        return replace(effect, undo=_UNDONE[outcome_of(made)]), made

    async def _origin(self, thread_id: str, effect: Effect) -> CallOrigin:
        return (await self._storage.sessions.origins(thread_id))[effect.task_id, effect.scope, effect.idx]


def _place(call: Call) -> tuple[str, str, int]:
    return call.task_id, call.scope, call.idx


def _undo_state(tool: Tool | None, call: Call, undos: Sequence[Call]) -> UndoState:
    if undos:
        return _UNDONE[outcome_of(undos[-1].outcome)]
    offered = isinstance(tool, BoundTool) and tool.undo is not None and outcome_of(call.outcome) == "success"
    return "available" if offered else ""


def _execution(undo: BoundTool, call: Call, task: Task, key: CallKey, seconds: float) -> Execution:
    origin = f"{UNDO_SCOPE}{call.task_id}/{call.scope}/{call.idx}"
    return Execution(
        key=key,
        name=undo.name,
        arguments={name: value for name, value in call.arguments.items() if name in undo.parameters},
        tools={undo.name: undo},
        timeout=seconds,
        approved=True,
        idempotency_key=idempotency_key(origin, undo.name, call.arguments),
        session_id=task.thread_id,
        user_id=task.user_id,
        language=task.reply_language,
        undone=(call.outcome or {}).get("success"),
        hidden=CallResult.of(call.outcome or {}).hidden,
    )
