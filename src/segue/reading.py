"""What can be looked up: threads, tasks, traces, usage."""

from langchain_core.messages import convert_to_openai_messages

from .checkpoints.database import Database
from .checkpoints.ledger import ToolLedger
from .errors import UnknownThread
from .runner import Runner, thread_config
from .runs import Row


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
        state = await self._runner.graph.aget_state(thread_config(session_id))
        if not state.values.get("messages"):
            raise UnknownThread(session_id)
        converted = convert_to_openai_messages(state.values["messages"])
        return converted if isinstance(converted, list) else [converted]

    async def threads(self) -> list[Row]:
        """Every thread: its turns, last message, last status and when."""
        return await self._runner.tasks.threads()

    async def tasks(self, *, agent_id: str | None = None, session_id: str | None = None, limit: int = 50) -> list[Row]:
        """Tasks, the latest first."""
        return await self._runner.tasks.list(agent_id=agent_id, thread_id=session_id, limit=limit)

    async def trace(self, task_id: str) -> Row:
        """Everything about a task: {"task": row, "events": [...], "calls": [...]}.

        Raises:
            UnknownTask: no task has that id.
        """
        row = await self._runner.tasks.get(task_id)
        calls = await ToolLedger(self._database, row["thread_id"], 0).calls(task_id)
        return {"task": row, "events": await self._runner.log.read(task_id), "calls": calls}

    async def usage(self, agent_id: str | None = None) -> Row:
        """Tokens, calls and cost of an agent's tasks that have a result, or of all."""
        total: Row = {"tasks": 0}
        for task in await self._runner.tasks.list(agent_id=agent_id, limit=-1):
            spent = (task["result"] or {}).get("usage", {})
            total["tasks"] += bool(spent)
            for name in spent.keys() & {"input", "output", "calls", "cost"}:
                total[name] = total.get(name, 0) + spent[name]
        return total
