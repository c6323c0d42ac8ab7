"""Going back in a session: its timeline, forks and edits, and undoing effects."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from langgraph.types import StateSnapshot

from ..checkpoints.storage import Storage
from ..core.agents import Budget
from ..core.audit import Act
from ..core.calls import CallKey, CallResult, Execution, Tool, has_effect
from ..core.context import AppContext
from ..core.errors import InvalidMessage, SegueError, TaskError, ThreadBusy, ThreadExists, UnknownThread
from ..core.events import Paused
from ..core.message import read_attachment
from ..core.records import Call, RequestKey, Task
from ..core.task import check_session
from ..core.timeline import (
    UNDO_SCOPE,
    Branch,
    CallOrigin,
    Effect,
    Place,
    Snapshot,
    SnapshotDifference,
    SnapshotState,
    TimelineEntry,
    Undone,
    UndoState,
)
from ..nodes.calls import run_once
from ..nodes.context import NodeContext
from ..registry import Registry, services_of
from ..tools.bound_tool import BoundTool, idempotency_key
from ..tools.calls import TOOLS
from .control import Started
from .history import TaskRecord, View, checked_edit, difference, newest, outcome_of, prompt_of, state_of, timeline
from .run import config_of, state_at
from .runner import Runner
from .sessions import Sessions
from .start import Request, Starter

# The effects of a session's calls, and undoing them.

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
            origin = origins.get((call.task_id, call.scope, call.idx)) or CallOrigin(call)
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

    async def undo(self, thread_id: str, effect: Effect) -> Undone:
        """Take the effect of a call back, at most once, also where forks have copies of it.

        Returns the effect as it is then, and the outcome of its undo.

        Raises:
            TaskError: its tool declares no undo.
            ThreadBusy: a task runs on the session that made the call.
        """
        original = await self._origin(thread_id, effect)
        made_in = original.call.session_id
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
        return Undone.of(replace(effect, undo=_UNDONE[outcome_of(made)]), made)

    async def _origin(self, thread_id: str, effect: Effect) -> CallOrigin:
        return (await self._storage.sessions.origins(thread_id))[effect.task_id, effect.scope, effect.idx]


def _undo_state(tool: Tool | None, call: Call, undos: Sequence[Call]) -> UndoState:
    if undos:
        return _UNDONE[outcome_of(undos[-1].outcome)]
    offered = isinstance(tool, BoundTool) and tool.undo is not None and outcome_of(call.outcome) == "success"
    return "available" if offered else ""


def _execution(undo: BoundTool, call: Call, task: Task, key: CallKey, seconds: float) -> Execution:
    origin = f"{UNDO_SCOPE}{call.task_id}/{call.scope}/{call.idx}"
    result = CallResult.of(call.outcome or {})
    return Execution(
        key=key,
        name=undo.name,
        arguments={name: value for name, value in call.arguments.items() if name in undo.parameters},
        tools={undo.name: undo},
        timeout=seconds,
        approved=True,
        idempotency_key=idempotency_key(origin, undo.name, call.arguments),
        session_id=task.session_id,
        user_id=task.user_id,
        language=task.reply_language,
        undone=result.value,
        hidden=result.hidden,
    )


# Going back in a session: its timeline, the difference of snapshots, forks, edits, and undoing.

_SEPARATOR = "/"


@dataclass(frozen=True)
class _Stored:
    """What is stored of a session: its snapshots, newest first, its tasks, oldest first, and its timeline."""

    session_id: str
    snapshots: Sequence[Snapshot]
    records: Sequence[TaskRecord]
    entries: list[TimelineEntry]


class Rewind:
    """Snapshots of sessions: what led to them, and new sessions from them.

    A snapshot's id may be shortened to its last six characters.
    """

    def __init__(
        self, storage: Storage, runner: Runner, registry: Registry, starter: Starter, sessions: Sessions
    ) -> None:
        self._storage = storage
        self._runner = runner
        self._registry = registry
        self._starter = starter
        self._sessions = sessions
        self._effects = SessionEffects(storage, runner, registry)

    async def find(self, text: str) -> Place:
        """The snapshot that a text names: SESSION/ID, ID, or SESSION for its newest one.

        Raises:
            UnknownThread, UnknownSnapshot.
            TaskError: it names none, or several.
        """
        session_id, separator, checkpoint_id = text.rpartition(_SEPARATOR)
        if separator:
            return await self._storage.sessions.find_place(checkpoint_id, session_id)
        if await self._storage.tasks.list(thread_id=text, limit=1):
            (last,) = await self._storage.sessions.snapshots(text, 1)
            return await self._storage.sessions.find_place(last.checkpoint_id, text)
        return await self._storage.sessions.find_place(text)

    async def timeline(self, session_id: str, limit: int = -1) -> list[TimelineEntry]:
        """The session's snapshots, one for each turn, recursion and step, oldest first; the newest `limit` of them.

        Raises:
            UnknownThread, DamagedSession.
        """
        return (await self._stored(session_id, limit)).entries

    async def _stored(self, session_id: str, limit: int = -1) -> _Stored:
        ids = await self._task_ids(session_id)
        snapshots, before = await self._snapshots(session_id, limit)
        pruned = next((each.since for each in reversed(snapshots) if each.since), 0.0)
        after = before.created_at if before else pruned
        oldest = next((each.task_id for each in reversed(snapshots) if each.task_id), None) if after else None
        records = await self._records(session_id, oldest, after)
        effect_of = await self._effects.reader(session_id, [record.task for record in records], after)
        turns = {task_id: turn for turn, task_id in enumerate(ids, start=1)}
        entries = timeline(snapshots, records, turns, effect_of, after)
        return _Stored(session_id, snapshots, records, entries[-limit:] if limit > 0 else entries)

    async def _snapshots(self, session_id: str, limit: int = -1) -> tuple[list[Snapshot], Snapshot | None]:
        """All of a session's snapshots, or the newest listed ones and the one before them."""
        if limit > 0:
            return await newest(self._storage.sessions, session_id, limit)
        return await self._storage.sessions.snapshots(session_id, -1), None

    async def _task_ids(self, session_id: str) -> Sequence[str]:
        ids = await self._storage.tasks.task_ids(session_id)
        if not ids:
            raise UnknownThread(session_id)
        return ids

    async def _records(self, session_id: str, task_id: str | None, after: float) -> list[TaskRecord]:
        """The session's tasks from one on, or that changed after a moment, oldest first."""
        ledger, log = self._storage.ledger(session_id), self._storage.events
        calls: dict[str, list[Call]] = {}
        for call in await ledger.calls_after(after):
            calls.setdefault(call.task_id, []).append(call)
        return [
            TaskRecord(task, await log.read(task.task_id), calls.get(task.task_id, ()))
            for task in await self._storage.tasks.since(session_id, task_id, after)
        ]

    async def effects(self, session_id: str, checkpoint_id: str) -> list[Effect]:
        """The effects of the calls that were made after a snapshot, oldest first; they stay, whoever goes back to it.

        Raises:
            UnknownThread, UnknownSnapshot.
        """
        snapshot = await self._snapshot(session_id, checkpoint_id)
        await self._task_ids(session_id)
        after = snapshot.created_at
        tasks = await self._storage.tasks.since(session_id, snapshot.task_id, after)
        effect_of = await self._effects.reader(session_id, tasks, after)
        calls = await self._storage.ledger(session_id).calls_after(after)
        return [effect for call in calls if (effect := effect_of(call))]

    async def _snapshot(self, session_id: str, checkpoint_id: str) -> Snapshot:
        place = await self._storage.sessions.find_place(checkpoint_id, session_id)
        return await self._storage.sessions.snapshot(place)

    async def undo(self, session_id: str, checkpoint_id: str) -> list[Undone]:
        """Undo the calls that were made after a snapshot, newest first, as far as their tools declare how.

        Each is undone at most once. Returns the effects as they are then, each with the outcome of its undo. An error
        after the first undo ends the list: it is the outcome of the undo that it stopped, and the earlier ones are not
        undone.

        Raises:
            UnknownThread, UnknownSnapshot.
            ThreadBusy: a task runs on the session.
        """
        undoable = [e for e in await self.effects(session_id, checkpoint_id) if e.undo in ("available", "failed")]
        undone: list[Undone] = []
        for effect in reversed(undoable):
            try:
                undone.append(await self._effects.undo(session_id, effect))
            except SegueError as error:
                if not undone:
                    raise
                return [*undone, Undone.of(replace(effect, undo="failed"), {"error": str(error)})]
        return undone

    async def check_new(self, session_id: str) -> None:
        """Make sure that a name can be that of a new session.

        Raises:
            InvalidMessage, ThreadExists.
        """
        check_session(session_id)
        if await self._storage.tasks.task_ids(session_id) or await self._sessions.settings(session_id):
            raise ThreadExists(session_id)

    async def fork(
        self, from_session: str, checkpoint_id: str, session_id: str, key: RequestKey | None = None
    ) -> Task | None:
        """Copy a session as it was at a snapshot into a new one; returns the copy's newest task, if it has one.

        A task that had not ended there can be resumed in the copy: what had run is not run again. A graph that ran
        without the app has none.

        Raises:
            InvalidMessage, UnknownThread, UnknownSnapshot, ThreadExists, ThreadBusy, DamagedSession.
        """
        place = await self._storage.sessions.find_place(checkpoint_id, from_session)
        return await self._sessions.fork(from_session, place.checkpoint_id, session_id, key=key)

    # States and differences.

    async def state(self, session_id: str, checkpoint_id: str) -> SnapshotState:
        """What a snapshot holds.

        Raises:
            UnknownThread, UnknownSnapshot, DamagedSession.
        """
        stored = await self._stored(session_id)
        return state_of(await self._view(stored, checkpoint_id), [record.task for record in stored.records])

    async def diff(self, session_id: str, a: str, b: str, other_session: str = "") -> SnapshotDifference:
        """What differs between snapshot `a` of a session and `b` of it, or of the other one.

        Raises:
            UnknownThread, UnknownSnapshot, DamagedSession.
        """
        here = await self._stored(session_id)
        there = here if other_session in ("", session_id) else await self._stored(other_session)
        return difference(await self._view(here, a), await self._view(there, b))

    async def _view(self, stored: _Stored, checkpoint_id: str) -> View:
        place = await self._storage.sessions.find_place(checkpoint_id, stored.session_id)
        snapshot = next(each for each in stored.snapshots if each.checkpoint_id == place.checkpoint_id)
        entry = next((entry for entry in stored.entries if entry.checkpoint_id == place.checkpoint_id), None)
        state = await self._state(place)
        shown = {"session_id": stored.session_id, "checkpoint_id": place.checkpoint_id, "task_id": snapshot.task_id}
        where = {"turn": entry.turn, "recursion": entry.recursion, "steps": entry.steps} if entry else {}
        calls = [call for record in stored.records for call in record.calls]
        return View(
            {**shown, **where},
            state.values,
            [call for call in calls if call.finished_at and call.finished_at <= snapshot.created_at],
            self._prompt(stored, state.values, snapshot) if state.next else "",
            state.next,
        )

    async def _state(self, place: Place) -> StateSnapshot:
        return await state_at(self._runner.graph, config_of(place))

    def _prompt(self, stored: _Stored, values: Mapping[str, Any], snapshot: Snapshot) -> str:
        """Empty where the task's agent is not known."""
        tasks = [record.task for record in stored.records]
        task = next((task for task in tasks if task.task_id == snapshot.task_id), tasks[-1])
        agent = self._registry.get(task.agent_id)
        if agent is None:
            return ""
        services = services_of(self._registry, lambda _: None, ledger=self._storage.ledger(stored.session_id))
        context = AppContext.carrying(services, agent=agent.agent_id, model=task.model)
        return prompt_of(values, NodeContext(services, context, agent))

    # Edits.

    async def edit(
        self,
        from_session: str,
        checkpoint_id: str,
        session_id: str = "",
        *,
        message: str = "",
        state: Mapping[str, Any] | None = None,
        key: RequestKey | None = None,
    ) -> Task:
        """Continue from a snapshot in a new branch of the conversation, with another message or a changed state.

        A `message` takes the place of the one that began the snapshot's turn, which starts again; `state` has the
        fields that change. The branch is a session, by default with a name of its own; the one before it stays as it
        is. Returns the branch's task, which runs in the background.

        Raises:
            InvalidMessage, UnknownThread, UnknownSnapshot, ThreadExists, DamagedSession.
            TaskError: the state cannot be changed like this.
        """
        session_id = session_id or self._sessions.new_id()
        if bool(message) == bool(state):
            raise InvalidMessage("Give either a message or changes to the state.")
        if state:
            task, _ = await self._starter.control.once(
                key, lambda: self._edit_state(from_session, checkpoint_id, session_id, state, key)
            )
        else:
            snapshot = await self._snapshot(from_session, checkpoint_id)
            tasks, turn = await self._turn_at(from_session, snapshot)
            task, _ = await self._again(tasks, turn, session_id, message, key)
        return task

    async def _again(
        self,
        tasks: Sequence[Task],
        turn: int,
        new_session: str,
        message: str,
        key: RequestKey | None,
    ) -> Started:
        """Start a turn of these tasks' session again, in a new branch, with a message."""
        session_id = tasks[turn].session_id
        check_session(new_session)
        branch = await self._branch_of(session_id, new_session, turn)
        request = replace(_request(tasks[turn], new_session, message), key=key)
        if turn == 0:
            await self.check_new(new_session)
            return await self._starter.start(replace(request, branch=branch))
        before = await self._end_of(session_id, tasks[turn - 1])
        if await _is_begun(self._storage, branch):
            return await self._starter.start(request)
        await self._sessions.fork(session_id, before.checkpoint_id, new_session, branch=branch)
        try:
            return await self._starter.start(request)
        except BaseException:
            with suppress(SegueError):  # the first error says more
                await self._sessions.discard(new_session)
            raise

    # Branches.

    async def branch(self, task_id: str, new_session: str, message: str = "", key: RequestKey | None = None) -> Task:
        """Start a task's turn again in a new branch of its conversation, with its own message or another one.

        Raises:
            InvalidMessage, UnknownTask, ThreadExists, DamagedSession.
            TaskError: the snapshots before the turn were pruned.
        """
        tasks, turn = await self._turn(task_id)
        task, _ = await self._again(tasks, turn, new_session, message or tasks[turn].message, key)
        return task

    async def _branch_of(self, session_id: str, new_session: str, turn: int) -> Branch:
        """The new branch of a session's conversation that differs from it from a turn on, counted from 0."""
        others = await self._storage.sessions.branches(session_id)
        return Branch(new_session, others[0].root if others else session_id, session_id, turn + 1)

    async def before_turn(self, task_id: str) -> Snapshot:
        """The snapshot that a task's turn began from; that of a first turn is the oldest of its session.

        Raises:
            UnknownTask.
            TaskError: the snapshots before the turn were pruned.
        """
        return await self._before(*await self._turn(task_id))

    async def before_turn_of(self, place: Place) -> Snapshot:
        """The snapshot that the turn of a snapshot began from.

        Raises:
            UnknownSnapshot.
            TaskError: the snapshot belongs to no message, or those before its turn were pruned.
        """
        snapshot = await self._snapshot(place.session_id, place.checkpoint_id)
        return await self._before(*await self._turn_at(place.session_id, snapshot))

    async def _before(self, tasks: Sequence[Task], turn: int) -> Snapshot:
        if turn:
            return await self._end_of(tasks[turn].session_id, tasks[turn - 1])
        every, _ = await self._snapshots(tasks[turn].session_id)
        return every[-1]

    async def _turn(self, task_id: str) -> tuple[Sequence[Task], int]:
        """The tasks of a task's session, oldest first, and its place among them."""
        task = await self._storage.tasks.get(task_id)
        tasks = await self._storage.tasks.since(task.session_id, None, 0.0)
        return tasks, next(place for place, each in enumerate(tasks) if each.task_id == task_id)

    async def _turn_at(self, session_id: str, snapshot: Snapshot) -> tuple[Sequence[Task], int]:
        """The tasks of a session, oldest first, and the place among them of a snapshot's."""
        tasks = await self._storage.tasks.since(session_id, None, 0.0)
        for turn, task in enumerate(tasks):
            if task.task_id == snapshot.task_id:
                return tasks, turn
        raise TaskError(
            "Snapshot '{checkpoint_id}' belongs to no message of session '{session_id}': choose one of a turn.",
            checkpoint_id=snapshot.checkpoint_id,
            session_id=session_id,
        )

    async def _end_of(self, session_id: str, task: Task) -> Snapshot:
        every, _ = await self._snapshots(session_id)
        found = [each for each in every if each.task_id == task.task_id]
        if not found or found[0].inside:
            raise TaskError(
                "The snapshots before this turn of session '{session_id}' were pruned: edit a later message.",
                session_id=session_id,
            )
        return found[0]

    async def check_edit(
        self, session_id: str, checkpoint_id: str, changes: Mapping[str, Any]
    ) -> tuple[Place, dict[str, Any]]:
        """The place of a snapshot, and changes to its state in the form that the state holds.

        Raises:
            UnknownThread, UnknownSnapshot, DamagedSession.
            TaskError: the state cannot be changed like this.
        """
        place = await self._storage.sessions.find_place(checkpoint_id, session_id)
        state = await self._state(place)
        if not state.next:
            raise TaskError(
                "Nothing runs after snapshot '{checkpoint_id}', so its state cannot be changed: choose an earlier one.",
                checkpoint_id=place.checkpoint_id,
            )
        return place, checked_edit(state.values, changes)

    async def _edit_state(
        self,
        session_id: str,
        checkpoint_id: str,
        new_session: str,
        changes: Mapping[str, Any],
        key: RequestKey | None,
    ) -> Started:
        place, values = await self.check_edit(session_id, checkpoint_id, changes)
        snapshot = await self._snapshot(session_id, place.checkpoint_id)
        tasks, turn = await self._turn_at(session_id, snapshot)
        branch = await self._branch_of(session_id, new_session, turn)
        await self._starter.control.prepare(tasks[turn])
        if branch in await self._storage.sessions.branches(session_id):
            await self._sessions.discard(new_session, only=self._is_blocked)
        # Blocked until its task continues: if the process dies before that, nobody continues without the changes, and
        # the same request begins again.
        await self._sessions.fork(session_id, place.checkpoint_id, new_session, blocked=True, branch=branch)
        async with self._runner.leased(new_session) as begin:
            task = await self._storage.tasks.latest_of(new_session)
            if task is None or not await self._is_blocked(task):
                raise ThreadBusy(new_session)  # the same request came twice at once
            try:
                copy = config_of(Place(new_session, place.inside, place.checkpoint_id))
                as_node = snapshot.nodes[0] if snapshot.nodes else None
                await self._runner.graph.aupdate_state(copy, values, as_node=as_node)
                return await self._starter.control.resume_leased(replace(task, requested=None), begin, key=key)
            except BaseException:
                with suppress(SegueError):  # the first error says more
                    await self._sessions.discard_leased(new_session)
                raise

    async def _is_blocked(self, task: Task) -> bool:
        """Whether a task is that of a branch whose changed state was not stored, or that never continued with it."""
        last = await self._storage.events.last(task.task_id)
        return task.requested == "cancel" and isinstance(last, Paused) and last.forked


def _request(task: Task, session_id: str, message: str) -> Request:
    """The same request with another message."""
    return Request(
        message,
        session_id=session_id,
        agent=task.agent_id,
        mode=task.mode,
        user_id=task.user_id,
        model=task.model,
        files=[read_attachment(form) for form in task.attachments],
        language=task.language or "",
        origin=task.origin,
    )


async def _is_begun(storage: Storage, branch: Branch) -> bool:
    """Whether the branch was stored already, and its own turn was not, as after a crash."""
    if branch not in await storage.sessions.branches(branch.parent):
        return False
    return len(await storage.tasks.since(branch.session_id, None, 0.0)) == branch.turn - 1
