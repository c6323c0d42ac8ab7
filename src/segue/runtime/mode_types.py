"""Types of the values in the states of own modes, which keep them over an interrupt and in another process."""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, get_args, get_type_hints

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel
from typing_extensions import is_typeddict

from ..core.errors import ConfigurationError

Graph = CompiledStateGraph[Any, Any, Any, Any]


def kept_types(graphs: Mapping[str, Graph]) -> set[type]:
    """The models, dataclasses, enums and named tuples that the graphs' states are annotated with.

    Raises:
        ConfigurationError: one cannot be found again in another process.
    """
    found: set[type] = set()
    for name, graph in graphs.items():
        for each in _types_of(_annotations(graph)):
            if getattr(sys.modules.get(each.__module__), each.__name__, None) is not each:
                raise ConfigurationError(
                    "The state of the mode {name} has values of the type {type}, which no other process can find: "
                    "define it at the top level of a module.",
                    name=name,
                    type=f"{each.__module__}.{each.__qualname__}",
                )
            found.add(each)
    return found


def _annotations(graph: Graph) -> Iterator[Any]:
    builder = graph.builder
    yield from builder.schemas
    yield from (channel.ValueType for channel in builder.channels.values())
    for _, inner in graph.get_subgraphs():
        if isinstance(inner, CompiledStateGraph):
            yield from _annotations(inner)


def _types_of(annotations: Iterable[Any]) -> list[type]:
    """Every type of which values may be, subclasses among them."""
    waiting, seen, found = [*annotations], set[int](), list[type]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        waiting += get_args(each)
        if not isinstance(each, type):
            continue
        if is_typeddict(each):
            waiting += _hints(each)
        elif issubclass(each, BaseModel | Enum) or dataclasses.is_dataclass(each) or hasattr(each, "_fields"):
            waiting += [*_hints(each), *type.__subclasses__(each)]
            if each not in (BaseModel, Enum):
                found.append(each)
    return found


def _hints(each: type) -> list[Any]:
    try:
        return [*get_type_hints(each, include_extras=True).values()]
    except (NameError, TypeError):  # a name that is only there for the type checker
        return []
