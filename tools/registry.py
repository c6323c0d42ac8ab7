"""Tools: LangChain tools and plain typed functions, with the marks that the graphs go by, and named sets of them."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from segue.agents import load_attribute
from segue.errors import ConfigurationError, UnknownTool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

MARKS = "__segue_marks__"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Marks:
    """What a tool declares of itself.

    `read_only`: it changes nothing, so calls may run in parallel. `idempotent`: twice is the same as once, so it may be
    run again after a crash. `keywords`: words of any language that call for it. `timeout` in seconds.
    """

    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False
    timeout: float | None = None
    keywords: tuple[str, ...] = ()
    title: str = ""


class BadArguments(Exception):
    """The arguments do not fit the tool's schema; the message says which and how."""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    read_only: bool = ...,
    idempotent: bool = ...,
    needs_approval: bool = ...,
    timeout: float | None = ...,
    keywords: Iterable[str] = ...,
    title: str = ...,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, *, keywords: Iterable[str] = (), **marks: Any) -> Any:
    """Mark a typed function as a tool; without marks `@tool` may be left out altogether.

    The function's signature and docstring become the schema: `Annotated[int, Field(ge=1, description="…")]` is read,
    and `json_schema_extra={"keywords": [...]}` on a field names words that stand near its value.
    """

    def mark(target: Any) -> Any:
        setattr(target, MARKS, Marks(keywords=tuple(keywords), **marks))
        return target

    return mark if function is None else mark(function)


@dataclass(frozen=True)
class BoundTool:
    """A LangChain tool with its marks; `spec` is the OpenAI function format plus the key `segue`."""

    inner: "BaseTool"
    marks: Marks
    spec: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def read_only(self) -> bool:
        return self.marks.read_only

    @property
    def idempotent(self) -> bool:
        return self.marks.idempotent or self.marks.read_only

    @property
    def needs_approval(self) -> bool:
        return self.marks.needs_approval

    @property
    def timeout(self) -> float | None:
        return self.marks.timeout

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Run the tool; a synchronous one runs in a thread, off the event loop.

        Raises:
            BadArguments: the arguments do not fit the schema.
        """
        self._refuse_unknown(arguments)
        try:
            return await self.inner.ainvoke(dict(arguments))
        except ValidationError as error:
            if error.title != self._schema_title:
                raise
            raise BadArguments(_explain(error)) from error

    @property
    def _schema_title(self) -> str:
        return getattr(self.inner.tool_call_schema, "__name__", self.name)

    def _refuse_unknown(self, arguments: Mapping[str, Any]) -> None:
        """LangChain passes over arguments that a schema does not name; a model that invents one should hear of it."""
        schema = self.spec["function"]["parameters"]
        known = schema.get("properties", {})
        if schema.get("additionalProperties"):
            return
        if extra := [name for name in arguments if name not in known]:
            raise BadArguments(f"unknown: {', '.join(extra)}; the arguments are: {', '.join(known) or 'none'}")


def _explain(error: ValidationError) -> str:
    parts = [f"{'.'.join(str(p) for p in e['loc']) or 'arguments'}: {e['msg']}" for e in error.errors()]
    return "; ".join(parts)


def as_tool(source: Any) -> BoundTool:
    """Turn a LangChain tool or a typed function into a `BoundTool`.

    Raises:
        ConfigurationError: it is neither, or its signature has no usable types.
    """
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_core.utils.json_schema import dereference_refs

    if isinstance(source, BoundTool):
        return source
    if isinstance(source, BaseTool):
        marks = _marks_of_langchain(source)
        inner: BaseTool = source
    elif callable(source) and hasattr(source, "__name__"):
        marks = getattr(source, MARKS, Marks())
        given = {"coroutine": source} if inspect.iscoroutinefunction(source) else {"func": source}
        inner = StructuredTool.from_function(**given, name=source.__name__, args_schema=_arguments_model(source))
    else:
        raise ConfigurationError(f"{source!r} is no tool: pass a LangChain tool or a typed function.")
    spec = convert_to_openai_tool(inner)
    if isinstance(inner.args_schema, type) and issubclass(
        inner.args_schema, BaseModel
    ):  # LangChain's form leaves out examples and keywords
        spec["function"]["parameters"] = dereference_refs(inner.args_schema.model_json_schema())
    title = marks.title or inner.name
    segue = {"keywords": list(marks.keywords), "title": title, "read_only": marks.read_only}
    return BoundTool(inner=inner, marks=marks, spec={**spec, "segue": segue})


def _origin(bound: BoundTool) -> Any:
    """What a tool was made of: each `as_tool` of one function gives another LangChain tool."""
    made_of = getattr(bound.inner, "func", None) or getattr(bound.inner, "coroutine", None)
    return made_of or bound.inner


def _arguments_model(function: Callable[..., Any]) -> type[BaseModel]:
    """The function's parameters as a pydantic model, with everything that its annotations say."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigurationError(f"The function {function.__name__} cannot be a tool: give {name} a type.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints[name], default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _marks_of_langchain(source: "BaseTool") -> Marks:
    """A LangChain tool carries its marks in `metadata={"segue": {...}}`."""
    given = dict((source.metadata or {}).get("segue", {}))
    try:
        return Marks(**{**given, "keywords": tuple(given.get("keywords", ()))})
    except TypeError as error:
        raise ConfigurationError(f"The tool {source.name} has marks that Segue does not know: {error}.") from error


class ToolSets:
    """Named sets of tools, so that an agent in a TOML file can ask for `travel`."""

    def __init__(self, sets: Mapping[str, Iterable[Any]]) -> None:
        self._sets = {name: tuple(members) for name, members in sets.items()}

    @property
    def names(self) -> list[str]:
        return sorted(self._sets)

    def resolve(self, wanted: Iterable[Any]) -> dict[str, BoundTool]:
        """The tools of an agent by name.

        Raises:
            UnknownTool: a string is no set's or tool's name.
            ConfigurationError: two tools have one name.
        """
        found: dict[str, BoundTool] = {}
        for item in wanted:
            for source in self._members(item):
                bound = as_tool(source)
                if bound.name in found and _origin(found[bound.name]) != _origin(bound):
                    raise ConfigurationError(f"Two tools are called {bound.name}: rename one.")
                found[bound.name] = bound
        return found

    def _members(self, item: Any) -> tuple[Any, ...]:
        if not isinstance(item, str):
            return (item,)
        if item in self._sets:
            return self._sets[item]
        if ":" in item:
            loaded = load_attribute(item)
            return tuple(loaded) if isinstance(loaded, (list, tuple)) else (loaded,)
        raise UnknownTool(item, self.names)
