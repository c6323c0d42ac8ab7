"""Tools with an effect outside the database: a line in the file that PAYMENTS names."""

import os
from pathlib import Path

from segue import NOT_DONE, CallContext, tool
from tests.crash.tools import Effects

_effects = Effects(Path(os.environ.get("PAYMENTS", os.devnull)), lambda _: None)


@tool(keywords=["pay"])
def deposit(label: str) -> str:
    """Pay in; twice would be wrong, and nobody can tell whether it happened."""
    _effects.cause("once", "deposit", label)
    return f"paid {label}"


def _was_transferred(label: str, call: CallContext) -> object:
    return f"transferred {label}" if _effects.happened(call.idempotency_key) else NOT_DONE


@tool(check=_was_transferred, keywords=["pay"])
def transfer(label: str, call: CallContext) -> str:
    """Transfer; twice would be wrong, and the bank can be asked."""
    _effects.cause_once(call.idempotency_key, "transfer", label)
    return f"transferred {label}"
