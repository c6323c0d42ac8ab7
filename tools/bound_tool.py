"""Tools as the graphs see them: a LangChain tool or a typed function, with the marks that the graphs go by."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic import ValidationError

from segue.core.errors import ConfigurationError, UnknownOption

from .calls.context import current_call
from .calls.threads import run_in_thread

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

MARKS = "__segue_marks__"
F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Gives the arguments as the tool takes them, or raises `BadArguments`."""


@dataclass(frozen=True)
class Marks:
    """What a tool declares of itself.

    `read_only`: it changes nothing, so calls may run in parallel. `idempotent`: twice is the same as once, so it may be
    run again after a crash. `keywords`: words of any language that call for it. `timeout` in seconds.
    `check`: determines whether an interrupted call took effect. `undo`: takes the effect of a call back.
    """

    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False
    timeout: float | None = None
    keywords: tuple[str, ...] = ()
    title: str = ""
    check: Callable[..., Any] | None = None
    undo: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigurationError(
                "A tool's timeout is {timeout}: give it seconds above zero, or None.", timeout=self.timeout
            )

    def shown(self, name: str) -> dict[str, Any]:
        """The `segue` key of a specification."""
        return {"keywords": list(self.keywords), "title": self.title or name, "read_only": self.read_only}


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
    check: Callable[..., Any] | None = ...,
    undo: Callable[..., Any] | None = ...,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, *, keywords: Iterable[str] = (), **marks: Any) -> Any:
    """Mark a typed function as a tool; without marks `@tool` may be left out altogether.

    The function's signature and docstring become the schema: `Annotated[int, Field(ge=1, description="…")]` is read,
    and `json_schema_extra={"keywords": [...]}` on a field names words that occur near its value. A method of an object
    carries no marks itself, so it comes back as a `functools.partial`. A LangChain tool can be marked too.

    `check` is called on resume for a call that was interrupted, with those of its arguments that it has parameters for
    and a `CallContext` where it declares one. It returns the call's result, `NOT_DONE` to have the call run, or None
    if it cannot tell; then, or if it raises, the outcome is unknown.

    `undo` takes back what a finished call did, when a person rewinds past it and asks for that. It gets arguments as
    `check` does; the call's result is the `result` of its `CallContext`. It is a call of its own, made at most once.
    """
    if unknown := sorted(marks.keys() - Marks.__annotations__.keys()):
        raise UnknownOption(unknown[0], Marks.__annotations__)
    given = Marks(keywords=words(keywords), **marks)

    def mark(target: Any) -> Any:
        marked = partial(target) if inspect.ismethod(target) or inspect.isbuiltin(target) else target
        setattr(marked, MARKS, given)
        return marked

    return mark if function is None else mark(function)


def words(keywords: Iterable[str]) -> tuple[str, ...]:
    """Keywords as a tuple; a lone string is one word and not its letters."""
    return (keywords,) if isinstance(keywords, str) else tuple(keywords)


class Marked:
    """What is known of a tool by its marks."""

    marks: Marks

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


@dataclass(frozen=True)
class BoundTool(Marked):
    """A LangChain tool with its marks; `spec` is the OpenAI function format plus the key `segue`.

    `origin` is what it was made of: each `as_tool` of one function gives another LangChain tool. `context_parameter`
    is the name of the parameter that gets the `CallContext`.
    """

    inner: "BaseTool"
    marks: Marks
    spec: Mapping[str, Any] = field(repr=False)
    check: Check = field(repr=False)
    synchronous: bool
    origin: Any = field(repr=False)
    effect_check: "BoundTool | None" = field(default=None, repr=False)
    undo: "BoundTool | None" = field(default=None, repr=False)
    context_parameter: str = ""

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The schemas of its parameters by name."""
        properties: Mapping[str, Any] = self.spec["function"]["parameters"].get("properties", {})
        return properties

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Run the tool; a synchronous one runs in a thread of its own.

        Raises:
            BadArguments: the arguments do not fit the schema; the tool did not run.
        """
        values = self.check(arguments)
        if self.context_parameter:
            values = {**values, self.context_parameter: current_call.get()}
        if not self.synchronous:
            return await self.inner.ainvoke(values)
        value = await run_in_thread(self.name, partial(self.inner.invoke, values))
        return await value if inspect.isawaitable(value) else value


def refuse_unknown(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """A model that invents an argument should hear of it.

    Raises:
        BadArguments: the JSON schema `parameters` does not name one of the arguments.
    """
    known = parameters.get("properties", {})
    if parameters.get("additionalProperties"):
        return
    if extra := [name for name in arguments if name not in known]:
        raise BadArguments(f"unknown: {', '.join(extra)}; the arguments are: {', '.join(known) or 'none'}")


def explained(error: ValidationError) -> str:
    """What does not fit, in a line."""
    parts = [f"{'.'.join(str(p) for p in e['loc']) or 'arguments'}: {e['msg']}" for e in error.errors()]
    return "; ".join(parts)
