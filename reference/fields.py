"""The fields of records and settings, with the docstrings below them."""

import ast
import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from segue.core.agents import Agent, Budget, McpServer, OAuth, Prices, RemoteAgent
from segue.core.audit import AuditSettings
from segue.core.call_rules import AllowRule
from segue.core.notifications import Receiver
from segue.core.schedules import ApprovalSettings, FileSchedule
from segue.core.spend import Quotas, SpendLimits
from segue.server.settings import ServerSettings

from .events import type_name
from .tables import code, table

_ALSO: dict[type, list[tuple[str, str, str, str]]] = {
    Agent: [("`prompt_file`", "`str`", "", "A file beside the agents file that holds the prompt.")]
}
"""Keys of the agents file that are no fields."""


def field_texts(kind: type) -> dict[str, str]:
    """The docstring below each field of a class."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            texts[field.target.id] = inspect.cleandoc(ast.literal_eval(text.value))
    return texts


def describe_fields(kind: type) -> str:
    own = [each for each in reversed(kind.__mro__) if each.__module__.startswith("segue.")]
    texts = {name: text for each in own for name, text in field_texts(each).items()}
    types = get_type_hints(kind)
    rows = [
        (code(name), code(type_name(types[name])), default, texts.get(name, "")) for name, default in _defaults(kind)
    ]
    return table(("key", "type", "default", "meaning"), [*rows, *_ALSO.get(kind, [])])


def _defaults(kind: Any) -> Iterable[tuple[str, str]]:
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield name, _default(field.get_default(call_default_factory=True))
    else:
        for each in dataclasses.fields(kind):
            yield each.name, _default(each.default)


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        return "see below"
    return "" if value in (None, "", (), {}) or value is dataclasses.MISSING else code(repr(value))


def describe_agent() -> str:
    return describe_fields(Agent)


def describe_budget() -> str:
    return describe_fields(Budget)


def describe_prices() -> str:
    return describe_fields(Prices)


def describe_mcp_server() -> str:
    return describe_fields(McpServer)


def describe_allow_rule() -> str:
    return describe_fields(AllowRule)


def describe_remote_agent() -> str:
    return describe_fields(RemoteAgent)


def describe_deadlines() -> str:
    return describe_fields(ApprovalSettings)


def describe_receiver() -> str:
    return describe_fields(Receiver)


def describe_oauth() -> str:
    return describe_fields(OAuth)


def describe_spend() -> str:
    return describe_fields(SpendLimits)


def describe_audit() -> str:
    return describe_fields(AuditSettings)


def describe_quotas() -> str:
    return describe_fields(Quotas)


def describe_schedule() -> str:
    return describe_fields(FileSchedule)


def describe_settings() -> str:
    return describe_fields(ServerSettings)
