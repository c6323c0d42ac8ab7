"""Segue: a Python engine for agents that survive crashes.

Names are imported when they are first used, so that `import segue` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, events
    from .app import App
    from .core.actor import acting
    from .core.agents import Agent, Budget, ChatMode, McpServer, Prices, RemoteAgent, load_agents
    from .core.audit import AuditSettings
    from .core.call_rules import AllowRule
    from .core.context import RunContext
    from .core.errors import SegueError
    from .core.events import Event
    from .core.flows import BranchInput, EarlyExit, FlowConfig
    from .core.notifications import Receiver, load_receivers
    from .core.records import Result
    from .core.schedules import ApprovalSettings
    from .core.spend import Quotas
    from .entry import ask, backup, copy, open, open_sync, restore
    from .lifecycle import ConversationEngine
    from .runtime.graph_calls import with_ledger
    from .runtime.ledger_middleware import Ledger
    from .runtime.modes import graph
    from .server.asgi import asgi
    from .sync import SyncApp
    from .tools.bound_tool import NOT_DONE, CallContext, UnknownOutcome, Wait
    from .tools.registry import tool

_HOMES = {
    "NOT_DONE": "tools.bound_tool",
    "Agent": "core.agents",
    "AllowRule": "core.call_rules",
    "App": "app",
    "ApprovalSettings": "core.schedules",
    "AuditSettings": "core.audit",
    "BranchInput": "core.flows",
    "Budget": "core.agents",
    "CallContext": "tools.bound_tool",
    "ChatMode": "core.agents",
    "ConversationEngine": "lifecycle",
    "EarlyExit": "core.flows",
    "Event": "core.events",
    "FlowConfig": "core.flows",
    "Ledger": "runtime.ledger_middleware",
    "McpServer": "core.agents",
    "Prices": "core.agents",
    "Receiver": "core.notifications",
    "Quotas": "core.spend",
    "RemoteAgent": "core.agents",
    "Result": "core.records",
    "RunContext": "core.context",
    "SegueError": "core.errors",
    "SyncApp": "sync",
    "UnknownOutcome": "tools.bound_tool",
    "Wait": "tools.bound_tool",
    "acting": "core.actor",
    "asgi": "server.asgi",
    "ask": "entry",
    "backup": "entry",
    "copy": "entry",
    "graph": "runtime.modes",
    "load_agents": "core.agents",
    "load_receivers": "core.notifications",
    "open": "entry",
    "open_sync": "entry",
    "restore": "entry",
    "tool": "tools.registry",
    "with_ledger": "runtime.graph_calls",
}
_MODULES = ("errors", "events")

__all__ = [
    "NOT_DONE",
    "Agent",
    "AllowRule",
    "App",
    "ApprovalSettings",
    "AuditSettings",
    "BranchInput",
    "Budget",
    "CallContext",
    "ChatMode",
    "ConversationEngine",
    "EarlyExit",
    "Event",
    "FlowConfig",
    "Ledger",
    "McpServer",
    "Prices",
    "Quotas",
    "Receiver",
    "RemoteAgent",
    "Result",
    "RunContext",
    "SegueError",
    "SyncApp",
    "UnknownOutcome",
    "Wait",
    "acting",
    "asgi",
    "ask",
    "backup",
    "copy",
    "errors",
    "events",
    "graph",
    "load_agents",
    "load_receivers",
    "open",
    "open_sync",
    "restore",
    "tool",
    "with_ledger",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
