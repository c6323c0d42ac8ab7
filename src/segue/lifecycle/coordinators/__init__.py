"""Who gives the lifecycle engine its context: the registered agents and tools, or a folder of Markdown."""

from .folder import FolderCoordinator
from .registered import RegistryCoordinator

__all__ = ["FolderCoordinator", "RegistryCoordinator"]
