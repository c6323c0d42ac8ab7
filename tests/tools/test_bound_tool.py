"""What a function or a LangChain tool becomes, and which calls are refused."""

import asyncio
import dataclasses
import enum
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, Tool
from langchain_core.tools import tool as langchain_tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from pydantic import BaseModel, Field, ValidationError, create_model, field_validator

from segue.core.errors import ConfigurationError
from segue.core.json import plain_specs
from segue.tools.bound_tool import fit_arguments
from segue.tools.registry import BadArguments, BoundTool, Marks, as_tool, tool
from tests.cases import cases

LATER = "Undefined"


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
    next: "Point | None" = None


def parse_a_point(text: str) -> int:
    """Fail inside the tool with a validation error of its own."""
    return Point.model_validate_json(text).x


def properties(bound: BoundTool) -> dict[str, Any]:
    found: dict[str, Any] = bound.spec["function"]["parameters"]["properties"]
    return found


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


@pytest.mark.parametrize(
    ("given", "marks"),
    [
        ({}, Marks(read_only=False, idempotent=False)),
        ({"idempotent": True}, Marks(read_only=False, idempotent=True)),
        ({"keywords": "weather"}, Marks(keywords=("weather",))),
    ],
)
def test_what_is_not_marked_is_taken_to_have_effects(given: dict[str, Any], marks: Marks) -> None:
    def double(n: int) -> int:
        return 2 * n

    marked = tool(**given)(double)
    assert (as_tool(marked).marks, marked(2)) == (marks, 4)
    assert as_tool(marked).read_only is False


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_of_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="above zero"):
        tool(timeout=seconds)


def test_without_a_docstring_the_title_or_the_name_describes_it() -> None:
    def bare(n: int) -> None: ...

    assert as_tool(bare).spec["function"]["description"] == "bare"
    assert as_tool(tool(title="Bare hands")(bare)).spec["function"]["description"] == "Bare hands"


# Signatures


@cases("source", [3, None, object(), Point, "calculator"])
def test_what_is_no_tool_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a tool"):
        as_tool(source)


class Opaque:
    pass


def untyped(a, b: int = 0) -> None: ...  # type: ignore[no-untyped-def]


def variadic(*numbers: int) -> None: ...


def open_ended(**extra: int) -> None: ...


def with_a_callable(n: int, then: Callable[[int], int]) -> None: ...


def with_an_object(n: int, what: Opaque) -> None: ...


def with_a_missing_type(n: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def with_state(n: int, state: Annotated[dict[str, Any], InjectedState]) -> None: ...


def with_runtime(n: int, runtime: ToolRuntime) -> None: ...


def yielding(n: int) -> Iterator[int]:
    yield n


async def yielding_later(n: int) -> AsyncIterator[int]:
    yield n


class Nameless:
    def __call__(self, n: int) -> int:
        return n


@cases(
    "source, why",
    [
        (untyped, r"untyped.*give a a type"),
        (variadic, r"variadic.*name each of its \*numbers"),
        (open_ended, r"open_ended.*name each of its \*\*extra"),
        (with_a_callable, r"with_a_callable.*the type of then cannot"),
        (with_an_object, r"with_an_object.*the type of what cannot"),
        (with_a_missing_type, r"with_a_missing_type.*NoSuchType"),
        (with_state, r"with_state.*does not inject state"),
        (with_runtime, r"with_runtime.*does not inject runtime"),
        (yielding, r"yielding.*return a list"),
        (yielding_later, r"yielding_later.*return a list"),
        (Nameless(), r"set its __name__"),
        (lambda: 1, r"set its __name__"),
        (max, r"max.*cannot be read"),
        (len, r"len.*give obj a type"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why(source: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        as_tool(source)


def test_a_type_only_known_to_checkers_may_be_returned() -> None:
    def look(n: int) -> "NoSuchType":  # type: ignore[name-defined]  # noqa: F821
        return n

    assert list(properties(as_tool(look))) == ["n"]


async def test_parameters_may_have_any_name() -> None:
    def odd(schema: int, copy: str, json: bool, model_config: int, self: str, config: str, _x: int = 3) -> list[Any]:
        return [schema, copy, json, model_config, self, config, _x]

    async def odd_too(run_manager: int, callbacks: int, args: int, kwargs: int, type: str) -> list[Any]:
        return [run_manager, callbacks, args, kwargs, type]

    given = {"schema": 1, "copy": "c", "json": True, "model_config": 2, "self": "s", "config": "f"}
    bound = as_tool(odd)
    assert list(properties(bound)) == [*given, "_x"]
    assert await bound.call(given) == [1, "c", True, 2, "s", "f", 3]
    assert await as_tool(odd_too).call({"run_manager": 1, "callbacks": 2, "args": 3, "kwargs": 4, "type": "t"}) == [
        1,
        2,
        3,
        4,
        "t",
    ]
    with pytest.raises(BadArguments, match=r"schema: .*integer"):
        await bound.call({**given, "schema": "x"})


async def test_values_arrive_as_the_types_say() -> None:
    def see(day: date, kind: Literal["a", "b"], point: Point, tags: set[int]) -> list[Any]:
        return [day, kind, point, tags]

    given = {"day": "2026-05-01", "kind": "a", "point": {"x": 1, "next": {"x": 2}}, "tags": [1, 1]}
    assert await as_tool(see).call(given) == [date(2026, 5, 1), "a", Point(x=1, next=Point(x=2)), {1}]
    assert "$" not in str(as_tool(see).spec)


async def test_a_default_that_json_cannot_hold_reaches_the_function_as_it_is() -> None:
    missing = object()

    def look(n: int = 0, after: Any = missing, limit: int = Field(7, le=9)) -> list[Any]:
        return [n, after is missing, limit]

    bound = as_tool(look)
    assert "default" not in properties(bound)["after"]
    assert await bound.call({}) == [0, True, 7]
    with pytest.raises(BadArguments, match="limit"):
        await bound.call({"limit": 10})


async def test_positional_only_parameters_are_passed_by_place() -> None:
    def take(a: int, b: int = 2, /, c: int = 3) -> list[int]:
        return [a, b, c]

    assert await as_tool(take).call({"a": 1, "c": 5}) == [1, 2, 5]


# Other callables


class Desk:
    """An office."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = "ask_the_desk"

    @tool(needs_approval=True)
    def book(self, room: int) -> str:
        """Book a room."""
        return f"{self.name} {room}"

    async def __call__(self, question: str) -> str:
        """Ask the desk."""
        return f"{self.name}: {question}?"

    @staticmethod
    def rooms() -> int:
        return 3


async def test_a_method_of_an_object() -> None:
    desk = Desk("A")
    bound = as_tool(desk.book)
    assert (bound.name, bound.needs_approval, list(properties(bound))) == ("book", True, ["room"])
    assert await bound.call({"room": 7}) == "A 7"
    marked = as_tool(tool(read_only=True)(desk.book))
    assert (marked.name, marked.read_only, await marked.call({"room": 8})) == ("book", True, "A 8")
    assert await as_tool(Desk.rooms).call({}) == 3


async def test_an_object_that_can_be_called_and_has_a_name() -> None:
    bound = as_tool(Desk("A"))
    assert (bound.name, bound.spec["function"]["description"]) == ("ask_the_desk", "Ask the desk.")
    assert await bound.call({"question": "who"}) == "A: who?"


async def test_a_partial_keeps_the_marks_and_hides_what_it_fixes() -> None:
    @tool(needs_approval=True)
    def pay(amount: int, token: str, to: str = "me") -> list[Any]:
        """Pay."""
        return [amount, token, to]

    bound = as_tool(functools.partial(pay, token="s3cret"))
    assert (bound.name, bound.needs_approval, bound.spec["function"]["description"]) == ("pay", True, "Pay.")
    assert "s3cret" not in str(bound.spec)
    assert await bound.call({"amount": 1, "to": "you"}) == [1, "s3cret", "you"]
    with pytest.raises(BadArguments, match="unknown: token; the arguments are: amount, to"):
        await bound.call({"amount": 1, "token": "mine"})


async def test_what_a_decorator_wrapped_is_what_is_described() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    bound = as_tool(logged(shout))
    assert bound.needs_approval
    assert await bound.call({"text": "hey"}) == "HEY"


# What is injected


async def test_the_config_of_the_run_is_passed_and_not_shown() -> None:
    def thread(n: int, config: RunnableConfig) -> Any:
        return config["configurable"]["thread_id"], n

    async def thread_too(config: RunnableConfig | None = None) -> Any:
        return config and config["configurable"]["thread_id"]

    config: RunnableConfig = {"configurable": {"thread_id": "t7"}}
    assert list(properties(as_tool(thread))) == ["n"]
    with set_config_context(config) as context:
        loop = asyncio.get_running_loop()
        assert await loop.create_task(as_tool(thread).call({"n": 1}), context=context.copy()) == ("t7", 1)
        assert await loop.create_task(as_tool(thread_too).call({}), context=context.copy()) == "t7"


async def test_an_injected_parameter_with_a_default_is_not_shown() -> None:
    def search(query: str, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
        """Look something up."""
        return f"{user} {query}"

    for bound in (as_tool(search), as_tool(langchain_tool(search))):
        assert list(properties(bound)) == ["query"]
        assert await bound.call({"query": "x"}) == "nobody x"
        with pytest.raises(BadArguments, match="unknown: user"):
            await bound.call({"query": "x", "user": "root"})


@pytest.mark.parametrize("kind", [InjectedToolArg, InjectedState, InjectedToolCallId])
def test_a_langchain_tool_that_needs_an_injection_is_refused(kind: Any) -> None:
    def search(query: str, given: Annotated[str, kind]) -> str:
        """Look something up."""
        return query

    with pytest.raises(ConfigurationError, match=r"search .*does not inject given"):
        as_tool(langchain_tool(search))


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


def test_a_langchain_tool_can_be_marked_by_the_decorator() -> None:
    assert as_tool(tool(needs_approval=True)(StructuredTool.from_function(plain))).needs_approval


@pytest.mark.parametrize("marks", [{"readonly": True}, "read_only"])
def test_an_unknown_mark_of_a_langchain_tool_is_named(marks: Any) -> None:
    source = StructuredTool.from_function(plain, metadata={"segue": marks})
    with pytest.raises(ConfigurationError, match=r"The tool plain has marks that Segue does not know"):
        as_tool(source)


class Repeat(BaseTool):
    name: str = "repeat"
    description: str = ""

    def _run(self, text: str, times: int = 2) -> str:
        return f"{text * times} {threading.current_thread().name}"


class Wait(Repeat):
    name: str = "wait"

    async def _arun(self, text: str, times: int = 2) -> str:
        return text * times


class Strict(BaseModel):
    """Three letters."""

    code: str

    @field_validator("code")
    @classmethod
    def _three(cls, code: str) -> str:
        if len(code) != 3:
            raise ValueError("three letters")
        return code


async def test_a_tool_class_without_a_schema() -> None:
    bound = as_tool(Repeat())
    assert bound.spec["function"]["description"] == "repeat"
    assert await bound.call({"text": "ab"}) == "abab tool repeat"
    with pytest.raises(BadArguments, match=r"times: .*integer"):
        await bound.call({"text": "ab", "times": "x"})
    assert await as_tool(Wait()).call({"text": "ab"}) == "abab"


async def test_a_tool_of_one_text() -> None:
    bound = as_tool(Tool(name="echo", func=lambda text: text, description="Say it."))
    (only,) = properties(bound)
    assert await bound.call({only: "hey"}) == "hey"
    with pytest.raises(BadArguments, match=f"{only}: Field required"):
        await bound.call({})


async def test_a_tool_with_a_json_schema_is_checked_by_its_names() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    bound = as_tool(StructuredTool.from_function(lambda n: n, name="one", description="One.", args_schema=schema))
    assert await bound.call({"n": 1}) == 1
    with pytest.raises(BadArguments, match="n: Field required"):
        await bound.call({})
    with pytest.raises(BadArguments, match="unknown: m; the arguments are: n"):
        await bound.call({"n": 1, "m": 2})


async def test_the_validators_of_a_langchain_schema_hold() -> None:
    bound = as_tool(StructuredTool.from_function(lambda code: code, name="code", args_schema=Strict))
    assert await bound.call({"code": "abc"}) == "abc"
    with pytest.raises(BadArguments, match=r"code: .*three letters"):
        await bound.call({"code": "ab"})


def test_a_langchain_tool_with_a_parameter_called_schema_binds_without_a_warning() -> None:
    with pytest.warns(UserWarning, match="shadows an attribute"):
        shadowing = create_model("Arguments", schema=(str, ...))
    source = StructuredTool.from_function(lambda schema: schema, name="table", description="A.", args_schema=shadowing)
    assert list(properties(as_tool(source))) == ["schema"]


# Calls


@cases(
    "arguments, why",
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


async def test_a_validation_error_inside_the_tool_is_the_tools_own() -> None:
    def parse_the_name(n: int) -> int:
        """Fail on a model of the tool's own name."""
        return as_tool(add).check({"a": "x"})["a"] if n else Point.model_validate({"x": "y"}).x

    with pytest.raises(ValidationError, match="Point"):
        await as_tool(parse_a_point).call({"text": "{}"})
    with pytest.raises(ValidationError, match="Point"):
        await as_tool(parse_the_name).call({"n": 0})
    with pytest.raises(ValidationError, match="Point"):
        await as_tool(StructuredTool.from_function(parse_a_point)).call({"text": "{}"})


def tagged(
    tags: list[str], opts: dict[str, int] | None = None, note: str = "-", count: int = 1, more: str | list[str] = "m"
) -> list[Any]:
    """Tag things."""
    return [tags, opts, note, count, more]


@cases(
    "arguments, taken",
    [
        ({"tags": '["a", "b"]'}, [["a", "b"], None, "-", 1, "m"]),
        ({"tags": ["a"], "opts": '{"x": 1}', "count": "3"}, [["a"], {"x": 1}, "-", 3, "m"]),
        ({"tags": ["a"], "opts": None, "note": None, "count": None}, [["a"], None, "-", 1, "m"]),
        ({"tags": ["a"], "note": '["x"]', "more": '["x"]'}, [["a"], None, '["x"]', 1, '["x"]']),
    ],
)
async def test_arguments_in_a_near_type_are_taken_as_the_schema_wants_them(
    arguments: dict[str, Any], taken: list[Any]
) -> None:
    assert await as_tool(tagged).call(arguments) == taken
    assert await as_tool(StructuredTool.from_function(tagged)).call(arguments) == taken


class Stop(BaseModel):
    city: str
    sights: list[str] = []
    note: str = "-"


class Car(BaseModel):
    by: Literal["car"]
    seats: list[int] = []


class Train(BaseModel):
    by: Literal["train"]
    classes: list[int] = []


def travel(
    stops: list[Stop], way: Annotated[Car | Train, Field(discriminator="by")], prices: dict[str, list[int]], first: Stop
) -> Any:
    """Go there."""
    return [*(stop.model_dump() for stop in (*stops, first)), way.model_dump(), prices]


async def test_items_of_lists_and_fields_of_objects_are_put_into_the_types_of_the_schema_too() -> None:
    arguments = {
        "stops": ['{"city": "Rome", "sights": "[\\"Forum\\"]"}', {"city": "Bari", "note": None, "sights": '["port"]'}],
        "way": {"by": "train", "classes": "[1, 2]"},
        "prices": {"EUR": "[10, 20]"},
        "first": '{"city": "Lecce", "note": null}',
    }
    rome, bari = {"city": "Rome", "sights": ["Forum"]}, {"city": "Bari", "sights": ["port"]}
    assert await as_tool(travel).call(arguments) == [
        *({**stop, "note": "-"} for stop in (rome, bari)),
        {"city": "Lecce", "sights": [], "note": "-"},
        {"by": "train", "classes": [1, 2]},
        {"EUR": [10, 20]},
    ]


class Grade(enum.Enum):
    HIGH = "high"


class Person(BaseModel):
    name: str
    homes: list[Stop] = []
    boss: "Person | None" = None


@dataclasses.dataclass
class Size:
    width: int
    height: int = 2


def of_optional(amount: int | None = None, kind: Literal["a", "b"] = "a", grade: Grade = Grade.HIGH) -> Any:
    """Take what may be left out."""
    return [amount, kind, grade]


def of_models(person: Person, size: Size | None = None) -> Any:
    """Take models, one of which holds itself."""
    return [person.boss and person.boss.name, size]


def of_values(day: date, price: Decimal, key: UUID, pair: tuple[int, str], numbers: set[int], /, more: int = 1) -> Any:
    """Take what JSON has no type for."""
    return [day, price, key, pair, numbers, more]


def of_union(way: Annotated[Car | Train, Field(discriminator="by")]) -> Any:
    """Take one of several models."""
    return way


KEY = "12345678123456781234567812345678"


@cases(
    "function, arguments, taken",
    [
        (of_optional, {"amount": None, "grade": "high"}, [None, "a", Grade.HIGH]),
        (of_models, {"person": {"name": "n", "boss": {"name": "m"}}, "size": {"width": 1}}, ["m", Size(1)]),
        (of_values, {"day": "2024-01-02", "price": "1.10", "key": KEY, "pair": [1, "q"], "numbers": [1, 1]},
         [date(2024, 1, 2), Decimal("1.10"), UUID(KEY), (1, "q"), {1}, 1]),
        (of_union, {"way": {"by": "train", "classes": [1]}}, Train(by="train", classes=[1])),
    ],
)  # fmt: skip
async def test_a_signature_is_sent_as_a_schema_without_dangling_references(
    function: Callable[..., Any], arguments: dict[str, Any], taken: Any
) -> None:
    made = as_tool(function)
    sent = json.dumps(plain_specs([made.spec]))
    assert "#/$defs/" not in sent and "$ref" not in sent and "discriminator" not in sent
    assert made.inner.invoke(made.check(made.fit(arguments))) == taken


def of_many(*numbers: int) -> str:
    """Take any number."""
    return ""


def of_anything(value) -> str:  # type: ignore[no-untyped-def]
    """Take anything."""
    return ""


def of_pieces(number: int) -> Iterator[str]:
    """Give pieces."""
    yield ""


@cases("function", [of_many, of_anything, of_pieces])
def test_a_signature_that_has_no_schema_is_refused_with_a_sentence(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a tool"):
        as_tool(function)


REFERENCES = {"first": "stop", "odd": "loop", "lost": "none"}


def test_a_schema_from_elsewhere_may_refer_to_its_own_definitions() -> None:
    stop = {"type": "object", "properties": {"tags": {"type": "array"}, "next": {"$ref": "#/$defs/stop"}}}
    properties = {name: {"$ref": f"#/$defs/{target}"} for name, target in REFERENCES.items()}
    schema = {"properties": properties, "$defs": {"stop": stop, "loop": {"$ref": "#/$defs/loop"}}}
    given = {"first": {"tags": "[1]", "next": '{"tags": "[2]"}'}, "odd": "[3]", "lost": "[4]"}
    assert fit_arguments(schema, given) == {**given, "first": {"tags": [1], "next": {"tags": [2]}}}


@cases("arguments", [{"tags": "a, b"}, {"tags": None}, {"tags": '{"a": 1}'}, {"tags": "[NaN"}])
async def test_arguments_in_no_near_type_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadArguments, match="tags"):
        await as_tool(tagged).call(arguments)


async def test_the_callers_arguments_are_left_alone() -> None:
    def spoil(values: dict[str, Any]) -> None:
        values.clear()

    arguments: dict[str, Any] = {"values": {"a": [1]}}
    await as_tool(spoil).call(arguments)
    assert arguments == {"values": {"a": [1]}}


def test_a_mark_that_is_misspelt_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no option 'readonly'; use one of: read_only"):
        tool(readonly=True)  # type: ignore[call-overload]
