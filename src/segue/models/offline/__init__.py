"""The offline planner: a deterministic model that works by rules and says so."""

from .planner import OfflinePlanner

__all__ = ["OfflinePlanner"]
