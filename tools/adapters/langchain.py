"""LangChain tools as the graphs see them: their own schema, less what is injected."""

import inspect
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_core.tools.base import _is_injected_arg_type, get_all_basemodel_annotations
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError

from segue.core.errors import ConfigurationError

from ..bound_tool import MARKS, BadArguments, BoundTool, CallContext, Marks, explained, refuse_unknown, words
from .functions import bind_companion, refused_injection


def bind_langchain_tool(source: BaseTool) -> BoundTool:
    """Take a LangChain tool as it is; its marks are those of `tool` or `metadata={"segue": {...}}`.

    Raises:
        ConfigurationError: its marks are unknown, its schema has no JSON form, or it needs something injected.
    """
    marks = _marks_of(source)
    try:
        with warnings.catch_warnings():  # LangChain copies the model, and pydantic warns of a field called `schema`
            warnings.filterwarnings("ignore", 'Field name "', UserWarning)
            model = _model_of(source)
            injected = _context_parameter(source)
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
        synchronous=_is_synchronous(source),
        origin=getattr(source, "func", None) or getattr(source, "coroutine", None) or source,
        effect_check=bind_companion("check", marks.check, source.name, parameters),
        undo=bind_companion("undo", marks.undo, source.name, parameters),
        context_parameter=injected,
    )


def _marks_of(source: BaseTool) -> Marks:
    if isinstance(marked := getattr(source, MARKS, None), Marks):
        return marked
    given = (source.metadata or {}).get("segue", {})
    try:
        return Marks(**{**given, "keywords": words(given.get("keywords", ()))})
    except (TypeError, AttributeError) as error:
        raise ConfigurationError(
            "The tool {name} has marks that Segue does not know: {error}.", name=source.name, error=error
        ) from error


def _model_of(source: BaseTool) -> type[BaseModel] | None:
    """The pydantic model that reads the arguments, if there is one.

    Raises:
        ConfigurationError: it cannot do without something injected.
    """
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


def _context_parameter(source: BaseTool) -> str:
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


def _is_synchronous(source: BaseTool) -> bool:
    """Whether its coroutine would only be LangChain's way into the default executor."""
    kind = type(source)
    if isinstance(source, Tool | StructuredTool) and kind._arun in (Tool._arun, StructuredTool._arun):
        return source.coroutine is None
    return kind._arun is BaseTool._arun
