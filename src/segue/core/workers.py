"""Processes that run the tasks of others, and the tasks that they are to run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .records import OnUpgrade, Public, Task


@dataclass(frozen=True, kw_only=True)
class Worker(Public):
    """A process that runs the tasks of other processes: what it has, and how many it runs at once.

    `agents` are the versions of its agents, by their ids. `upgrades` are those whose tasks of other versions it takes
    where no worker has their version.
    """

    owner: str
    agents: Mapping[str, list[str]]
    modes: list[str]
    concurrency: int
    upgrades: list[str] = field(default_factory=list)
    running: int = 0
    started_at: float = 0.0
    seen_at: float = 0.0

    def has(self, agent_id: str, mode: str, version: str | None = None) -> bool:
        """Whether it can run a task of this agent and mode; with a version, whether its agent has it."""
        return agent_id in self.agents and mode in self.modes and version in (None, *self.agents[agent_id])

    def takes(self, task: "Task | Unowned") -> bool:
        """Whether it can run a task that no process runs: it has its version, or may continue it with another one."""
        upgrades = task.on_upgrade != "pin" if task.on_upgrade else task.agent_id in self.upgrades
        return self.has(task.agent_id, task.mode, None if upgrades else task.agent_version)


@dataclass(frozen=True, kw_only=True)
class Unowned:
    """A task to run; its `owner` is the last one that did not let it go, alive unless its lease `expired`.

    `orphaned`: no worker is there that has the agent as it was when the task began.
    """

    task_id: str
    thread_id: str
    user_id: str = ""
    agent_id: str
    agent_version: str | None
    on_upgrade: OnUpgrade | None
    mode: str
    owner: str
    expired: bool
    orphaned: bool
