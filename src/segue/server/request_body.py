"""Requests' JSON objects and lists, whose validation stops at the first errors."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, model_validator

NAME = r"^[\w.:@-]+$"
"""What sessions and users may be called."""
LONGEST = 95
"""Characters of such a name: with a tenant's in front it is not too long to be stored."""
MODEL = r"(offline|openai:[\w./:@-]+)"
"""The models that a client may name; what else a model may be, such as a file, belongs to the service."""
LONGEST_MODEL = 207
"""Characters of such a name, 200 of them after `openai:`. In a pattern, a repetition up to a number takes megabytes."""
MOST_FIELDS = 1000
"""Fields of a request that has only some: each of the others would be an error of its own."""

Item = TypeVar("Item")
Items = Annotated[list[Item], Field(fail_fast=True)]
"""A list of which only the first invalid item is reported."""


def refuse_many_fields(given: Any) -> Any:
    """Refuse an object with very many fields, each of which could be an error.

    Raises:
        ValueError.
    """
    if isinstance(given, dict) and len(given) > MOST_FIELDS:
        raise ValueError(f"it has more than {MOST_FIELDS} fields")
    return given


Texts = Annotated[dict[str, str], BeforeValidator(refuse_many_fields)]
"""Texts by name."""


class RequestBody(BaseModel, extra="forbid"):
    """A request; a field that it does not have is refused."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        return refuse_many_fields(given)
