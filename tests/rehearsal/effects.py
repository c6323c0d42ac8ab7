"""Tools whose effects are lines of the file that EFFECTS names."""

import os

from segue import tool


def effect(name: str) -> str:
    if file := os.environ.get("EFFECTS"):
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(f"{name}\n")
    return "done"


@tool(keywords=("景点", "北京"), title="Sights")
def sights(city: str = "北京") -> str:
    """Look sights up."""
    return effect("sights")


@tool(keywords=("规划",), title="Route")
def route(days: int = 3) -> str:
    """Plan a route."""
    return effect("route")


TOOLS = (sights, route)
