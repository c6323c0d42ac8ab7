"""A payment service in a file, and its tools: `pay` is marked wrongly, `pay_once` rightly."""

import json
import os
from pathlib import Path
from typing import Any

from segue import CallContext, tool


def _file() -> Path:
    return Path(os.environ["PAYMENTS"])


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _file().read_text().splitlines()] if _file().exists() else []


def _add(**row: Any) -> None:
    with _file().open("a") as file:
        file.write(json.dumps(row) + "\n")


@tool(idempotent=True)
def pay(order: int) -> str:
    """Pay an order."""
    _add(order=order)
    return f"paid {order}"


@tool(idempotent=True)
def pay_once(order: int, call: CallContext) -> str:
    """Pay an order, once for a key."""
    if not any(row.get("key") == call.idempotency_key for row in _rows()):
        _add(order=order, key=call.idempotency_key)
    return f"paid {order}"


class World:
    """The payments."""

    def reset(self) -> None:
        _file().write_text("")

    def snapshot(self) -> object:
        return {"payments": _rows()}
