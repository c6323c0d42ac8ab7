"""What known models cost, from the data of the package `genai-prices`; nothing is fetched."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any


async def known_cost(name: str, address: str, usage: Mapping[str, int]) -> float | None:
    """What a call of the model at an endpoint's address cost, in US dollars; None where that is not known.

    `usage` counts tokens as {"input", "output", "cached"}; `cached` is a part of the input.
    """
    if "input" not in usage or "output" not in usage:
        return None
    return await asyncio.to_thread(_cost, name, address, usage)


def _cost(name: str, address: str, usage: Mapping[str, int]) -> float | None:
    found = _model(name, address)
    if found is None:
        return None
    from genai_prices import Usage

    counted = Usage(
        input_tokens=usage["input"], output_tokens=usage["output"], cache_read_tokens=usage.get("cached") or None
    )
    provider, model = found
    return float(model.calc_price(counted, provider, genai_request_timestamp=datetime.now(UTC)).total_price)


@cache
def _model(name: str, address: str) -> Any:
    """The provider and the model, or None."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(name, None, None, address)
    except LookupError:
        return None
