"""The context of a tool call: whose call it is, and the key under which it takes effect once."""

import json
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from langchain_core.tools.base import _DirectlyInjectedToolArg

_NAMESPACE = uuid.UUID("6f6b2f0e-6a55-5c0f-9d3e-2f5c0d1b7a41")


class _NotDone(Enum):
    NOT_DONE = "not done"


NOT_DONE: Final = _NotDone.NOT_DONE
"""What the `check` of a tool returns for a call that did not take effect: it is run."""


@dataclass(frozen=True, kw_only=True)
class CallContext(_DirectlyInjectedToolArg):
    """A tool call, as passed to a tool that declares a parameter of this type; models do not see the parameter.

    `idempotency_key` is the same after a crash, a resume and a fork, and on another worker. `attempt` is 2 where an
    earlier run of the call was interrupted, else 1. `step_id` and `trace_id` are empty where the call has none.
    `result` is what the call returned that an undo takes back.
    """

    idempotency_key: str
    tool: str
    session_id: str = ""
    task_id: str = ""
    step_id: str = ""
    trace_id: str = ""
    user_id: str = ""
    attempt: int = 1
    result: Any = None


current_call: ContextVar[CallContext] = ContextVar("current_call")
"""The call that is running; set by the executor of tools."""


def idempotency_key(origin: str, name: str, arguments: Mapping[str, Any]) -> str:
    """A UUID for one call with these arguments; `origin` is fixed in the state before the call runs."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([origin, name, arguments], sort_keys=True)))
