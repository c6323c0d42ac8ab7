"""The graphs' diagrams, as LangGraph draws them."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

GRAPHS = "segue.graphs"


@cache
def names() -> frozenset[str]:
    """The graphs that there are."""
    return frozenset(module.name for module in iter_modules(import_module(GRAPHS).__path__))


def drawing(name: str) -> str | None:
    """A graph as Mermaid; None where there is none of that name."""
    return _drawn(name) if name in names() else None


@cache
def _drawn(name: str) -> str:
    mermaid: str = import_module(f"{GRAPHS}.{name}").graph.get_graph().draw_mermaid()
    return mermaid
