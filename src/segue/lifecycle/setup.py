"""Which track an engine runs on."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.agents import Agent
from ..core.errors import ConfigurationError
from ..core.lifecycle import Coordinator
from .backend import Track
from .equipment import equip
from .in_memory import MemoryTrack

if TYPE_CHECKING:
    from ..app import App

_OF_AN_APP = ("mode", "session_id", "user_id", "model", "task_id")


def track_for(
    coordinator: Coordinator | None,
    llm: Any,
    agent: Agent | str | None,
    tools: Iterable[Any],
    concurrency: int,
    app: "App | None",
    options: Mapping[str, Any],
) -> Track:
    """The track that an engine's arguments ask for.

    Raises:
        ConfigurationError: they do not go together.
    """
    if unknown := [name for name in options if name not in _OF_AN_APP]:
        raise ConfigurationError(f"An engine has no option {', '.join(unknown)}; there are: {', '.join(_OF_AN_APP)}.")
    if concurrency < 1:
        raise ConfigurationError(f"The concurrency is {concurrency}: at least one task is carried out at a time.")
    if app is None:
        if options or isinstance(agent, str):
            raise ConfigurationError(f"Give the engine an app to use {', '.join(options) or 'one of its agents'}.")
        return MemoryTrack(equip(coordinator, llm, agent, tools), concurrency)
    if coordinator is not None or llm is not None or tuple(tools) or concurrency != 1 or isinstance(agent, Agent):
        raise ConfigurationError(
            "With an app its agent and mode decide: register the agent, and for a coordinator or a concurrency of "
            "your own open the app with modes={'mine': build_lifecycle(coordinator)} and name that mode."
        )
    from .in_app import KeptTrack

    return KeptTrack(app, agent=agent or "", **options)
