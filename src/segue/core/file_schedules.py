"""Schedules that an agents file has: made, changed and removed with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .agents_file import first_fault, list_tables
from .errors import ConfigurationError
from .schedules import Missed, Overlap

PREFIX = "file-"
"""Begins the ids of these schedules."""


class FileSchedule(BaseModel):
    """A message that is sent again and again, as a `[[schedule]]` table says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[\w.-]+$", max_length=64)
    """Its name in the file: the schedule's id is `file-NAME`."""
    message: str = Field(min_length=1)
    """What is sent."""
    every: str
    """When: a cron expression such as `0 9 * * mon`."""
    timezone: str = "UTC"
    """The IANA zone of `every`."""
    agent: str = ""
    """The agent that it is sent to; by default that of a message that names none."""
    mode: str = ""
    """The mode; by default the agent's own."""
    session_id: str = ""
    """The session of every run; without it each has a new one."""
    user_id: str = "default"
    """Whose tasks the runs are."""
    language: str = ""
    """The language of the runs: en or zh; by default that of the message."""
    overlap: Overlap = "skip"
    """What happens to a run while the last one is unfinished: `skip` or `queue`."""
    missed: Missed = "once"
    """Which runs missed while no process was running are run: `once` (one of them), `skip` (none) or `all`."""

    @property
    def schedule_id(self) -> str:
        return PREFIX + self.name

    def options(self) -> dict[str, Any]:
        """The options of the message and its times, as `App.start` takes them."""
        return {name: value for name, value in self.model_dump(exclude={"name", "message"}).items() if value}


def load_schedules(path: str | Path) -> list[FileSchedule]:
    """Read the `[[schedule]]` tables of an agents file.

    Raises:
        ConfigurationError: naming the file, the schedule and the field that is wrong.
    """
    found = [_schedule_of(table, path) for table in list_tables(path, "schedule")]
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigurationError(
            "The agents file {file} has more than one schedule '{name}': rename one.", file=path, name=min(twice)
        )
    return found


def _schedule_of(table: Mapping[str, Any], path: str | Path) -> FileSchedule:
    try:
        return FileSchedule.model_validate(table)
    except ValidationError as error:
        where, reason = first_fault(error)
        raise ConfigurationError(
            "The schedule '{name}' in {file}: {where}{reason}.",
            name=table.get("name", "?"),
            file=path,
            where=where,
            reason=reason,
        ) from error
