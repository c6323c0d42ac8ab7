"""Coordinators: the registered agents and tools, or a folder of Markdown, as the engine's context."""

from .folder import FolderCoordinator
from .registered import RegistryCoordinator

__all__ = ["FolderCoordinator", "RegistryCoordinator"]
