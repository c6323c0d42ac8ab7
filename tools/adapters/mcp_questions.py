"""What an MCP server asks in the middle of a call: a question of the task, which a person answers later, elsewhere."""

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from langgraph.errors import GraphInterrupt
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, ErrorData

from segue.core.calls import FORM_SCHEMA, read_answer
from segue.prompts.catalogue import language_of, task_text

from ..bound_tool import fit_arguments
from .client import misfit

_YES, _NO = ("yes", "true", "accept", "是"), ("no", "false", "decline", "否")
_INVALID = -32602


class Asking:
    """The questions of one call; `ask` gives the answer to one, or interrupts the graph until there is one."""

    def __init__(self, server: str, ask: Callable[[Any], Any]) -> None:
        self._server = server
        self._ask = ask
        self.taken = 0
        """How many answers it took."""
        self.interrupted: GraphInterrupt | None = None
        """What interrupts the graph: the call is made again with the answer."""

    def take(self, question: Any = None) -> Any:
        """The next answer of the call, or the interrupt of the graph."""
        given = self._ask(question)
        self.taken += 1
        return given

    def answer(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """What the server is told: the person's answer, or that there is none yet, which ends the call."""
        if not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="decline")
        schema, problem = params.requested_schema, ""
        question = self._question(params)
        while True:
            try:
                given = read_answer(self.take({**question, "problem": problem} if problem else question))
            except GraphInterrupt as interrupted:
                self.interrupted = self.interrupted or interrupted
                return ErrorData(code=_INVALID, message="The question is put to a person.")
            if given.manual_finish:
                return ElicitResult(action="decline")
            content = _content(schema, given.text)
            if content is None:
                return ElicitResult(action="decline")
            if not (problem := misfit({"function": {"parameters": schema}}, content)):
                return ElicitResult(action="accept", content=content)

    def _question(self, params: ElicitRequestFormParams) -> dict[str, Any]:
        properties = _asked_for(params.requested_schema)
        asks = task_text("mcp_asks", language_of(params.message), server=self._server, question=params.message)
        choices = ["accept", "decline"]
        if len(properties) == 1:
            (only,) = properties.values()
            choices = ["yes", "no"] if only.get("type") == "boolean" else [str(each) for each in only.get("enum", ())]
        elif properties:
            choices = []
            form = json.dumps(params.requested_schema, ensure_ascii=False)
            asks = f"{asks}\n{task_text('mcp_asks_form', language_of(params.message), form=form)}"
        question = {"kind": "question", "question": asks, FORM_SCHEMA: params.requested_schema}
        return {**question, "choices": choices} if choices else question


current_asking: ContextVar[Asking] = ContextVar("current_asking")
"""That of the call that is running."""


def _asked_for(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that a text may fill in: the only one that is required, else all."""
    properties, required = schema.get("properties") or {}, [*(schema.get("required") or ())]
    return {required[0]: properties[required[0]]} if len(required) == 1 and required[0] in properties else properties


def _content(schema: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """The form that a text fills in, with the defaults of what it leaves out; None where it declines."""
    properties = schema.get("properties") or {}
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    try:
        given = json.loads(text)
    except ValueError:
        given = text
    if isinstance(given, Mapping):
        return {**defaults, **fit_arguments(schema, given)}
    asked_for = _asked_for(schema)
    if len(asked_for) != 1 and text.lower() in _YES and defaults.keys() >= {*(schema.get("required") or ())}:
        return defaults
    if not asked_for:
        return None
    if len(asked_for) > 1:
        return {**defaults, "": text}
    ((name, only),) = asked_for.items()
    match only.get("type"):
        case "boolean":
            said = text.lower()
            return {**defaults, name: True if said in _YES else False if said in _NO else text}
        case "string":
            return {**defaults, name: text}
    return {**defaults, name: given}
