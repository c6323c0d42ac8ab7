"""`recall`: the pages of a result, and refs that there are none of."""

from typing import Any

import pytest

from segue.core.calls import CallKey
from segue.nodes.context import recall_tool
from segue.tools.bound_tool import BadArguments
from tests.cases import cases
from tests.tool_calls import run_call

STORED = {"t.1.0": "0123456789", "t.1.1": "", "": "t.1.0"}


async def look_up(ref: str) -> str | None:
    return STORED.get(ref)


TOOL = recall_tool(look_up, 4)


def page(offset: int, text: str, following: int | None) -> dict[str, Any]:
    return {"ref": "t.1.0", "offset": offset, "text": text, "next_offset": following, "total_chars": 10}


@cases(
    "given, expected",
    [
        ({}, page(0, "0123", 4)),
        ({"offset": 4}, page(4, "4567", 8)),
        ({"offset": 6}, page(6, "6789", None)),
        ({"offset": 8}, page(8, "89", None)),
        ({"offset": 99}, page(99, "", None)),
    ],
)
async def test_a_result_is_opened_by_pages(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert await TOOL.call({"ref": "t.1.0", **given}) == expected


async def test_it_only_reads_and_is_called_recall() -> None:
    assert (TOOL.name, TOOL.read_only) == ("recall", True)
    function = TOOL.spec["function"]
    assert list(function["parameters"]["properties"]) == ["ref", "offset"]
    assert "required" not in function["parameters"]
    assert (await TOOL.call({}))["text"] == "t.1."


async def test_an_unknown_ref_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="There is no result 'x'"):
        await TOOL.call({"ref": "x"})
    outcome = await run_call({"recall": TOOL}, "recall", {"ref": "x"}, CallKey("t", "s", 0), None, 10)
    assert outcome.result["error"].startswith("ValueError: There is no result 'x': call recall without")


@pytest.mark.parametrize("given", [{"ref": "t.1.0", "offset": -1}, {"ref": "t.1.0", "page": 2}])
async def test_arguments_that_do_not_fit(given: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        await TOOL.call(given)
