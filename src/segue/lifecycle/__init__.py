"""The conversation engine: one goal from its receipt to its completion, as an asynchronous generator."""

from ..core.lifecycle import (
    VALID_STATE_TRANSITIONS,
    Context,
    Coordinator,
    EngineBusy,
    EngineEvent,
    EngineEventType,
    EngineState,
    SubTask,
)
from .engine import ConversationEngine

__all__ = [
    "VALID_STATE_TRANSITIONS",
    "Context",
    "ConversationEngine",
    "Coordinator",
    "EngineBusy",
    "EngineEvent",
    "EngineEventType",
    "EngineState",
    "SubTask",
]
