"""What the ledger knows a step's call by."""

from collections.abc import Mapping
from typing import Any

from segue.core.ports import CallKey


def key_of(task_id: str, item: Mapping[str, Any]) -> CallKey:
    """The place of a wave's entry: its step and its attempt."""
    return CallKey(task_id, f"{item['step_id']}#{item['attempt']}", 0)
