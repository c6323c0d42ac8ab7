"""Quotas: how many tasks of a user and of a tenant run and wait at once, and how many schedules a tenant has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from .agents_file import load_table
from .bounds import MOST_COUNT
from .clause import Clause
from .errors import InvalidMessage, TaskError, TooManyTasks


@dataclass(frozen=True)
class Owner:
    """Whose a task is. A tenant's name begins the names of its sessions, up to a colon; others have none."""

    tenant: str = ""
    user: str = ""

    @classmethod
    def of(cls, thread_id: str, user_id: str) -> Self:
        name, colon, _ = thread_id.partition(":")
        return cls(name if colon else "", user_id)


class Quotas(BaseModel):
    """What a user and a tenant may have; None is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks_per_user: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    """Tasks of a user that run at once; others wait."""
    tasks_per_tenant: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    """Tasks of a tenant that run at once; others wait."""
    queued_per_user: int | None = Field(default=None, ge=0, le=MOST_COUNT)
    """Tasks of a user that may wait; another message is refused."""
    queued_per_tenant: int | None = Field(default=None, ge=0, le=MOST_COUNT)
    """Tasks of a tenant that may wait; another message is refused."""

    schedules_per_tenant: int | None = Field(default=1000, ge=0, le=MOST_COUNT)
    """Active schedules of a tenant in the database; another one is refused."""

    @property
    def limit_queues(self) -> bool:
        return self.queued_per_user is not None or self.queued_per_tenant is not None

    def check_queue(self, of_user: int, of_tenant: int) -> None:
        """Refuse a task where so many of its user and its tenant wait already.

        Raises:
            OverQuota.
        """
        if self.queued_per_user is not None and of_user >= self.queued_per_user:
            raise OverQuota(Clause("this user"), self.queued_per_user)
        if self.queued_per_tenant is not None and of_tenant >= self.queued_per_tenant:
            raise OverQuota(Clause("this tenant"), self.queued_per_tenant)

    def check_schedules(self, of_tenant: int) -> None:
        """Refuse a schedule where so many of its tenant are active already.

        Raises:
            InvalidMessage.
        """
        if self.schedules_per_tenant is not None and of_tenant >= self.schedules_per_tenant:
            raise InvalidMessage(
                "{most} schedules are active, which is the limit: pause or delete one, or raise schedules_per_tenant.",
                most=self.schedules_per_tenant,
            )


class OverQuota(TooManyTasks):
    """As many tasks of a user or a tenant wait as may; nothing was stored. Try again later."""

    def __init__(self, whose: Clause, most: int) -> None:
        TaskError.__init__(
            self,
            "Too many tasks of {whose} wait: {most} is the limit. Try again when one of them has begun.",
            whose=whose,
            most=most,
        )


def load_quotas(path: str | Path) -> Quotas | None:
    """The `[quotas]` table of an agents file; None where it has none.

    Raises:
        ConfigurationError: naming the file and the field that is wrong.
    """
    return load_table(path, "quotas", Quotas)
