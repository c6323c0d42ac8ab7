"""CONTEXT_FETCHING: ask the coordinator for rules, knowledge and tools."""

from collections.abc import Iterable, Mapping
from inspect import isawaitable
from typing import Any

from segue.core.events import Phase
from segue.core.lifecycle import Context, Coordinator, EngineEventType, EngineState
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.prompt_budget import as_json, tokens, truncate
from .events import changed, engine_event
from .state import LifecycleNode, LifecycleState

KINDS = ("rules", "knowledge", "tools")
MOST_CHARS = 2_000
"""Characters of one text of the context."""
SHARE = 8
"""Rules, knowledge and tools get one part in so many of a prompt's budget each."""
_TEXTS = ("text", "content", "description")


def context_fetching(coordinator: Coordinator | None) -> LifecycleNode:
    """The node over this coordinator; without one the context is the agent's tools."""

    async def fetch(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Keep the context's texts, and tell how many there are; a coordinator that fails ends the run."""
        work, task_id = node_context(runtime), state["task_id"]
        work.emit(Phase(task_id=task_id, content=phrase("lifecycle_context", state["language"])))
        try:
            given = coordinator.get_context_async(state["objective"]) if coordinator else _own(work)
            given = await given if isawaitable(given) else given
            found = {kind: _items(given, kind) for kind in KINDS}
        except Exception as error:  # noqa: BLE001 - a coordinator is anybody's code: the run ends and says why
            why = phrase("no_context", state["language"], why=str(error) or type(error).__name__)
            return {"failure": {"error": why, "phase": state["phase"]}}
        context = _bounded(found, work.agent.budget.prompt_tokens)
        counts = {f"{kind}_count": len(found[kind]) for kind in KINDS}
        left_out = {kind: n for kind in KINDS if (n := len(found[kind]) - len(context[kind]))}
        details = {**counts, **context, **({"left_out": left_out} if left_out else {})}
        events = announce(
            engine_event(task_id, EngineEventType.CONTEXT_RECEIVED, details),
            changed(task_id, state["phase"], EngineState.DECOMPOSING),
        )
        return {"context": context, "phase": EngineState.DECOMPOSING.value, "events": events}

    return fetch


def _own(work: NodeContext) -> Context:
    return Context(tools=[_tool_line(tool.spec["function"]) for tool in work.tools.values()])


def _tool_line(function: Mapping[str, Any]) -> str:
    return f"{function['name']}: {' '.join(str(function.get('description', '')).split())}"


def _items(given: Any, kind: str) -> list[str]:
    items = given.get(kind) if isinstance(given, Mapping) else getattr(given, kind)
    return [_text(item) for item in items or ()]


def _text(item: Any) -> str:
    """What a rule, a passage or a tool says, whatever form the coordinator gives it."""
    if isinstance(item, Mapping):
        if isinstance(item.get("function"), Mapping):
            return _tool_line(item["function"])
        said = next((str(item[name]) for name in _TEXTS if item.get(name)), "")
        name = item.get("name") or item.get("title") or ""
        return ": ".join(part for part in (str(name), said) if part) or as_json(item)
    return str(item)


def _bounded(found: Mapping[str, list[str]], most_tokens: int) -> dict[str, list[str]]:
    """The texts as prompts will show them: each truncated to its length, and no more of them than fit."""
    return {kind: list(_within_budget(texts, most_tokens // SHARE)) for kind, texts in found.items()}


def _within_budget(texts: Iterable[str], room: int) -> Iterable[str]:
    for text in texts:
        shown = truncate(text.encode("utf-8", "replace").decode("utf-8"), MOST_CHARS)
        room -= tokens(shown)
        if room < 0:
            return
        yield shown
