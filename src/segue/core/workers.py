"""Processes that run the tasks of others, and the tasks that they are to run."""

from collections.abc import Mapping
from dataclasses import dataclass

from .records import Public


@dataclass(frozen=True, kw_only=True)
class Worker(Public):
    """A process that runs the tasks of other processes: what it has, and how many it runs at once.

    `agents` are the versions of its agents, by their ids.
    """

    owner: str
    agents: Mapping[str, str]
    modes: list[str]
    concurrency: int
    running: int = 0
    started_at: float = 0.0
    seen_at: float = 0.0

    def has(self, agent_id: str, mode: str, version: str | None = None) -> bool:
        """Whether it can run a task of this agent and mode; with a version, whether its agent has it."""
        return agent_id in self.agents and mode in self.modes and version in (None, self.agents[agent_id])


@dataclass(frozen=True, kw_only=True)
class Unowned:
    """A task to run; its `owner` is the last one that did not let it go, alive unless its lease `expired`.

    `orphaned`: no worker is there that has the agent as it was when the task began.
    """

    task_id: str
    thread_id: str
    agent_id: str
    agent_version: str | None
    mode: str
    owner: str
    expired: bool
    orphaned: bool
