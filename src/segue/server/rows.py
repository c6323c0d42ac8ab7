"""What the app gives: dicts of JSON values."""

from typing import Any

Row = dict[str, Any]
