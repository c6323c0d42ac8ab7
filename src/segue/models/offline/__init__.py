"""The offline planner: a deterministic, rule-based model that identifies itself as one."""

from .planner import OfflinePlanner

__all__ = ["OfflinePlanner"]
