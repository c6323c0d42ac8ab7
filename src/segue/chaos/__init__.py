"""Chaos: whether tools are safe to resume, found with real processes that are killed around their real calls."""

from .hunt import FAULTS, Finding, Hunt, Hunted
from .world import World, load

__all__ = ["FAULTS", "Finding", "Hunt", "Hunted", "World", "load"]
