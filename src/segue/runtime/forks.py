"""Going back and elsewhere: snapshots of a thread, forks, and threads as documents."""

from typing import Any

from langchain_core.messages import convert_to_openai_messages, messages_to_dict
from langgraph.graph.state import CompiledStateGraph

from ..checkpoints.sqlite.database import Database
from ..checkpoints.sqlite.sessions import export as portable
from ..checkpoints.sqlite.sessions import fork as forking
from ..checkpoints.sqlite.state_reading import state_at
from ..checkpoints.sqlite.tasks import Tasks

Row = dict[str, Any]
Graph = CompiledStateGraph[Any, Any, Any, Any]


async def fork(database: Database, thread_id: str, checkpoint_id: str, new_thread_id: str) -> Row:
    """Copy a thread as it stands at a snapshot; returns the row of the copy's newest task.

    Raises:
        UnknownThread, UnknownSnapshot, ThreadExists, ThreadBusy, DamagedSession.
    """
    return await _newest(database, new_thread_id, await forking.fork(database, thread_id, checkpoint_id, new_thread_id))


async def import_(database: Database, document: Any, new_thread_id: str, user_id: str | None = None) -> Row:
    """Store an exported thread as a new one, of `user_id` if given; returns the row of its newest task.

    Raises:
        InvalidExport, ThreadExists, ThreadBusy: nothing was stored.
    """
    return await _newest(database, new_thread_id, await portable.import_(database, document, new_thread_id, user_id))


async def _newest(database: Database, thread_id: str, task_id: str | None) -> Row:
    """A task's row; one with only the thread's id where there is no task, as in a graph that ran without the app."""
    if task_id is None:
        return {"thread_id": thread_id, "task_id": None, "status": None}
    return await Tasks(database).get(task_id)


async def export(database: Database, graph: Graph, thread_id: str) -> Row:
    """A thread as a JSON document that `import_` takes: its messages, tasks, events and calls.

    Raises:
        UnknownThread, DamagedSession.
    """
    document = await portable.export(database, thread_id)
    place = {"thread_id": thread_id, "checkpoint_id": document["thread"]["checkpoint_id"]}
    state = await state_at(graph, {"configurable": place}) if place["checkpoint_id"] else None
    messages = state.values.get("messages", []) if state else []
    return {**document, "messages": convert_to_openai_messages(messages), "messages_full": messages_to_dict(messages)}
