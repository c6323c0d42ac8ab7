"""Run tasks in the background: lease, heartbeat, graph, and the status that each of them ends with."""

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from .bootstrap import Registry, RunServices
from .checkpoints.database import Database
from .checkpoints.event_log import EventLog
from .checkpoints.lease import Heartbeat, Lease
from .checkpoints.ledger import ToolLedger
from .checkpoints.saver import FencedSqliteSaver
from .checkpoints.schema import SCHEMA_VERSION
from .checkpoints.tasks import Tasks, TaskStatus
from .errors import IllegalTransition, SegueError, StaleOwner, TaskError, ThreadBusy
from .events import Cancelled, Durable, ErrorRaised, Paused, Resumed, StateChanged, from_dict
from .graphs.chat import build_chat
from .hub import Hub
from .nodes.chat.run_mode import ModeGraph
from .nodes.chat.state import ChatInput
from .services import AppContext

logger = logging.getLogger(__name__)

Row = dict[str, Any]
LEASE_LOST = "another process took over the session"


class Runner:
    """Owns the running tasks of one process."""

    def __init__(self, database: Database, registry: Registry, modes: Mapping[str, ModeGraph]) -> None:
        self.hub = Hub()
        self.tasks = Tasks(database)
        self.log = EventLog(database)
        self.saver = FencedSqliteSaver(database, on_events=self._publish)
        self.graph = build_chat(modes).compile(checkpointer=self.saver)
        self._database = database
        self._registry = registry
        self._lease = Lease(database)
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._runs: dict[str, asyncio.Task[Row]] = {}
        self._controls: dict[str, RunControl] = {}
        self._fences: dict[str, int] = {}
        self._entered: set[str] = set()

    def _publish(self, stored: list[Row]) -> None:
        for form in stored:
            self.hub.publish(from_dict(form))

    async def _tell(self, row: Row, event: Durable) -> None:
        self._publish([await self.log.append(row["thread_id"], event, self._fences.get(row["thread_id"]))])

    async def _set_status(self, row: Row, status: TaskStatus, **fields: Any) -> None:
        old = (await self.tasks.get(row["task_id"]))["status"]
        if old == status:
            return
        await self.tasks.set_status(row["task_id"], status, fence=self._fences.get(row["thread_id"]), **fields)
        await self._tell(row, StateChanged(task_id=row["task_id"], old=old, new=status.value))

    def running(self, task_id: str) -> bool:
        return task_id in self._runs

    @asynccontextmanager
    async def leased(self, thread_id: str) -> AsyncIterator[Callable[[Row], asyncio.Task[Row]]]:
        """Take the thread's lease and give the function that begins a task under it; without a task it is let go.

        Raises:
            ThreadBusy: another owner runs a task on the thread.
        """
        fence = self._fences[thread_id] = await self._acquire(thread_id)
        begun = False

        def begin(row: Row) -> asyncio.Task[Row]:
            nonlocal begun
            begun = True
            self._controls[row["task_id"]] = RunControl()
            run = asyncio.create_task(self._run(row, fence), name=f"task {row['task_id']}")
            self._runs[row["task_id"]] = run
            run.add_done_callback(_look_at)
            return run

        try:
            yield begin
        finally:
            if not begun:
                await self._let_go(thread_id, fence)

    async def _let_go(self, thread_id: str, fence: int) -> None:
        self._fences.pop(thread_id, None)
        self.saver.release(thread_id)
        await self._lease.release(thread_id, fence)

    async def _acquire(self, thread_id: str) -> int:
        """The lease; one whose owner was a process of this machine that is gone does not have to run out first."""
        try:
            return await self._lease.acquire(thread_id, self._owner)
        except ThreadBusy:
            owner = await self._lease.holder(thread_id)
            if owner is None or not _is_gone(owner):
                raise
            await self._lease.expire(thread_id, owner)
            return await self._lease.acquire(thread_id, self._owner)

    async def _run(self, row: Row, fence: int) -> Row:
        task_id, thread_id = row["task_id"], row["thread_id"]
        control = self._controls[task_id]
        self._entered.add(task_id)
        self.saver.hold(thread_id, fence)
        try:
            async with Heartbeat(self._database, thread_id, fence, on_lost=lambda: control.request_drain(LEASE_LOST)):
                return await self._carry(row, fence, control)
        finally:
            try:
                await self._let_go(thread_id, fence)
            finally:
                del self._controls[task_id], self._runs[task_id]
                self._entered.discard(task_id)
                self.hub.end(task_id)

    async def _carry(self, row: Row, fence: int, control: RunControl) -> Row:
        """Run the graph to its end or to a boundary, and keep what it came to."""
        try:
            if row["status"] != TaskStatus.PENDING:
                await self._tell(row, Resumed(task_id=row["task_id"]))
            await self._set_status(row, TaskStatus.RUNNING)
            result = await self._invoke(row, fence, control)
        except GraphDrained:
            if control.drain_reason == LEASE_LOST:
                raise StaleOwner(row["thread_id"]) from None
            return await self._pause(row, control.drain_reason or "")
        except StaleOwner:
            raise
        except asyncio.CancelledError:
            await self._pause(row, "stopped at once")
            raise
        except Exception as error:
            await self._fail(row, error)
            raise
        status = TaskStatus.DONE if result.get("success") else TaskStatus.ERROR
        await self.saver.drop_subgraphs(row["thread_id"])
        await self._set_status(row, status, result=result, error=result.get("error"))
        return result

    async def _pause(self, row: Row, reason: str) -> Row:
        await self._set_status(row, TaskStatus.PAUSED)
        await self._tell(row, Paused(task_id=row["task_id"], reason=reason))
        return stopped(row)

    async def _fail(self, row: Row, error: Exception) -> None:
        known = isinstance(error, SegueError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        if not known:
            logger.error("Task %s failed on an error that Segue does not know.", row["task_id"], exc_info=error)
        await self._set_status(row, TaskStatus.ERROR, error=text)
        await self._tell(row, ErrorRaised(task_id=row["task_id"], message=text, final=True))

    async def _invoke(self, row: Row, fence: int, control: RunControl) -> Row:
        agent = self._registry.agent(row["agent_id"])
        ledger = ToolLedger(self._database, row["thread_id"], fence)
        services = RunServices(self._registry, self.hub.publish, ledger)
        context = AppContext.carrying(
            services, agent=row["agent_id"], mode=row["mode"], user_id=row["user_id"], model=row["model"]
        )
        config: RunnableConfig = {
            **thread_config(row["thread_id"]),
            "recursion_limit": 20 + 4 * agent.max_iteration + 2 * agent.budget.tool_calls,
            "metadata": {"segue_schema": SCHEMA_VERSION, "segue_task": row["task_id"]},
        }
        given, finished = await self._where_it_stands(row)
        if finished is not None:
            return finished
        out = await self.graph.ainvoke(given, config, context=context, durability="sync", control=control)
        return dict(out["result"])

    async def _where_it_stands(self, row: Row) -> tuple[ChatInput | None, Row | None]:
        """What to invoke the graph with: the message, or None to go on; or the result of a task that had ended."""
        state = await self.graph.aget_state(thread_config(row["thread_id"]))
        values = state.values or {}
        known = {values.get("task_id"), (values.get("assignment") or {}).get("task_id")}
        if row["task_id"] not in known:
            return {"messages": [HumanMessage(row["message"])], "assignment": {"task_id": row["task_id"]}}, None
        if not state.tasks and values.get("result"):
            return None, dict(values["result"])
        return None, None

    async def request_pause(self, task_id: str) -> None:
        """Ask a running task to stop at its next boundary; until then its status is pausing.

        Raises:
            TaskError: it does not run in this process.
        """
        if task_id not in self._controls:
            raise TaskError(f"Task «{task_id}» does not run in this process, so it cannot be paused from here.")
        self._controls[task_id].request_drain("pause was asked for")
        row = await self.tasks.get(task_id)
        if row["status"] == TaskStatus.RUNNING and task_id in self._runs:
            with suppress(IllegalTransition, StaleOwner):  # it may just have ended
                await self._set_status(row, TaskStatus.PAUSING)

    def stop_now(self, task_id: str) -> None:
        """Stop a running task where it is; the step under way runs again on resume, its finished tool calls do not."""
        if task_id in self._entered:
            self._runs[task_id].cancel()
        elif task_id in self._controls:
            self._controls[task_id].request_drain("stopped before it began")

    async def cancel(self, row: Row) -> None:
        """Give up a task whose thread is leased."""
        await self._set_status(row, TaskStatus.CANCELLED)
        await self._tell(row, Cancelled(task_id=row["task_id"]))

    async def close(self) -> None:
        """Pause what runs and wait until it stands."""
        for control in self._controls.values():
            control.request_drain("the app was closed")
        await asyncio.gather(*self._runs.values(), return_exceptions=True)


def stopped(row: Row) -> Row:
    """The result of a task that was stopped before it had one."""
    return {"success": False, "answer": "", "mode": row["mode"], "status": "paused"}


def _is_gone(owner: str) -> bool:
    """Whether an owner, host:pid:random, was a process of this machine that is no more."""
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _look_at(run: asyncio.Task[Row]) -> None:
    """What a run raised was stored with its task, so that asyncio need not complain where nobody waits for it."""
    if not run.cancelled():
        run.exception()


def thread_config(thread_id: str) -> RunnableConfig:
    """LangGraph's way to name a thread."""
    return {"configurable": {"thread_id": thread_id}}
