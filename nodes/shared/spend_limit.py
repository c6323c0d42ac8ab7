"""Limits of what models use: room for a call before it is made, or a question to a person."""

from typing import Any

from langgraph.types import interrupt

from segue.core.models import ModelRequest
from segue.core.spend import SPEND, USD, Reached, Reservation
from segue.prompts.catalogue import phrase

from .context import NodeContext


async def reserve(work: NodeContext, request: ModelRequest, task_id: str, language: str) -> Reservation | None:
    """Keep room for a call in all limits; None where there are none. Interrupts the graph until there is room.

    Raises:
        ConfigurationError: a limit is in US dollars, and the price of the model is not known.
    """
    spending, model = work.services.spending, work.model
    if spending is None or not model.is_language_model:
        return None
    while True:
        found = await spending.reserve(task_id, work.agent, model, request, work.services.clock())
        if not isinstance(found, Reached):
            return found
        interrupt(limit_question(found, work.agent.agent_id, language))  # returns only answers that left no room


def limit_question(reached: Reached, agent_id: str, language: str) -> dict[str, Any]:
    """What a person is asked where a limit is reached."""
    return {
        "kind": SPEND,
        "question": limit_sentence(reached, agent_id, language),
        "choices": [reached.suggestion, phrase("limit_cancel", language)],
        **reached.json(),
    }


def limit_sentence(reached: Reached, agent_id: str, language: str) -> str:
    """Which limit is reached, what is used, and what the next call may need."""
    values = {name: getattr(reached, name) for name in ("limit", "used", "needs")}
    amounts = {name: amount(value, reached.unit, language) for name, value in values.items()}
    whose = phrase(f"limit_of_{reached.scope.kind}", language, agent=agent_id, day=reached.scope.day)
    return phrase("limit_reached", language, whose=whose, suggestion=reached.suggestion, **amounts)


def amount(value: float, unit: str, language: str) -> str:
    """US dollars or tokens as people read them."""
    if unit != USD:
        return phrase("n_tokens", language, n=f"{value:,.0f}")
    whole, _, places = f"{value:,.6f}".partition(".")
    return f"${whole}.{places.rstrip('0').ljust(2, '0')}"
