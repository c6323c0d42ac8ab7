"""Stand-ins: results of calls that were not recorded and do not run."""

import json
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Any, Literal

from langchain_core.messages import HumanMessage, SystemMessage

from ..core.calls import CallResult, Execution
from ..core.decision import read_object
from ..core.errors import ConfigurationError, UnreadableReply
from ..core.models import Model, ModelRequest
from ..nodes.shared.prompt_budget import as_json
from ..prompts.load import render
from ..rehearsal.cassette.cassette import ToolCall
from ..rehearsal.report.judge import ask_judge

Policy = Literal["stop", "recorded-shape", "model"]
"""What happens at a call that the recording cannot answer: the turn stops, or goes on with a stand-in."""
POLICIES: Sequence[Policy] = ("stop", "recorded-shape", "model")
EXAMPLES = 5
"""Recorded results of a tool that a model is shown."""
_REPLY = {"type": "object", "properties": {"result": {}}, "required": ["result"]}


def check_policy(name: str) -> None:
    """Refuse what is no policy.

    Raises:
        ConfigurationError.
    """
    if name not in POLICIES:
        raise ConfigurationError("effects cannot be {name}: set it to stop, recorded-shape or model.", name=repr(name))


def check_author(model: Model) -> None:
    """Refuse a model that cannot write a result.

    Raises:
        ConfigurationError: it is no language model.
    """
    if not model.is_language_model:
        raise ConfigurationError(
            "{name} cannot write stand-ins: name a language model with judge, or set effects to recorded-shape.",
            name=model.name,
        )


def nearest(calls: Sequence[ToolCall], arguments: Mapping[str, Any], most: int = 1) -> list[ToolCall]:
    """The recorded calls with the most of these arguments, best first."""
    return nlargest(most, calls, key=lambda call: sum(call.arguments.get(n) == v for n, v in arguments.items()))


async def written(model: Model, execution: Execution, recorded: Sequence[ToolCall], task_id: str) -> CallResult:
    """The result that a model writes for a call, in the form of the tool's recorded results.

    Raises:
        UnreadableReply: no attempt could be read.
        ModelError.
    """
    examples = [(call, (call.outcome or {})["success"]) for call in nearest(recorded, execution.arguments, EXAMPLES)]
    lines = [f"{call.text}\n→ {as_json(value)}" for call, value in examples]
    spec = dict(execution.tool.spec["function"]) if execution.tool else {"name": execution.name}
    system = render(
        "stand_in", execution.language, tool=json.dumps(spec, ensure_ascii=False), calls="\n".join(lines) or "-"
    )
    call = ToolCall(name=execution.name, arguments=dict(execution.arguments), at=0.0)
    request = ModelRequest(purpose="converse", messages=[SystemMessage(system), HumanMessage(call.text)], schema=_REPLY)
    value = await ask_judge(model, request, _read, task_id, execution.language)
    is_text = bool(examples) and all(isinstance(each, str) for _, each in examples)
    return CallResult.done(as_json(value) if is_text and not isinstance(value, str) else value)


def _read(text: str) -> Any:
    """The result in a reply.

    Raises:
        UnreadableReply.
    """
    form = read_object(text)
    if "result" not in form:
        raise UnreadableReply("There is no `result`.")
    return form["result"]
