"""Segue: a conversational-agent engine on LangGraph that does not lose work.

Names are imported when they are first used, so that `import segue` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import App, ask, open
    from .core.agents import Agent, Budget, load_agents
    from .lifecycle import ConversationEngine
    from .tools.registry import tool

_HOMES = {
    "Agent": "core.agents",
    "Budget": "core.agents",
    "load_agents": "core.agents",
    "App": "app",
    "ConversationEngine": "lifecycle",
    "ask": "app",
    "open": "app",
    "tool": "tools.registry",
}

__all__ = ["Agent", "App", "Budget", "ConversationEngine", "ask", "load_agents", "open", "tool"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
