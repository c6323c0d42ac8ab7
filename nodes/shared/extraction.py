"""The answer of a task as an object: read from the text, or asked of a model until it fits."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from pydantic import ValidationError

from segue.core.errors import UnreadableReply
from segue.core.models import ModelReply, ModelRequest
from segue.prompts.language import language_of
from segue.prompts.load import render

T = TypeVar("T")
MOST_ASKS = 3


async def extract(
    ask: Callable[[ModelRequest], Awaitable[ModelReply]],
    answer: str,
    name: str,
    schema: Mapping[str, Any],
    read: Callable[[str], T],
    strict: bool = False,
) -> T:
    """The answer as `read` gives it; one that it can read costs no call.

    Raises:
        UnreadableReply: the model did not manage it in three tries.
        ModelError: the model cannot be asked, or cannot write one.
    """
    try:
        return read(answer)
    except (UnreadableReply, ValidationError):
        pass
    system = render("extract", language_of(answer), schema=json.dumps(schema, ensure_ascii=False))
    request = ModelRequest(
        purpose="extract", messages=[SystemMessage(system), HumanMessage(answer)], schema=schema, strict=strict
    )
    for _ in range(MOST_ASKS):
        reply = await ask(request)
        try:
            return read(reply.text)
        except (UnreadableReply, ValidationError) as error:
            again = [*request.messages, AIMessage(reply.text), HumanMessage(f"{error}")]
            request = ModelRequest(purpose="extract", messages=again, schema=schema, strict=strict)
    raise UnreadableReply(f"The model did not write a {name} in {MOST_ASKS} tries; its answer is kept.")
