"""What model calls used: {"input", "output", "calls", "cost", "currency"}, tokens and money.

A `cost` of None is not known. It is known where every call has a price, in one currency.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from .agents import Prices
from .models import Model, ModelReply

Usage = dict[str, Any]


def usage_of(reply: ModelReply, prices: Prices | None, model: Model) -> Usage:
    """What a call used; it costs what the agent's prices say, else what the model knows."""
    used: Usage = {name: reply.usage.get(name, 0) for name in ("input", "output")} | {"calls": 1}
    if not model.is_language_model:
        return used | {"cost": 0.0}
    if prices is not None and reply.usage:
        return used | {"cost": prices.cost(used["input"], used["output"]), "currency": prices.currency}
    return used | ({"cost": None} if reply.cost is None else {"cost": reply.cost, "currency": "USD"})


def add_usages(usages: Iterable[Mapping[str, Any]]) -> Usage:
    """The sum; empty where nothing was called."""
    called = [usage for usage in usages if usage]
    if not called:
        return {}
    total: Usage = {name: sum(usage.get(name, 0) for usage in called) for name in ("input", "output", "calls")}
    return total | add_costs((usage.get("cost"), usage.get("currency", "")) for usage in called)


def add_costs(costs: Iterable[tuple[float | None, str]]) -> Usage:
    """{"cost"} of costs with their currencies, and "currency" where there is one."""
    known = [*costs]
    currencies = {currency for cost, currency in known if currency}
    if len(currencies) > 1 or any(cost is None for cost, _ in known):
        return {"cost": None}
    total: Usage = {"cost": sum(cost or 0.0 for cost, _ in known)}
    return total | {"currency": currencies.pop()} if currencies else total
