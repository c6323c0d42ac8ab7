"""Settings of approvals: who gives them, when receivers are reminded, and what becomes of one that nobody gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from .agents import Items
from .agents_file import load_table
from .approval import MOST_APPROVALS
from .bounds import MOST_SECONDS
from .errors import ConfigurationError
from .timeline import Retention

EXPIRY: Final = "segue:expiry"
"""In place of a receiver: what an approval that expired is for. No configured receiver can have this name."""
LaterKind = Literal["reminder", "escalation", "expiry"]
LATER: Final[Sequence[LaterKind]] = ("reminder", "escalation", "expiry")
"""What is due some time after a task asked for an approval, unless it was answered."""


def _seconds(given: Any) -> Any:
    """The seconds of an age such as 30m, 4h or 2d; a number stays."""
    if not isinstance(given, str):
        return given
    try:
        seconds = Retention.of(given).seconds
    except ConfigurationError:
        seconds = None
    if seconds is None:
        raise ValueError("write a time such as 30m, 4h or 2d")
    return seconds


Time = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=MOST_SECONDS)]
"""Seconds, or a text such as 4h."""


class ApprovalSettings(BaseModel):
    """Who approves calls, where their tools do not say, and what happens while an approval waits.

    The times are counted from the question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    approvers: Items[str] = ()
    """The roles that may approve; empty: everybody may."""
    approvals: int | None = Field(default=None, ge=1, le=MOST_APPROVALS)
    """How many different people must approve a call; None: one."""
    not_by_asker: bool = False
    """People cannot approve the calls of tasks that they asked for."""
    auto_approve_conversations: bool = False
    """Conversations and rehearsals with `approvals = "approve"` may run tools that need approval without a question."""
    remind_after: Time | None = None
    """When the receivers that were notified of it are reminded: seconds, or a text such as `4h`."""
    escalate_after: Time | None = None
    """When the receivers in `escalate_to` are notified."""
    escalate_to: Items[str] = ()
    """The names of receivers."""
    expire_after: Time | None = None
    """When the approval expires."""
    on_expiry: Literal["wait", "reject", "cancel"] = "wait"
    """What happens on expiry: the task continues to wait, its calls are rejected, or it is cancelled."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.escalate_after is None) != (not self.escalate_to):
            raise ValueError("escalate_after and escalate_to go together")
        if self.on_expiry != "wait" and self.expire_after is None:
            raise ValueError("on_expiry goes with expire_after")
        return self


def load_deadlines(path: str | Path) -> ApprovalSettings | None:
    """Read the table `[approvals]` of an agents file; None where it has none.

    Raises:
        ConfigurationError: naming the field that is wrong.
    """
    return load_table(path, "approvals", ApprovalSettings)
