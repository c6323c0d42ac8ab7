"""Plain typed functions and LangChain tools as tools."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import FunctionType, SimpleNamespace
from typing import Annotated, Any, Literal, Self, TypeGuard, cast, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_core.tools.base import _is_injected_arg_type, get_all_basemodel_annotations
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from segue.core.errors import ConfigurationError
from segue.core.json import UnusableSchema, inlined

from ..bound_tool import MARKS, BadArguments, BoundTool, CallContext, Marks, explained, refuse_unknown, words

Function = Callable[..., Any]
UNMARKED = Marks()


class FunctionTool(BaseTool):
    """A plain function as LangChain runs and traces it; checking the arguments stays with us, whatever their names."""

    function: Annotated[Function, SkipValidation()] = Field(exclude=True)

    def _run(self, /, **values: Any) -> Any:
        return self.function(values)

    async def _arun(self, /, **values: Any) -> Any:
        return await self.function(values)


class _Schema(GenerateJsonSchema):
    """A default that JSON cannot hold is left out without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own form


@dataclass(frozen=True)
class CallSignature:
    """How a function is called.

    `model` reads the arguments that `schema` describes. `fields` maps each parameter to its field: a parameter may be
    called `schema` or `copy`, a field may not. `always` are passed though they are not given, `config` is what gets the
    RunnableConfig and `context` what gets the CallContext. `hidden` are the defaults that the schema does not show.
    """

    model: type[BaseModel]
    schema: dict[str, Any]
    fields: Mapping[str, str]
    always: frozenset[str]
    positional: tuple[str, ...]
    config: str
    context: str
    hidden: Mapping[str, Any]

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as Python values; what is left out falls to the function's own default."""
        try:
            model = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadArguments(explained(error)) from error
        given = model.model_fields_set
        return {
            name: getattr(model, place) for name, place in self.fields.items() if place in given or name in self.always
        }

    def call(self, function: Function, values: dict[str, Any]) -> Any:
        if self.config:
            values[self.config] = ensure_config()
        positional = [values.pop(name) for name in self.positional]
        return function(*positional, **values)


def bind_function(source: Function) -> BoundTool:
    """Make a tool of a function, a method of an object, a partial, or an object with `__call__` and `__name__`.

    A function that is no closure is bound once, until it is changed: for its agent, for that agent's version, and for
    each app of the process.
    """
    return _bound_once(_Parts.of(source)) if _stays_same(source) else _bind(source)


def _stays_same(source: Function) -> TypeGuard[FunctionType]:
    """Whether what its tool says depends on nothing but its parts, and keeping it keeps nothing else in memory.

    Annotations in quotes are looked up by name, and a closure holds what it was made with.
    """
    if not inspect.isfunction(source) or source.__closure__ is not None:
        return False
    return not any(isinstance(each, str) for each in source.__annotations__.values())


class _Parts:
    """A function and what its tool is made of; equal where each part is the same object."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    @classmethod
    def of(cls, source: FunctionType) -> Self:
        form = (source.__name__, source.__doc__, source.__code__, source.__defaults__)
        return cls(source, _function_marks(source), *form, *source.__annotations__.values())

    @property
    def source(self) -> Function:
        return cast(Function, self._parts[0])

    @property
    def _ids(self) -> tuple[int, ...]:
        return tuple(map(id, self._parts))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and self._ids == other._ids


def _bind(source: Function) -> BoundTool:
    name, marks = _name_of(source), _function_marks(source)
    root = _root(source)
    if inspect.isgeneratorfunction(root) or inspect.isasyncgenfunction(root):
        raise ConfigurationError("The function {name} cannot be a tool: it yields; return a list instead.", name=name)
    shape = _shape_of(name, source)
    parameters = shape.schema
    description = _description_of(source) or marks.title or name
    function = {"name": name, "description": description, "parameters": parameters}

    def check(arguments: Mapping[str, Any]) -> dict[str, Any]:
        refuse_unknown(parameters, arguments)
        return shape.read(arguments)

    return BoundTool(
        inner=FunctionTool(
            name=name, description=description, args_schema=parameters, function=partial(shape.call, source)
        ),
        marks=marks,
        spec={"type": "function", "function": function, "segue": _shown(marks, name, shape)},
        check=check,
        synchronous=not inspect.iscoroutinefunction(root),
        origin=source,
        effect_check=bind_companion("check", marks.check, name, parameters),
        undo=bind_companion("undo", marks.undo, name, parameters),
        context_parameter=shape.context,
    )


@lru_cache(maxsize=256)
def _bound_once(parts: _Parts) -> BoundTool:
    """As `_bind`, once for a function as it is."""
    return _bind(parts.source)


def _shown(marks: Marks, name: str, shape: CallSignature) -> dict[str, Any]:
    shown = marks.shown(name)
    return {**shown, "defaults": shape.hidden} if shape.hidden else shown


def bind_companion(
    kind: Literal["check", "undo"], function: Function | None, tool: str, parameters: Mapping[str, Any]
) -> BoundTool | None:
    """Bind the check or the undo of a tool with these parameters."""
    if function is None:
        return None
    named = partial(function)
    named.__name__ = f"{tool}_{kind}"  # type: ignore[attr-defined]  # a lambda's name is no identifier
    bound = bind_function(named)
    if extra := bound.parameters.keys() - parameters.get("properties", {}).keys():
        raise ConfigurationError(
            "The {kind} of the tool {tool} takes {parameter}, which is not a parameter of the tool.",
            kind=kind,
            tool=tool,
            parameter=min(extra),
        )
    return bound


def _unbound(source: Function) -> Function:
    """What a partial, or a partial of one, is of."""
    while isinstance(source, partial):
        source = source.func
    return source


def _root(source: Function) -> Function:
    """The function that holds the code."""
    target = _unbound(source)
    return target if inspect.isroutine(target) else target.__call__  # type: ignore[operator]  # an object


def _name_of(source: Function) -> str:
    name = getattr(source, "__name__", None) or getattr(_unbound(source), "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigurationError("{source} cannot be a tool: it has no name; set its __name__.", source=repr(source))
    return name


def _function_marks(source: Function) -> Marks:
    """The marks, also those under a partial: it must not lose an approval."""
    while not hasattr(source, MARKS) and isinstance(source, partial):
        source = source.func
    marks: Marks = getattr(source, MARKS, UNMARKED)
    return marks


def _description_of(source: Function) -> str:
    target = _unbound(source)
    return (
        inspect.getdoc(target if inspect.isroutine(target) else type(target).__call__) or inspect.getdoc(target) or ""
    )


def _shape_of(name: str, source: Function) -> CallSignature:
    shown: dict[str, tuple[Any, Any]] = {}
    always, positional, config, context = set(), [], "", ""
    for parameter, hint in _parameters(name, source):
        default = ... if parameter.default is parameter.empty else parameter.default
        if RunnableConfig in (hint, *get_args(hint)):
            config = parameter.name
        elif CallContext in (hint, *get_args(hint)):
            context = parameter.name
        elif _is_injected_arg_type(hint):
            if default is ...:
                raise refused_injection(name, parameter.name)
            continue
        else:
            shown[parameter.name] = (hint, default)
        if isinstance(default, FieldInfo) or parameter.kind is parameter.POSITIONAL_ONLY:
            always.add(parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
    fields = {parameter: f"value_{place}" for place, parameter in enumerate(shown)}
    model, schema = _model(name, shown, fields)
    hidden = {
        parameter: _json_of(default)
        for parameter, (_, default) in shown.items()
        if "default" not in schema["properties"][parameter] and _json_of(default) is not None
    }
    return CallSignature(model, schema, fields, frozenset(always), tuple(positional), config, context, hidden)


def _json_of(default: Any) -> Any:
    """A default as JSON; None where there is none, or no form that is the same in every process."""
    if default is ... or isinstance(default, FieldInfo):
        return None
    try:
        return to_jsonable_python(default)
    except ValueError:
        return None


def refused_injection(tool: str, parameter: str) -> ConfigurationError:
    """The error for a parameter that only LangGraph's ToolNode fills in."""
    return ConfigurationError(
        "The tool {tool} cannot be used: Segue does not inject {parameter}. Give it a default, fix it with "
        "functools.partial, or take a RunnableConfig instead.",
        tool=tool,
        parameter=parameter,
    )


def _parameters(name: str, source: Function) -> list[tuple[inspect.Parameter, Any]]:
    """Each parameter that is still open, with its type."""
    fixed: set[str] = set()  # the keywords of a partial are the program's, perhaps secret, and no model may set them
    function: Any = source
    while isinstance(function, partial):
        fixed |= set(function.keywords)
        function = function.func
    try:
        signature, hints = inspect.signature(source), _hints(source)
    except (NameError, SyntaxError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            "The function {name} cannot be a tool: its types cannot be read: {error}.", name=name, error=error
        ) from error
    found = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigurationError(
                "The function {name} cannot be a tool: name each of its {parameter}.", name=name, parameter=parameter
            )
        hint = hints.get(parameter.name, parameter.annotation)
        if parameter.name in fixed:
            continue
        if hint is parameter.empty:
            raise ConfigurationError(
                "The function {name} cannot be a tool: give {parameter} a type.", name=name, parameter=parameter.name
            )
        found.append((parameter, hint))
    return found


def _hints(source: Function) -> dict[str, Any]:
    """The parameters' types; what is returned may well be typed with a name that exists for type checkers only."""
    owner = inspect.unwrap(_root(source))
    owner = getattr(owner, "__func__", owner)
    types = {name: hint for name, hint in getattr(owner, "__annotations__", {}).items() if name != "return"}
    spaces = getattr(owner, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__=types), spaces, include_extras=True)


def _model(
    name: str, shown: Mapping[str, tuple[Any, Any]], fields: Mapping[str, str]
) -> tuple[type[BaseModel], dict[str, Any]]:
    """A model of the parameters, and its JSON schema."""
    definitions: dict[str, Any] = {
        fields[parameter]: (_annotated(parameter, hint), default) for parameter, (hint, default) in shown.items()
    }
    try:
        model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **definitions)
        schema = inlined(model.model_json_schema(schema_generator=_Schema))
        return model, {key: part for key, part in schema.items() if key != "$defs"}
    except (PydanticUserError, TypeError) as error:
        if len(shown) > 1:  # say which one it is
            for parameter, definition in shown.items():
                _model(name, {parameter: definition}, fields)
        raise ConfigurationError(
            "The function {name} cannot be a tool: the type of {parameters} cannot be expressed as JSON.",
            name=name,
            parameters=", ".join(shown),
        ) from error
    except UnusableSchema as error:
        raise ConfigurationError(
            "The tool {name} has a parameter that cannot be expressed as JSON: {error}.", name=name, error=error.reason
        ) from error


def _annotated(parameter: str, hint: Any) -> Any:
    """The type under its name in the schema; a bare text in `Annotated` is its description, as in LangChain."""
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    description = next((text for text in said if isinstance(text, str)), None)
    named = Annotated[hint, Field(alias=parameter)]
    return named if description is None else Annotated[named, Field(description=description)]


# LangChain tools as the graphs see them: their own schema, less what is injected.


def bind_langchain_tool(source: BaseTool) -> BoundTool:
    """Take a LangChain tool as it is; its marks are those of `tool` or `metadata={"segue": {...}}`."""
    marks = marks_of(source)
    try:
        with warnings.catch_warnings():  # LangChain copies the model, and pydantic warns of a field called `schema`
            warnings.filterwarnings("ignore", 'Field name "', UserWarning)
            model = _model_of(source)
            injected = context_parameter(source)
            spec = convert_to_openai_tool(source)
    except PydanticUserError as error:
        raise ConfigurationError(
            "The tool {name} has a parameter that cannot be expressed as JSON: {error}.", name=source.name, error=error
        ) from error
    function = spec["function"]
    parameters = function.setdefault("parameters", {"type": "object", "properties": {}})
    function["description"] = source.description or marks.title or source.name
    return BoundTool(
        inner=source,
        marks=marks,
        spec={**spec, "segue": marks.shown(source.name)},
        check=partial(_check, model, parameters, injected),
        synchronous=is_synchronous(source),
        origin=getattr(source, "func", None) or getattr(source, "coroutine", None) or source,
        effect_check=bind_companion("check", marks.check, source.name, parameters),
        undo=bind_companion("undo", marks.undo, source.name, parameters),
        context_parameter=injected,
    )


def marks_of(source: BaseTool) -> Marks:
    """The marks of a LangChain tool: its own, or those of the function that it was made of."""
    function = getattr(source, "func", None) or getattr(source, "coroutine", None)
    for marked in (source, function):
        if isinstance(marks := getattr(marked, MARKS, None), Marks):
            return marks
    given = (source.metadata or {}).get("segue", {})
    try:
        return Marks(**{**given, "keywords": words(given.get("keywords", ()))})
    except (TypeError, AttributeError) as error:
        raise ConfigurationError(
            "The tool {name} has marks that Segue does not know: {error}.", name=source.name, error=error
        ) from error


def _model_of(source: BaseTool) -> type[BaseModel] | None:
    """The pydantic model that reads the arguments, if there is one."""
    if source.args_schema is None and not isinstance(source, Tool):
        schema: Any = source.tool_call_schema
    else:
        schema = source.args_schema
    if not (inspect.isclass(schema) and issubclass(schema, BaseModel)):
        return None
    for name, hint in get_all_basemodel_annotations(schema).items():
        if _is_injected_arg_type(hint) and not _is_context(hint) and schema.model_fields[name].is_required():
            raise refused_injection(source.name, name)
    return schema


def bind_check(source: BaseTool, given: Function | None) -> BoundTool | None:
    """Bind the check of a LangChain tool: the given one, or that of its marks."""
    check = given or marks_of(source).check
    if check is None:
        return None
    parameters = convert_to_openai_tool(source)["function"].get("parameters", {})
    return bind_companion("check", check, source.name, parameters)


def defaults_of(source: BaseTool) -> dict[str, Any]:
    """What a LangChain tool takes for arguments that a call leaves out."""
    parameters = convert_to_openai_tool(source)["function"].get("parameters", {})
    properties = parameters.get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema}


def context_parameter(source: BaseTool) -> str:
    """The name of the parameter that gets the CallContext, if there is one."""
    schema = source.args_schema
    if not (inspect.isclass(schema) and issubclass(schema, BaseModel)):
        return ""
    return next((name for name, hint in get_all_basemodel_annotations(schema).items() if _is_context(hint)), "")


def _is_context(hint: Any) -> bool:
    return CallContext in (hint, *get_args(hint))


_NO_CALL = CallContext(idempotency_key="", tool="")


def _check(
    model: type[BaseModel] | None, parameters: Mapping[str, Any], injected: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments unchanged, as LangChain reads them again: so a refusal differs from an error in the tool."""
    refuse_unknown(parameters, arguments)
    if missing := [name for name in parameters.get("required", ()) if name not in arguments]:
        raise BadArguments("; ".join(f"{name}: Field required" for name in missing))
    if model is not None:
        try:
            model.model_validate({**arguments, injected: _NO_CALL} if injected else dict(arguments))
        except ValidationError as error:
            raise BadArguments(explained(error)) from error
    return dict(arguments)


def is_synchronous(source: BaseTool) -> bool:
    """Whether its coroutine would only be LangChain's way into the default executor."""
    kind = type(source)
    if isinstance(source, Tool | StructuredTool) and kind._arun in (Tool._arun, StructuredTool._arun):
        return source.coroutine is None
    return kind._arun is BaseTool._arun
