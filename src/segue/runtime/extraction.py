"""Extraction of a typed object from an answer."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, ValidationError

from ..core.decision import read_object
from ..core.errors import UnreadableReply
from ..core.models import Model, ModelReply, ModelRequest
from ..prompts.language import language_of
from ..prompts.load import render

T = TypeVar("T", bound=BaseModel)
MOST_ASKS = 3


async def extract(model: Model, answer: str, response_model: type[T]) -> tuple[T, dict[str, int]]:
    """The answer as an object, and the tokens that it took: {"input", "output", "calls"}.

    An answer that is such an object already costs no call.

    Raises:
        UnreadableReply: the model did not manage it in three tries.
        ModelError: the model cannot be asked, or cannot write one.
    """
    usage = {"input": 0, "output": 0, "calls": 0}
    try:
        return response_model.model_validate(read_object(answer)), usage
    except (UnreadableReply, ValidationError):
        pass
    messages = _prompt(answer, response_model)
    for _ in range(MOST_ASKS):
        reply = await _ask(model, messages, response_model)
        usage = {name: usage[name] + reply.usage.get(name, 0) for name in ("input", "output")} | {
            "calls": usage["calls"] + 1
        }
        try:
            return response_model.model_validate(read_object(reply.text)), usage
        except (UnreadableReply, ValidationError) as error:
            messages = [*messages, AIMessage(reply.text), HumanMessage(f"{error}")]
    raise UnreadableReply(
        f"The model did not write a {response_model.__name__} in {MOST_ASKS} tries; its answer is kept."
    )


def _prompt(answer: str, response_model: type[BaseModel]) -> list[BaseMessage]:
    schema = json.dumps(response_model.model_json_schema(), ensure_ascii=False)
    return [SystemMessage(render("extract", language_of(answer), schema=schema)), HumanMessage(answer)]


async def _ask(model: Model, messages: list[BaseMessage], response_model: type[BaseModel]) -> ModelReply:
    schema: Mapping[str, Any] = response_model.model_json_schema()
    reply = ModelReply(text="")
    async for piece in model.stream(ModelRequest(purpose="extract", messages=messages, schema=schema)):
        if isinstance(piece, ModelReply):
            reply = piece
    return reply
