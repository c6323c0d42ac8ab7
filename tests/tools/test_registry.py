"""The registry: what a function or a LangChain tool becomes, which calls are refused, and how sets are resolved."""

import asyncio
import threading
from typing import Annotated, Any

import pytest
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field, ValidationError

from segue.errors import ConfigurationError, UnknownTool
from segue.tools.builtin import BUILTIN
from segue.tools.calculator import calculate
from segue.tools.registry import BadArguments, BoundTool, Marks, ToolSets, as_tool, tool


@tool(read_only=True, keywords=["加", "add"], title="Adder", timeout=2.5)
def add(
    a: Annotated[int, Field(ge=0, description="One number", json_schema_extra={"keywords": ["first"]})], b: int = 1
) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
async def shout(text: str) -> str:
    """Say it louder."""
    await asyncio.sleep(0)
    return text.upper()


def plain(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


class Point(BaseModel):
    x: int


def parse_a_point(text: str) -> int:
    """Fail inside the tool with a validation error of its own."""
    return Point.model_validate_json(text).x


PAIR = (add, plain)


# Marks and specifications


def test_marks_and_spec_of_a_function() -> None:
    bound = as_tool(add)
    assert bound.name == "add"
    assert bound.marks == Marks(read_only=True, keywords=("加", "add"), title="Adder", timeout=2.5)
    assert (bound.read_only, bound.idempotent, bound.needs_approval, bound.timeout) == (True, True, False, 2.5)
    assert bound.spec["segue"] == {"keywords": ["加", "add"], "title": "Adder", "read_only": True}


def test_the_schema_keeps_what_the_annotations_say() -> None:
    function = as_tool(add).spec["function"]
    assert function["description"] == "Add two numbers."
    assert function["parameters"]["required"] == ["a"]
    field = function["parameters"]["properties"]["a"]
    assert (field["type"], field["minimum"], field["description"]) == ("integer", 0, "One number")
    assert field["keywords"] == ["first"]


def test_a_function_without_marks_is_careful() -> None:
    bound = as_tool(plain)
    assert bound.marks == Marks()
    assert (bound.read_only, bound.idempotent) == (False, False)
    assert bound.spec["segue"]["title"] == "plain"


def test_bare_decorator_leaves_the_function_callable() -> None:
    @tool
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    assert double(2) == 4
    assert as_tool(double).marks == Marks()


def test_idempotent_does_not_mean_read_only() -> None:
    @tool(idempotent=True)
    def put(value: int) -> None:
        """Store it."""

    assert (as_tool(put).read_only, as_tool(put).idempotent) == (False, True)


def test_a_bound_tool_stays_itself() -> None:
    bound = as_tool(add)
    assert as_tool(bound) is bound


@pytest.mark.parametrize("source", [3, None, object()])
def test_what_is_no_tool_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no tool"):
        as_tool(source)


def test_a_parameter_without_a_type_is_named() -> None:
    def vague(a, b: int = 0) -> None:  # type: ignore[no-untyped-def]
        """Do nothing."""

    with pytest.raises(ConfigurationError, match=r"vague.*give a a type"):
        as_tool(vague)


def test_variadic_parameters_are_refused() -> None:
    def many(*numbers: int) -> int:
        """Sum them."""
        return sum(numbers)

    with pytest.raises(ConfigurationError, match=r"many.*numbers"):
        as_tool(many)


# LangChain tools


async def test_a_langchain_tool_is_taken_as_it_is() -> None:
    @langchain_tool
    def search(query: str) -> str:
        """Look something up."""
        return f"found {query}"

    search.metadata = {"segue": {"read_only": True, "keywords": ["look up"]}}
    bound = as_tool(search)
    assert bound.inner is search
    assert bound.read_only
    assert bound.spec["function"]["name"] == "search"
    assert bound.spec["segue"]["keywords"] == ["look up"]
    assert await bound.call({"query": "x"}) == "found x"


def test_an_unknown_mark_of_a_langchain_tool_is_named() -> None:
    source = StructuredTool.from_function(plain, metadata={"segue": {"readonly": True}})
    with pytest.raises(ConfigurationError, match=r"plain.*readonly"):
        as_tool(source)


# Calls


async def test_a_synchronous_tool_runs_off_the_event_loop() -> None:
    def where() -> int:
        """Tell the thread."""
        return threading.get_ident()

    assert await as_tool(where).call({}) != threading.get_ident()


async def test_an_asynchronous_tool_is_awaited() -> None:
    assert await as_tool(shout).call({"text": "hey"}) == "HEY"


async def test_defaults_fill_in() -> None:
    assert await as_tool(add).call({"a": 2}) == 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "a: Field required"),
        ({"a": "many"}, "a: .*integer"),
        ({"a": -1}, "a: .*greater than or equal to 0"),
        ({"a": 1, "c": 2}, "unknown: c; the arguments are: a, b"),
        ({"a": None, "b": "x"}, "a: .*; b: "),
    ],
)
async def test_arguments_that_do_not_fit_are_explained(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(BadArguments, match=why):
        await as_tool(add).call(arguments)


async def test_an_unknown_argument_is_refused_for_a_langchain_tool_too() -> None:
    with pytest.raises(BadArguments, match="unknown: nmae; the arguments are: name"):
        await as_tool(StructuredTool.from_function(plain)).call({"name": "a", "nmae": "b"})


async def test_a_validation_error_inside_the_tool_is_the_tools_own() -> None:
    with pytest.raises(ValidationError, match="Point"):
        await as_tool(parse_a_point).call({"text": "{}"})


async def test_the_callers_arguments_are_left_alone() -> None:
    arguments = {"a": 1}
    await as_tool(add).call(arguments)
    assert arguments == {"a": 1}


# Sets


def test_sets_tools_and_attributes_are_resolved_by_name() -> None:
    sets = ToolSets({"sums": [add], "greetings": [plain]})
    assert sets.names == ["greetings", "sums"]
    resolved = sets.resolve(["sums", plain, f"{__name__}:shout", shout_as_langchain()])
    assert list(resolved) == ["add", "plain", "shout", "loud"]
    assert all(isinstance(bound, BoundTool) for bound in resolved.values())


def shout_as_langchain() -> StructuredTool:
    return StructuredTool.from_function(plain, name="loud")


def test_an_attribute_may_be_several_tools() -> None:
    assert list(ToolSets({}).resolve([f"{__name__}:PAIR"])) == ["add", "plain"]


def test_an_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(UnknownTool, match="«travle»; use one of: sums"):
        ToolSets({"sums": [add]}).resolve(["travle"])


@pytest.mark.parametrize("name", ["no_such_module:tool", f"{__name__}:no_such_tool"])
def test_an_attribute_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name.partition(":")[2]):
        ToolSets({}).resolve([name])


def test_two_tools_of_one_name_are_refused() -> None:
    def other(a: int) -> int:
        """Do something else."""
        return a

    other.__name__ = "add"
    with pytest.raises(ConfigurationError, match="Two tools are called add"):
        ToolSets({}).resolve([add, other])


def test_the_same_tool_twice_is_once() -> None:
    bound = as_tool(add)
    assert list(ToolSets({"sums": [bound]}).resolve(["sums", bound])) == ["add"]
    assert list(ToolSets({"sums": [add]}).resolve(["sums", "sums", add, bound])) == ["add"]
    assert list(ToolSets({}).resolve([shout, shout])) == ["shout"]


def test_the_sets_that_come_with_segue() -> None:
    assert BUILTIN.names == ["calculator", "clock", "travel"]
    assert list(BUILTIN.resolve(["travel", "calculator", "clock"])) == [
        *("search_cities", "query_attractions", "get_city_info", "calculate_budget", "generate_route"),
        *("calculate", "current_time"),
    ]
    assert list(BUILTIN.resolve([calculate])) == ["calculate"]
