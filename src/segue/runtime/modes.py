"""Modes of one's own beside the built-in ones."""

import re
from collections.abc import Mapping
from typing import Any

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from ..core.errors import ConfigurationError
from ..graphs.chat import MODES
from ..nodes.chat.run_mode import ModeGraph
from ..nodes.chat.select_mode import AUTO

_MODE = re.compile(r"[^\W\d]\w{0,63}")
_NODES = ("INIT", "SELECT_MODE", "FINISH")


def mode_graphs(modes: Mapping[str, Any]) -> dict[str, ModeGraph]:
    """Graphs of one's own, compiled where they are not.

    Raises:
        ConfigurationError: a name is taken, or what it names is no graph.
    """
    graphs: dict[str, ModeGraph] = {}
    for name, graph in modes.items():
        if name in (*MODES, AUTO, *_NODES) or not _MODE.fullmatch(name):
            raise ConfigurationError(f"A mode cannot be called «{name}»: take a name of letters that is not built in.")
        if not isinstance(graph, StateGraph | CompiledStateGraph):
            raise ConfigurationError(f"The mode «{name}» is no LangGraph graph: {graph!r}.")
        graphs[name] = graph.compile() if isinstance(graph, StateGraph) else graph
    return graphs
