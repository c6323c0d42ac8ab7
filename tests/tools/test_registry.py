"""The registry: how sets of tools are resolved by name."""

import gc
import weakref
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from segue.core.errors import ConfigurationError, UnknownTool
from segue.tools.builtin import BUILTIN, calculate
from segue.tools.registry import BoundTool, ToolSets, as_tool, tool


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


def plain(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


PAIR = (add, plain)


class Desk:
    def book(self, room: int) -> int:
        """Book a room."""
        return room


def test_sets_tools_and_attributes_are_resolved_by_name() -> None:
    sets = ToolSets({"sums": [add], "greetings": [plain]})
    assert sets.names == ["greetings", "sums"]
    resolved = sets.resolve(["sums", plain, f"{__name__}:shout", StructuredTool.from_function(plain, name="loud")])
    assert list(resolved) == ["add", "plain", "shout", "loud"]
    assert all(isinstance(bound, BoundTool) for bound in resolved.values())


def test_an_attribute_may_be_several_tools() -> None:
    assert list(ToolSets({}).resolve([f"{__name__}:PAIR"])) == ["add", "plain"]


def test_an_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(UnknownTool, match="'travle'; use one of: sums"):
        ToolSets({"sums": [add]}).resolve(["travle"])


@pytest.mark.parametrize("name", ["no_such_module:tool", f"{__name__}:no_such_tool"])
def test_an_attribute_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name.partition(":")[2]):
        ToolSets({}).resolve([name])


def test_methods_of_two_objects_are_two_tools() -> None:
    one, two = Desk(), Desk()
    assert list(ToolSets({}).resolve([one.book, one.book])) == ["book"]
    with pytest.raises(ConfigurationError, match="Two tools are called book"):
        ToolSets({}).resolve([one.book, two.book])


@pytest.mark.parametrize("wanted", [["sums", "sums", add, as_tool(add)], [shout, shout], [as_tool(plain), plain]])
def test_the_same_tool_twice_is_once(wanted: list[Any]) -> None:
    assert len(ToolSets({"sums": [add]}).resolve(wanted)) == 1


def test_a_function_is_bound_once_and_anew_once_it_is_changed() -> None:
    def pay(amount: int = 1) -> str:
        """Pay."""
        return f"paid {amount}"

    bound = as_tool(pay)
    assert as_tool(pay) is bound
    tool(needs_approval=True)(pay)
    assert as_tool(pay) is not bound and as_tool(pay).marks.needs_approval
    pay.__doc__, pay.__defaults__, pay.__annotations__["amount"] = "Pay at once.", ("2",), str
    assert as_tool(pay).spec["function"]["description"] == "Pay at once."
    assert as_tool(pay).parameters["amount"] == {"type": "string", "title": "Amount", "default": "2"}


class Held:
    """What a closure holds."""


def showing(held: Held) -> Any:
    def show() -> str:
        """Show."""
        return repr(held)

    return show


def test_what_a_function_holds_goes_with_it() -> None:
    held = Held()
    gone = weakref.ref(held)
    as_tool(showing(held))
    del held
    gc.collect()
    assert gone() is None


def test_an_annotation_in_quotes_is_looked_up_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Amount", int)

    def pay(amount: "Amount") -> str:  # type: ignore[name-defined]  # noqa: F821
        """Pay."""
        return ""

    assert as_tool(pay).parameters["amount"]["type"] == "integer"
    monkeypatch.setitem(globals(), "Amount", str)
    assert as_tool(pay).parameters["amount"]["type"] == "string"


def test_a_set_that_is_a_function_is_made_when_it_is_asked_for() -> None:
    made: list[str] = []

    def members() -> list[Any]:
        made.append("once more")
        return [add]

    sets = ToolSets({"changing": members, "sums": [plain]})
    assert made == []
    assert list(sets.resolve(["changing"])) == ["add"]
    assert list(sets.resolve(["changing", "sums"])) == ["add", "plain"]
    assert len(made) == 2
    assert sets.may_change(["sums", "changing"])
    assert not sets.may_change(["sums", plain, "elsewhere:tool"])


def test_the_sets_that_come_with_segue() -> None:
    assert BUILTIN.names == ["calculator", "clock", "data", "spawn_subtask", "travel", "wait"]
    assert list(BUILTIN.resolve(["travel", "calculator", "clock"])) == [
        *("search_cities", "query_attractions", "get_city_info", "calculate_budget", "generate_route"),
        *("calculate", "current_time"),
    ]
    assert list(BUILTIN.resolve([calculate])) == ["calculate"]
