"""Segue: a conversational-agent engine on LangGraph that does not lose work.

Names are imported when they are first used, so that `import segue` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents import Agent, Budget, load_agents
    from .app import App, ask, open
    from .engine import ConversationEngine
    from .tools.registry import tool

_HOMES = {
    "Agent": "agents",
    "Budget": "agents",
    "load_agents": "agents",
    "App": "app",
    "ConversationEngine": "engine",
    "ask": "app",
    "open": "app",
    "tool": "tools.registry",
}

__all__ = ["Agent", "App", "Budget", "ConversationEngine", "ask", "load_agents", "open", "tool"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
