"""`recall`: open a tool's result that was truncated in the prompt."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from .registry import BoundTool, as_tool, tool

LookUp = Callable[[str], Awaitable[str | None]]


def recall_tool(look_up: LookUp, chars: int) -> BoundTool:
    """The tool over `look_up`, which gives a result's whole text by its ref; it opens `chars` characters at a time."""

    @tool(read_only=True)
    async def recall(
        ref: Annotated[str, Field(description="the ref in the note where the result was truncated")],
        offset: Annotated[int, Field(ge=0, description="the character to go on from")] = 0,
    ) -> dict[str, Any]:
        """Open a result that was truncated, from `offset` on."""
        text = await look_up(ref)
        if text is None:
            raise ValueError(f"There is no result {ref!r}: copy the ref from the note where a result was truncated.")
        end = offset + chars
        following = end if end < len(text) else None
        return {
            "ref": ref,
            "offset": offset,
            "text": text[offset:end],
            "next_offset": following,
            "total_chars": len(text),
        }

    return as_tool(recall)
