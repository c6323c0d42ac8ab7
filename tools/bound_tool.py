"""Tools as the graphs see them: a LangChain tool or a typed function, with the marks that the graphs go by."""

import asyncio
import contextvars
import inspect
import json
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_args, overload

from langchain_core.tools.base import _DirectlyInjectedToolArg
from pydantic import ValidationError

from segue.core.approval import ApprovalTerms
from segue.core.bounds import MOST_SECONDS
from segue.core.decision import check_storable
from segue.core.errors import ConfigurationError, UnknownOption
from segue.core.json import schema_kinds
from segue.core.provenance import Hiding, Policy, SourceKind
from segue.core.records import check_event
from segue.core.task import Moment, local_zone, moment_of, zone_named

T = TypeVar("T")

_lock = threading.Lock()
_left: dict[threading.Thread, str] = {}
_leavers: "weakref.WeakSet[asyncio.Task[Any]]" = weakref.WeakSet()


@dataclass(frozen=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


async def run_in_thread(name: str, function: Callable[[], T]) -> T:
    """Call the function in a thread that sees this task's context variables.

    Nothing can stop a thread: when the task is cancelled, it is left running and counts as `abandoned`.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_Ended[T]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        ended = _ended(context, function)
        with suppress(RuntimeError):  # the loop is closed, so nothing waits for it
            loop.call_soon_threadsafe(_deliver, waiting, ended)

    thread = threading.Thread(target=work, name=f"tool {name}", daemon=True)
    thread.start()
    try:
        ended = await waiting
    except asyncio.CancelledError:
        with _lock:
            _forget_ended()
            _left[thread] = name
        if task := asyncio.current_task():
            _leavers.add(task)
        raise
    if ended.error is not None:
        raise ended.error
    return ended.value  # type: ignore[return-value]


def abandoned() -> dict[str, int]:
    """How many abandoned threads still run, by name."""
    with _lock:
        _forget_ended()
        return dict(Counter(_left.values()))


def has_running_thread(task: "asyncio.Task[Any]") -> bool:
    """Whether the task was cancelled while it waited for a thread, which may have gone on."""
    return task in _leavers


def _ended(context: contextvars.Context, function: Callable[[], T]) -> _Ended[T]:
    try:
        return _Ended(value=context.run(function))
    except BaseException as error:  # noqa: BLE001 - nothing is handled here: the caller gets it
        return _Ended(error=error)


def runs_in_thread(frame: FrameType) -> bool:
    """Whether this is where a thread of `run_in_thread` calls its function."""
    return frame.f_code is _ended.__code__


def _deliver(waiting: "asyncio.Future[_Ended[T]]", ended: _Ended[T]) -> None:
    if not waiting.done():
        waiting.set_result(ended)


def _forget_ended() -> None:
    for thread in [thread for thread in _left if not thread.is_alive()]:
        del _left[thread]


_NAMESPACE = uuid.UUID("6f6b2f0e-6a55-5c0f-9d3e-2f5c0d1b7a41")


class _NotDone(Enum):
    NOT_DONE = "not done"


NOT_DONE: Final = _NotDone.NOT_DONE
"""What the `check` of a tool returns for a call that did not take effect: it is run."""


@dataclass(frozen=True, kw_only=True)
class CallContext(_DirectlyInjectedToolArg):
    """A tool call, as passed to a tool that declares a parameter of this type; models do not see the parameter.

    `idempotency_key` is the same after a crash, a resume and a fork, and on another worker. `attempt` is 2 where an
    earlier run of the call was interrupted, else 1. `step_id` and `trace_id` are empty where the call has none.
    `index` is its place among the calls that were decided together.
    `result` is what the call returned that an undo takes back. `abandoned` is set before a call is cancelled that is
    not made again: it took too long, or its task was cancelled.
    """

    idempotency_key: str
    tool: str
    session_id: str = ""
    task_id: str = ""
    step_id: str = ""
    trace_id: str = ""
    user_id: str = ""
    attempt: int = 1
    index: int = 0
    result: Any = None
    abandoned: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)


current_call: ContextVar[CallContext] = ContextVar("current_call")
"""The call that is running; set by the executor of tools."""


def idempotency_key(origin: str, name: str, arguments: Mapping[str, Any]) -> str:
    """A UUID for one call with these arguments; `origin` is fixed in the state before the call runs."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([origin, name, arguments], sort_keys=True)))


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
    `approve`: when a person is asked about a call; `needs_approval` is "always". `trusted`: its results are nobody
    else's words; `trusted_fields` are the fields of which that is true. `directory`: Segue itself reads it before it
    asks a person about a value. `content`: arguments that are only text, such as the body of a message. `secret`:
    values of its results go into no call of another tool without a question. `hidden`: the model sees a reference in
    place of its results, with "summary" also a summary. `approvers` are the roles that may approve its calls,
    `approvals` is how many different persons have to, and with `not_by_asker` none of them asked for the task.
    """

    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False
    timeout: float | None = None
    keywords: tuple[str, ...] = ()
    title: str = ""
    check: Callable[..., Any] | None = None
    undo: Callable[..., Any] | None = None
    approve: Policy | None = None
    trusted: bool = False
    trusted_fields: tuple[str, ...] = ()
    directory: bool = False
    content: tuple[str, ...] = ()
    secret: bool = False
    hidden: Hiding = False
    approvers: tuple[str, ...] = ()
    approvals: int | None = None
    not_by_asker: bool | None = None

    def __post_init__(self) -> None:
        if self.approve not in (None, *get_args(Policy)) or (self.needs_approval and self.approve == "never"):
            raise ConfigurationError(
                'A tool\'s approve is {approve}: use "always", "untrusted" or "never"; needs_approval is "always".',
                approve=repr(self.approve),
            )
        if self.hidden not in (False, True, "summary"):
            raise ConfigurationError(
                'A tool\'s hidden is {hidden}: use True, False or "summary".', hidden=repr(self.hidden)
            )
        if self.timeout is not None and not 0 < self.timeout <= MOST_SECONDS:
            raise ConfigurationError(
                "A tool's timeout is {timeout}: give it seconds above zero and up to {most}, or None.",
                timeout=self.timeout,
                most=f"{MOST_SECONDS:,.0f}",
            )

    @property
    def terms(self) -> ApprovalTerms:
        """Who may approve its calls."""
        return ApprovalTerms(self.approvers, 1 if self.approvals is None else self.approvals, bool(self.not_by_asker))

    def with_approval(self) -> "Marks":
        """These, where it says who approves its calls: they wait for an approval.

        Raises:
            ConfigurationError: it also says that they never do.
        """
        if self.approve == "never":
            raise ConfigurationError(
                'A tool whose approve is "never" needs no approval: leave out its approvers, approvals and '
                "not_by_asker."
            )
        return self if self.approve else replace(self, approve="always")

    def shown(self, name: str) -> dict[str, Any]:
        """The `segue` key of a specification."""
        shown = {"keywords": list(self.keywords), "title": self.title or name, "read_only": self.read_only}
        return {**shown, "needs_approval": True} if self.needs_approval else shown

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> "Marks":
        """Those that a specification has under `segue`."""
        given = spec.get("segue", {})
        known = {name: given[name] for name in cls.__annotations__ if name in given}
        return cls(**{**known, "keywords": words(given.get("keywords", ()))})


class UnknownOutcome(Exception):
    """Raised by a tool whose call may or may not have taken effect: it is not made again. The message says why."""


class Wait(Exception):
    """Raised by a tool whose result comes later: with an event of that name, at a moment, or at the first of both.

    The call counts as made, and the task waits in no process, for days if need be. `until` is a datetime, Unix seconds,
    `18:00`, ISO 8601, or a timedelta from now. The result is {"event": name, "data": …}, or {"until": …} once the time
    has come first.
    """

    def __init__(self, event: str = "", *, until: Moment | timedelta | None = None) -> None:
        if not event and until is None:
            raise ConfigurationError("A wait needs an event, a time (until), or both.")
        if event:
            check_event(event)
        super().__init__(event)
        self.event = event
        self.until = until

    def moment(self, now: float) -> float | None:
        """When it ends at the latest, in Unix seconds.

        Raises:
            InvalidMessage: `until` is no moment.
        """
        if self.until is None or isinstance(self.until, timedelta):
            return None if self.until is None else now + self.until.total_seconds()
        return moment_of(self.until, zone_named(local_zone()), now)


class LaterResult(Wait):
    """A wait after which the call runs again, with the `job` that it began."""

    def __init__(self, job: Mapping[str, Any], pause: timedelta) -> None:
        super().__init__(until=pause)
        self.job = job


@dataclass
class Job:
    """What a call began elsewhere: its result is fetched, also by another process, and the call is not made again.

    `state` finds it; it is empty before it began. `seconds` is how long the call may take. `store` keeps the state in
    the ledger; without a ledger a call cannot wait in no process.
    """

    state: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = MOST_SECONDS
    store: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None

    @property
    def can_wait(self) -> bool:
        return self.store is not None

    async def keep(self, state: Mapping[str, Any]) -> None:
        """Go on with this state, which is on the disk when this returns."""
        self.state = state
        if self.store:
            await self.store(state)


current_job: ContextVar[Job] = ContextVar("current_job")
"""That of the call that is running."""


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
    approve: Policy | None = ...,
    trusted: bool = ...,
    trusted_fields: Iterable[str] = ...,
    directory: bool = ...,
    content: Iterable[str] = ...,
    secret: bool = ...,
    hidden: Hiding = ...,
    approvers: Iterable[str] = ...,
    approvals: int = ...,
    not_by_asker: bool = ...,
    check: Callable[..., Any] | None = ...,
    undo: Callable[..., Any] | None = ...,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, *, keywords: Iterable[str] = (), content: Iterable[str] = (), **marks: Any) -> Any:
    """Mark a typed function as a tool; without marks `@tool` may be left out altogether.

    The function's signature and docstring become the schema: `Annotated[int, Field(ge=1, description="…")]` is read,
    and `json_schema_extra={"keywords": [...]}` on a field names words that occur near its value. A method of an object
    carries no marks itself, so it comes back as a `functools.partial`. A LangChain tool can be marked too.

    `check` is called on resume for a call that was interrupted, with those of its arguments that it has parameters for
    and a `CallContext` where it declares one. It returns the call's result, `NOT_DONE` to have the call run, or None
    if it cannot tell; then, or if it raises, the outcome is unknown.

    A tool with `approvers`, `approvals` or `not_by_asker` needs approval, unless `approve` says when it does.

    `undo` takes back what a finished call did, when a person rewinds past it and asks for that. It gets arguments as
    `check` does; the call's result is the `result` of its `CallContext`. It is a call of its own, made at most once.
    """
    if unknown := sorted(marks.keys() - Marks.__annotations__.keys()):
        raise UnknownOption(unknown[0], Marks.__annotations__)
    roles = words(marks.pop("approvers", ()))
    fields = words(marks.pop("trusted_fields", ()))
    given = Marks(keywords=words(keywords), content=words(content), approvers=roles, trusted_fields=fields, **marks)
    if given.terms != ApprovalTerms():
        given = given.with_approval()

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
        """Whether a person may have to approve its calls."""
        return self.approve != "never"

    @property
    def approve(self) -> Policy:
        """When a person is asked about its calls."""
        return "always" if self.marks.needs_approval else self.marks.approve or "never"

    @property
    def terms(self) -> ApprovalTerms:
        """Who may approve its calls."""
        return self.marks.terms

    @property
    def trusted(self) -> bool:
        """Whether its results are nobody else's words."""
        return self.marks.trusted

    @property
    def trusted_fields(self) -> Collection[str]:
        """The fields of its results that nobody else writes, such as an id or the time of arrival."""
        return self.marks.trusted_fields

    @property
    def directory(self) -> bool:
        """Whether Segue reads it before it asks a person about a value, such as an address book."""
        return self.marks.directory

    @property
    def content(self) -> Collection[str]:
        """The arguments that are only text."""
        return self.marks.content

    @property
    def secret(self) -> bool:
        """Whether a value of its results may only go into a call of another tool where a person says so."""
        return self.marks.secret

    @property
    def hidden(self) -> Hiding:
        """Whether the model sees a reference in place of its results, or a summary too."""
        return self.marks.hidden

    @property
    def source_kind(self) -> SourceKind:
        """What its results are as a source."""
        return "tool"

    @property
    def foreign_text(self) -> str:
        """Its description and schema where others write them; empty where they are the program's own."""
        return ""

    @property
    def timeout(self) -> float | None:
        return self.marks.timeout

    async def check_effect(self, arguments: Mapping[str, Any]) -> Any:
        """The result of an interrupted call, `NOT_DONE` where it may be made again, or None if nothing can tell."""
        return None


@dataclass(frozen=True)
class BoundTool(Marked):
    """A LangChain tool with its marks; `spec` is the OpenAI function format plus the key `segue`.

    `origin` is what it was made of: each `as_tool` of one method gives another LangChain tool. `context_parameter` is
    the name of the parameter that gets the `CallContext`.
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
        values = self.check(self.fit(arguments))
        if self.context_parameter:
            values = {**values, self.context_parameter: current_call.get()}
        if not self.synchronous:
            return await self.inner.ainvoke(values)
        value = await run_in_thread(self.name, partial(self.inner.invoke, values))
        return await value if inspect.isawaitable(value) else value

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the types of the schema, where what a model wrote is near to them."""
        return fit_arguments(self.spec["function"]["parameters"], arguments)

    async def check_effect(self, arguments: Mapping[str, Any]) -> Any:
        check = self.effect_check
        return await check.call(check.known(arguments)) if check else None

    def known(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Those of another tool's arguments that this one has parameters for."""
        return {name: value for name, value in arguments.items() if name in self.parameters}


def fit_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with lists and objects for the JSON texts of them, and without null where a default stands for it.

    So are the items of lists and the fields of objects. Only what the schema refuses is changed: a text stays where it
    takes one.
    """
    return _Fitting(schema).fields(schema, arguments)


class _Fitting:
    """Puts values into the types of a schema; a part of it may refer to the definitions of the whole."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole

    def fields(self, schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required, others = schema.get("required") or (), schema.get("additionalProperties")
        fitted: dict[str, Any] = {}
        for name, value in values.items():
            kinds = schema_kinds(self._target(properties.get(name)))
            if value is None and kinds and "null" not in kinds and name not in required:
                continue
            fitted[name] = self._value(value, properties.get(name, others))
        return fitted

    def _value(self, value: Any, given: Any) -> Any:
        schema = self._target(given)
        kinds = schema_kinds(schema)
        if isinstance(value, str) and "string" not in kinds and kinds & {"array", "object"}:
            value = _parsed(value, kinds)
        if isinstance(value, dict) and (part := self._part(schema, "object", value)):
            return self.fields(part, value)
        if isinstance(value, list) and (part := self._part(schema, "array", value)):
            places = part.get("prefixItems")
            first = places if isinstance(places, list) else []
            return [
                self._value(item, first[place] if place < len(first) else part.get("items"))
                for place, item in enumerate(value)
            ]
        return value

    def _part(self, schema: Mapping[str, Any], kind: str, value: Any) -> Mapping[str, Any]:
        """The only alternative of a schema that takes a value of this kind; empty if there are several."""
        alternatives = [self._target(part) for part in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ()))]
        taking = [part for part in alternatives or [schema] if kind in schema_kinds(part) or part.get("properties")]
        if kind == "object" and len(taking) > 1:
            taking = [part for part in taking if _has_its_constants(part, value)]
        return taking[0] if len(taking) == 1 else {}

    def _target(self, schema: Any) -> Mapping[str, Any]:
        """What a schema refers to within the whole, or the schema itself."""
        for _ in range(_MOST_REFERENCES):
            reference = schema.get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            schema = self._whole
            for key in reference[2:].split("/"):
                schema = schema.get(key) if isinstance(schema, Mapping) else None
        return schema if isinstance(schema, Mapping) else {}


_MOST_REFERENCES = 10


def _parsed(text: str, kinds: Collection[str]) -> Any:
    """The list or object that a text is the JSON of, where it is of one of these types; else the text."""
    try:
        inner = json.loads(text)
        check_storable(inner)
    except (ValueError, RecursionError):
        return text
    kind = "array" if isinstance(inner, list) else "object" if isinstance(inner, dict) else ""
    return inner if kind in kinds else text


def _has_its_constants(schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether a value has what an alternative of a union prescribes, such as its kind."""
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, Mapping) else ()
    fixed = {name: field["const"] for name, field in fields if isinstance(field, Mapping) and "const" in field}
    return all(value.get(name) == constant for name, constant in fixed.items())


def refuse_unknown(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """A model that invents an argument gets an error.

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
