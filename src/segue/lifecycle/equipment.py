"""What an engine in memory works with: who decomposes, who carries out, who knows the context."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from ..core.agents import Agent
from ..core.errors import ConfigurationError
from ..core.lifecycle import Context, Coordinator
from ..core.ports import Ledger, Model
from ..nodes.lifecycle.decomposing import Decompose
from ..registry import Registry, RunServices


class NoContext:
    """The coordinator of an engine that was given none."""

    async def get_context_async(self, text: str, /) -> Context:
        return Context()


@dataclass(frozen=True)
class Equipment:
    """`model` takes the place of the agent's own."""

    agent: Agent
    registry: Registry
    coordinator: Coordinator
    decompose: Decompose | None
    model: Model | None = None

    def services(self, ledger: Ledger) -> RunServices:
        """The services of one run."""
        return _Services(self.registry, ledger, self.model)


class _Services(RunServices):
    def __init__(self, registry: Registry, ledger: Ledger, model: Model | None) -> None:
        super().__init__(registry, lambda event: None, ledger)
        self._model = model

    def model_for(self, agent: Agent, override: str = "") -> Model:
        return self._model or super().model_for(agent, override)


def equip(coordinator: Coordinator | None, llm: Any, agent: Agent | None, tools: Iterable[Any]) -> Equipment:
    """What these arguments of an engine mean.

    Raises:
        ConfigurationError: the `llm` is no model and breaks no goals down; UnknownModel, MissingKey, UnknownTool.
    """
    own = agent or Agent(agent_id="engine")
    own = own.model_copy(update={"tools": (*own.tools, *tools)})
    decompose: Decompose | None = None
    model: Model | None = None
    if llm is None:
        decompose = _whole
    elif callable(getattr(llm, "decompose_goal", None)):
        decompose = _decomposing(llm)
    elif isinstance(llm, str | BaseChatModel):
        own = own.model_copy(update={"model": llm})
    elif callable(getattr(llm, "stream", None)) and hasattr(llm, "is_language_model"):
        model = llm
    else:
        raise ConfigurationError(
            f"The llm {llm!r} is no model: give a name such as «offline» or «openai:<name>», a chat model, or an "
            "object with decompose_goal(text)."
        )
    registry = Registry()
    registry.register(own)
    registry.model_for(own)
    return Equipment(own, registry, coordinator or NoContext(), decompose, model)


async def _whole(text: str) -> object:
    """Without a model the goal is one task."""
    return [{"id": "1", "description": text}]


def _decomposing(llm: Any) -> Decompose:
    async def decompose(text: str) -> object:
        given = llm.decompose_goal(text)
        return await given if inspect.isawaitable(given) else given

    return decompose
