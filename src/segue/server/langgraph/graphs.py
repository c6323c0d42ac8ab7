"""The graphs of a `langgraph.json`: compiled ones, and functions that make them."""

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph_sdk.runtime import _ExecutionRuntime, _ReadRuntime

from ...core.agents import load_attribute
from ...core.errors import ConfigurationError, listed
from ...core.records import Json
from ...runtime.graph_calls import CallLedger, with_ledger_where_needed
from ...runtime.graph_runs import Access, Graph, keep_types
from ...runtime.graph_store import GraphStore

_KNOWN = {"$schema", "dependencies", "graphs", "env", "python_version", "node_version", "pip_config_file"}
_KNOWN |= {"dockerfile_lines", "base_image", "api_version", "image_distro", "keep_pkg_tools", "source"}
_LINE = re.compile(r"(?:export\s+)?(\w+)\s*=\s*(.*)")


@dataclass(frozen=True)
class Source:
    """A graph as the file names it: itself, or the function that makes it."""

    graph_id: str
    made: Any
    takes: tuple[str, ...] = ()
    """What the function gets, in the order of its parameters: `config` or `runtime`."""
    description: str = ""


@dataclass
class GraphCatalogue:
    """The graphs that a service offers, by their ids: those of the file first, then an agent each."""

    sources: Mapping[str, Source]
    agent_graph: Callable[[str], Graph]
    """Makes the graph of an agent."""
    ledger: CallLedger
    agents: Callable[[], Mapping[str, Any]] = dict
    loaded_at: float = field(default_factory=time.time)
    _made: dict[str, Graph] = field(default_factory=dict)
    """The graphs that are made once: those of agents, and those of the file that no function makes."""

    @property
    def ids(self) -> list[str]:
        return [*self.sources, *(name for name in self.agents() if name not in self.sources)]

    def description_of(self, graph_id: str) -> str | None:
        source = self.sources.get(graph_id)
        return (source.description if source else self.agents()[graph_id].description) or None

    def opened(
        self, graph_id: str, access: Access, config: Json, context: Any, store: GraphStore
    ) -> AbstractAsyncContextManager[Graph]:
        """A graph, without checkpointer; what a factory opened for it is closed at the end."""
        return self._opened(graph_id, access, config, context, store)

    @asynccontextmanager
    async def _opened(
        self, graph_id: str, access: Access, config: Json, context: Any, store: GraphStore
    ) -> AsyncIterator[Graph]:
        source = self.sources.get(graph_id)
        if source is None or isinstance(source.made, Pregel):
            if graph_id not in self._made:
                made = self.agent_graph(graph_id) if source is None else source.made
                self._made[graph_id] = self._prepared(made, graph_id)
            yield self._made[graph_id]
            return
        given = {"config": config, "runtime": _runtime(access, context, store)}
        made = source.made(*(given[name] for name in source.takes))
        if inspect.isawaitable(made):
            made = await made
        if hasattr(made, "__aenter__"):
            async with made as inner:
                yield self._prepared(inner, graph_id)
        elif hasattr(made, "__enter__"):
            with made as inner:
                yield self._prepared(inner, graph_id)
        else:
            yield self._prepared(made, graph_id)

    def _prepared(self, made: Any, graph_id: str) -> Graph:
        """A graph with the ledger, whose state can be stored."""
        graph = compiled(made, graph_id)
        keep_types(graph_id, graph)
        return with_ledger_where_needed(graph, self.ledger)


def _runtime(access: Access, context: Any, store: GraphStore) -> Any:
    if access == "threads.create_run":
        return _ExecutionRuntime(access_context=access, store=store, context=context)
    return _ReadRuntime(access_context=access, store=store)


def compiled(made: Any, graph_id: str) -> Graph:
    """What a name of the file gives, as a compiled graph."""
    graph = made.compile() if isinstance(made, StateGraph) else made
    if not isinstance(graph, Pregel):
        raise ConfigurationError(
            "The graph {name} is of the type {type}: name a LangGraph graph, or a function that returns one.",
            name=graph_id,
            type=type(graph).__name__,
        )
    return graph


def load_sources(path: Path) -> Mapping[str, Source]:
    """Import the graphs of a `langgraph.json`."""
    given = _read(path)
    _set_environment(path, given.get("env"))
    folders = [path.parent, *(path.parent / each for each in given.get("dependencies", ()) if each.startswith("."))]
    for folder in map(str, folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    sources = {name: _load(path, name, entry) for name, entry in given["graphs"].items()}
    for name, source in sources.items():
        if isinstance(source.made, Pregel):
            keep_types(name, source.made)
    return sources


def _read(path: Path) -> Json:
    try:
        given: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError("The file {file} cannot be read: {error}.", file=path, error=error) from error
    graphs = given.get("graphs") if isinstance(given, dict) else None
    if not isinstance(graphs, dict) or not graphs:
        raise ConfigurationError('The file {file} has no "graphs": name at least one.', file=path)
    if unknown := given.keys() - _KNOWN:
        raise ConfigurationError(
            "The file {file} has {names}, which Segue does not support: remove it.",
            file=path,
            names=listed(sorted(unknown)),
        )
    whole: Json = given
    return whole


def _set_environment(path: Path, given: Any) -> None:
    """Set the variables that the file names, unless they are set already."""
    variables = given if isinstance(given, dict) else {}
    if isinstance(given, str) and given:
        try:
            lines = (path.parent / given).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ConfigurationError("The file {file} cannot be read: {error}.", file=given, error=error) from error
        found = (_LINE.fullmatch(line) for line in map(str.strip, lines) if not line.startswith("#"))
        variables = {each[1]: each[2].strip("\"'") for each in found if each}
    for name, value in variables.items():
        os.environ.setdefault(name, str(value))


def _load(path: Path, name: str, entry: Any) -> Source:
    place = entry.get("path") if isinstance(entry, dict) else entry
    description = str(entry.get("description") or "") if isinstance(entry, dict) else ""
    if not isinstance(place, str) or ":" not in place:
        raise ConfigurationError(
            "The graph {name} needs a place such as ./agent.py:graph or my_module:graph.", name=name
        )
    made = _attribute(path, name, place)
    is_function = callable(made) and not isinstance(made, Pregel | StateGraph)
    if not is_function:
        return Source(name, compiled(made, name), description=description)
    return Source(name, made, _takes(name, made), description)


def _attribute(path: Path, name: str, place: str) -> Any:
    where, _, attribute = place.rpartition(":")
    if not where.endswith(".py"):
        return load_attribute(place)
    file = (path.parent / where).resolve()
    try:
        return getattr(_module_of(path.parent.resolve(), file), attribute)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            "The graph {name} cannot be imported from {place}: {error}.", name=name, place=place, error=error
        ) from error


def _module_of(folder: Path, file: Path) -> ModuleType:
    """The module of a file, under the name that it has below the folder of `langgraph.json`."""
    parts = file.relative_to(folder).with_suffix("").parts if file.is_relative_to(folder) else (file.stem,)
    if all(part.isidentifier() for part in parts) and file.is_relative_to(folder):
        module = importlib.import_module(".".join(parts))
        if Path(module.__file__ or "").resolve() == file:
            return module
    name = "_".join(("langgraph_graph", *parts))
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _takes(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """What a function that makes a graph gets, by the annotations and names of its parameters."""
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    takes = tuple(
        "runtime" if "Runtime" in str(each.annotation) or each.name == "runtime" else "config" for each in parameters
    )
    if len(set(takes)) != len(takes):
        raise ConfigurationError(
            "The function of the graph {name} has the parameters {parameters}: it may have a config and a runtime.",
            name=name,
            parameters=listed(each.name for each in parameters),
        )
    return takes
