"""Named sets of tools, so that an agent in a TOML file can ask for `travel`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from segue.core.agents import load_attribute
from segue.core.errors import ConfigurationError, UnknownTool

from .adapters.functions import bind_function
from .bound_tool import BadArguments, BoundTool, Marks, tool

__all__ = ["BadArguments", "BoundTool", "Marks", "ToolSets", "as_tool", "tool"]


def as_tool(source: Any) -> BoundTool:
    """Turn a LangChain tool or a typed function into a `BoundTool`.

    Raises:
        ConfigurationError: it is neither, or its parameters have no JSON schema.
    """
    from langchain_core.tools import BaseTool

    from .adapters.langchain import bind_langchain_tool

    if isinstance(source, BoundTool):
        return source
    if isinstance(source, BaseTool):
        return bind_langchain_tool(source)
    if callable(source) and not isinstance(source, type):
        return bind_function(source)
    raise ConfigurationError("{source} is not a tool: pass a LangChain tool or a typed function.", source=repr(source))


class ToolSets:
    """Tools by the name of their set; a set that is a function is made when it is asked for, and may change.

    The others are bound once, for all agents of the process.
    """

    def __init__(self, sets: Mapping[str, Iterable[Any] | Callable[[], Iterable[Any]]]) -> None:
        self._sets = {name: members if callable(members) else tuple(members) for name, members in sets.items()}
        self._bound: dict[str, tuple[BoundTool, ...]] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._sets)

    def may_change(self, requested: Iterable[Any]) -> bool:
        """Whether a later `resolve` of these may give other tools."""
        return any(isinstance(item, str) and callable(self._sets.get(item)) for item in requested)

    def resolve(self, requested: Iterable[Any]) -> dict[str, BoundTool]:
        """The tools of an agent by name.

        Raises:
            UnknownTool: a string is no set's or tool's name.
            ConfigurationError: two tools have one name.
        """
        found: dict[str, BoundTool] = {}
        for item in requested:
            for source in self._members(item):
                bound = as_tool(source)
                if bound.name in found and found[bound.name].origin != bound.origin:
                    raise ConfigurationError("Two tools are called {name}: rename one.", name=bound.name)
                found[bound.name] = bound
        return found

    def _members(self, item: Any) -> tuple[Any, ...]:
        if not isinstance(item, str):
            return (item,)
        if item in self._sets:
            members = self._sets[item]
            if callable(members):
                return tuple(members())
            if item not in self._bound:
                self._bound[item] = tuple(map(as_tool, members))
            return self._bound[item]
        if ":" in item:
            loaded = load_attribute(item)
            return tuple(loaded) if isinstance(loaded, (list, tuple)) else (loaded,)
        raise UnknownTool(item, self.names)
