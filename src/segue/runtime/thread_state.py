"""The state of a thread, read in whole through its graph."""

from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from ..core.errors import DamagedCheckpoint
from ..core.timeline import Place

_UNFIT = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""What a channel or reducer makes of values that are not of its kind."""


async def state_at(
    graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig, subgraphs: bool = False
) -> StateSnapshot:
    """The state of a thread, read in whole.

    Raises:
        DamagedCheckpoint: it cannot be read, or holds what no message is.
    """
    thread_id = str(config["configurable"]["thread_id"])
    try:
        state = await graph.aget_state(config, subgraphs=subgraphs)
        messages: list[AnyMessage] = state.values.get("messages", [])
    except _UNFIT as error:
        raise DamagedCheckpoint(thread_id, f"its values do not fit: {type(error).__name__}") from error
    if not all(issubclass(kind, BaseMessage) for kind in set(map(type, messages))):
        raise DamagedCheckpoint(thread_id, "its messages cannot be read")
    return state


def config_of(place: Place) -> RunnableConfig:
    """LangGraph's way to name a snapshot."""
    return {
        "configurable": {
            "thread_id": place.thread_id,
            "checkpoint_ns": place.inside,
            "checkpoint_id": place.checkpoint_id,
        }
    }
