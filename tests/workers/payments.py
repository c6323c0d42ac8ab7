"""Tools with an effect outside the database: a line in the file that PAYMENTS names."""

import os
from pathlib import Path

from segue import NOT_DONE, CallContext, tool
from tests.crash.tools import Effects

_BY = f" by {os.environ['VERSION']}" if os.environ.get("VERSION") else ""
"""The version of the worker that makes a call, where it has one."""
_effects = Effects(Path(os.environ.get("PAYMENTS", os.devnull)), lambda _: None)


@tool(keywords=["pay"])
def deposit(label: str) -> str:
    """Pay in; twice would be wrong, and nobody can tell whether it happened."""
    _effects.cause("once", "deposit", label)
    return f"paid {label}{_BY}"


def _was_transferred(label: str, call: CallContext) -> object:
    return f"transferred {label}{_BY}" if _effects.happened(call.idempotency_key) else NOT_DONE


@tool(check=_was_transferred, keywords=["pay"])
def transfer(label: str, call: CallContext) -> str:
    """Transfer; twice would be wrong, and the bank can be asked."""
    _effects.cause_once(call.idempotency_key, "transfer", label)
    return f"transferred {label}{_BY}"


def _approved_deposit(label: str) -> str:
    """Pay in, once a person approved it."""
    return _pay_in(label)


def _approved_deposit_with_fee(label: str, fee: int = 5) -> str:
    """Pay in, once a person approved it."""
    return _pay_in(label)


def _pay_in(label: str) -> str:
    _effects.cause("once", "deposit", label)
    return f"paid {label}{_BY}"


_approved_deposit.__name__ = _approved_deposit_with_fee.__name__ = "deposit"
approved_deposit = tool(needs_approval=True)(_approved_deposit)
approved_deposit_with_fee = tool(needs_approval=True)(_approved_deposit_with_fee)
