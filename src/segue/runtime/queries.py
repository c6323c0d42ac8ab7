"""What can be looked up: threads, tasks, traces, usage."""

from langchain_core.messages import convert_to_openai_messages

from ..checkpoints.sqlite.call_records import calls_of
from ..checkpoints.sqlite.database import Database, touch
from ..checkpoints.sqlite.state_reading import state_at
from ..core.errors import UnknownThread
from ..core.task_status import ENDED, TaskStatus
from .run import Row
from .runner import Runner, thread_config


def is_over(row: Row) -> bool:
    """Whether a task has its answer, be it that it failed, or was given up."""
    failed = row["status"] == TaskStatus.ERROR and row["result"] is not None
    return failed or row["status"] in ENDED


class Reader:
    """The part of the app that only reads."""

    def __init__(self, database: Database, runner: Runner) -> None:
        self._database = database
        self._runner = runner

    async def history(self, session_id: str) -> list[Row]:
        """The thread's messages in OpenAI's format: user, assistant (with tool_calls), tool.

        Raises:
            UnknownThread: nothing was said on it.
        """
        state = await state_at(self._runner.graph, thread_config(session_id))
        if not state.values.get("messages"):
            raise UnknownThread(session_id)
        converted = convert_to_openai_messages(state.values["messages"])
        return converted if isinstance(converted, list) else [converted]

    async def threads(self, *, limit: int = -1, prefix: str = "") -> list[Row]:
        """The threads whose names begin with `prefix`: turns, last message, last status and when.

        Of a damaged row lists show what can be read, with the status error; of a task, its error says what to do.
        """
        return await self._runner.tasks.threads(limit, prefix)

    async def tasks(
        self,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        session_prefix: str = "",
    ) -> list[Row]:
        """Tasks, the latest first; `before` is the id that the last page ended with."""
        return await self._runner.tasks.list(agent_id, session_id, limit, before, session_prefix)

    async def task(self, task_id: str) -> Row:
        """A task's row.

        Raises:
            UnknownTask: no task has that id.
        """
        return await self._runner.tasks.show(task_id)

    async def events(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """A task's durable events in their dict form, those after number `after`, at most `limit`."""
        return await self._runner.log.read(task_id, after, limit)

    async def check_writable(self) -> None:
        """Make sure that the database can be written.

        Raises:
            DatabaseUnavailable: saying why it cannot.
        """
        await self._database.rows.write(touch)

    async def trace(self, task_id: str) -> Row:
        """Everything about a task: {"task": row, "events": [...], "calls": [...]}.

        Raises:
            UnknownTask: no task has that id.
        """
        row = await self._runner.tasks.get(task_id)
        calls = await calls_of(self._database.rows, row["thread_id"], task_id)
        return {"task": row, "events": await self._runner.log.read(task_id), "calls": calls}

    async def usage(self, agent_id: str | None = None) -> Row:
        """Tokens, calls and cost of an agent's tasks that have a result, or of all."""
        total: Row = {"tasks": 0}
        for task in await self._runner.tasks.list(agent_id=agent_id, limit=-1):
            spent = {} if task["copy_of"] else (task["result"] or {}).get("usage", {})
            total["tasks"] += bool(spent)
            for name in spent.keys() & {"input", "output", "calls", "cost"}:
                total[name] = total.get(name, 0) + spent[name]
        return total
