"""Words that stand for an argument's values, and arguments that are the reader's language."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from segue.core.json_schema import plain_schema
from segue.models.offline_cards import read_card
from segue.models.offline_filling import read_arguments
from segue.tools.registry import as_tool, tool

from .offline_tools import Talk, said

SHADES = {"red": ["红", "crimson", "scarlet"], "blue": ["蓝色", "navy blue", "navy"]}


@tool(read_only=True, title="刷墙 · Paint", keywords=["刷", "paint"])
def paint(
    shade: Annotated[Literal["red", "blue"] | None, Field(json_schema_extra={"aliases": SHADES})] = None,
    room: Annotated[str | None, Field(examples=["hall", "attic"])] = None,
    language: Annotated[Literal["zh", "en"] | None, Field(json_schema_extra={"format": "language"})] = None,
) -> dict[str, Any]:
    """Paint a room."""
    return {"summary": f"{shade} {room} {language}"}


CARD = read_card(as_tool(paint).spec)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("paint it crimson", {"shade": ["red"]}),
        ("paint the hall navy blue", {"shade": ["blue"], "room": ["hall"]}),
        ("刷成红的和蓝色", {"shade": ["red", "blue"]}),
        ("scarlet and crimson paint", {"shade": ["red"]}),
        ("paint it red", {}),
        ("paint it zh, en", {}),
    ],
)
def test_a_value_is_named_by_its_words_alone(text: str, read: dict[str, Any]) -> None:
    assert read_arguments(CARD, text) == read


async def test_a_tool_hears_in_which_language_to_answer() -> None:
    for text, language in [("paint it crimson", "en"), ("把墙刷成红的", "zh")]:
        talk = Talk((paint,))
        answer = await talk.say(text)
        assert talk.calls == [("paint", {"shade": "red", "language": language})]
        assert f"red None {language}" in answer


async def test_the_language_is_no_part_of_how_a_call_is_told() -> None:
    plan = json.loads(await said("plan", "paint it crimson", (paint,)))
    assert plan["steps"][0]["params"] == {"shade": "red", "language": "en"}
    assert plan["steps"][0]["description"] == "Paint (Shade=red)"


async def test_the_turn_before_is_gone_on_with_in_the_language_of_the_new_one() -> None:
    talk = Talk((paint,))
    await talk.say("paint it crimson")
    await talk.say("那蓝色呢？")
    assert talk.calls == [("paint", {"shade": "blue", "language": "zh"})]


async def test_a_language_that_the_tool_does_not_know_is_left_out() -> None:
    @tool(read_only=True, keywords=["sing"])
    def sing(
        language: Annotated[Literal["it", "de"] | None, Field(json_schema_extra={"format": "language"})] = None,
    ) -> str:
        """Sing."""
        return "la"

    talk = Talk((sing,))
    await talk.say("sing")
    assert talk.calls == [("sing", {})]


def test_a_foreign_schema_may_mean_something_else_by_aliases() -> None:
    for odd in (["a"], "a", 3, {"a": "b"}):
        parameters = {"type": "object", "properties": {"x": {"type": "string", "examples": ["a"], "aliases": odd}}}
        card = read_card({"type": "function", "function": {"name": "f", "parameters": parameters}})
        assert card.parameters[0].aliases == ()


def test_a_model_is_not_shown_the_words() -> None:
    parameters = as_tool(paint).spec["function"]["parameters"]
    assert "crimson" in str(parameters)
    assert "crimson" not in str(plain_schema(parameters))
    assert plain_schema(parameters)["properties"]["shade"]["anyOf"][0]["enum"] == ["red", "blue"]
