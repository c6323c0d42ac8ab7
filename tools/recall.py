"""`recall`: open an earlier result of a tool that the prompt does not hold whole."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any

from pydantic import Field

from .registry import BoundTool, as_tool, tool

LookUp = Callable[[str], Awaitable[str | None]]


def recall_tool(look_up: LookUp, chars: int) -> BoundTool:
    """The tool over `look_up`, which gives a result's whole text by its ref; it opens `chars` characters at a time.

    For an empty ref `look_up` lists the results.
    """

    async def opened(values: Mapping[str, Any]) -> dict[str, Any]:
        return await recall(**values, look_up=look_up, chars=chars)

    form = _form()
    return replace(form, inner=form.inner.model_copy(update={"function": opened}))


@cache
def _form() -> BoundTool:
    """The tool with its schema, which takes longer to make than a call."""
    return as_tool(partial(recall, look_up=None, chars=0))  # type: ignore[arg-type]  # only its schema is used


@tool(read_only=True)
async def recall(
    ref: Annotated[str, Field(description="the result's ref; empty: list all earlier results and their refs")] = "",
    offset: Annotated[int, Field(ge=0, description="the character to go on from")] = 0,
    *,
    look_up: LookUp,
    chars: int,
) -> dict[str, Any]:
    """Open an earlier result that was truncated or is no longer shown, from `offset` on."""
    text = await look_up(ref)
    if text is None:
        raise ValueError(f"There is no result {ref!r}: call recall without a ref to list the refs there are.")
    end = offset + chars
    following = end if end < len(text) else None
    return {
        "ref": ref,
        "offset": offset,
        "text": text[offset:end],
        "next_offset": following,
        "total_chars": len(text),
    }
