"""What a prompt has of the thread's history, and the schemas of tools."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from langchain_core.messages import AIMessage, AnyMessage

from segue.core.calls import Tool
from segue.core.json import NOISE, plain_schema
from segue.core.message import ATTACHMENTS
from segue.core.models import KEPT, Renderings, tokens
from segue.core.plan import Status
from segue.prompts.catalogue import phrase

from .context import REF, as_json, ref_of, truncate
from .permission import is_hidden
from .task import is_steering

# The messages that go into a prompt: whole exchanges, dropped in jumps so that the prompt's prefix stays the same.

Exchange = list[AnyMessage]
MOST_FILE_TOKENS = 4_000
"""What the files of one message count for at most: what does not fit into the prompt is only named there."""
_LEFT_OUT = "results_left_out"
_sizes: dict[int, dict[int, "_Size"]] = {}
"""By `result_chars` and a message's identity, for as long as the message is in memory: none is ever changed."""


class _Size(NamedTuple):
    """Tokens of a message and of its files."""

    text: int
    files: int
    message: ReferenceType[AnyMessage]


def shown_text(message: AnyMessage, result_chars: int) -> str:
    """What a message costs in a prompt: a tool's result is truncated there, what a model wants back is whole."""
    if message.type == "tool":
        return truncate(message.text, result_chars, ref_of(message))
    calls = as_json(message.tool_calls) if isinstance(message, AIMessage) and message.tool_calls else ""
    kept = message.additional_kwargs.get(KEPT)
    return message.text + calls + (as_json(kept) if kept else "")


def exchanges(messages: Sequence[AnyMessage]) -> list[Exchange]:
    """Messages that stay together: a call with all its results, anything else alone."""
    units: list[Exchange] = []
    for message in messages:
        if message.type == "tool" and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def kept_from(sizes: Sequence[int], most: int) -> int:
    """The place of the first unit that is kept; the last unit always is.

    Whenever the units kept so far outgrow `most`, the oldest go until half of it is left: units that are added later
    move the place seldom, and a prompt's prefix stays the same.
    """
    first = 0
    used = 0
    for place, size in enumerate(sizes):
        used += size
        if used > most:
            while first < place and used > most // 2:
                used -= sizes[first]
                first += 1
    return first


def split(
    messages: Sequence[AnyMessage], most_tokens: int, result_chars: int, *, files: bool = True
) -> tuple[list[Exchange], list[Exchange]]:
    """The exchanges that are left out and those that are kept; without `files` only texts count."""
    units, known = exchanges(messages), _sizes.setdefault(result_chars, {})
    measured = [known.get(id(each)) or _measured(each, result_chars, known) for each in messages]
    sizes = iter([size.text + size.files if files else size.text for size in measured])
    first = kept_from([sum(islice(sizes, len(unit))) for unit in units], most_tokens)
    return units[:first], units[first:]


def _measured(message: AnyMessage, result_chars: int, known: dict[int, _Size]) -> _Size:
    place, files = id(message), sum(form["tokens"] for form in message.additional_kwargs.get(ATTACHMENTS, ()))
    text = tokens(shown_text(message, result_chars))
    known[place] = size = _Size(text, min(files, MOST_FILE_TOKENS), ref(message, lambda _: known.pop(place, None)))
    return size


def latest(left_out: Sequence[Exchange], kept: Sequence[Exchange]) -> list[AnyMessage]:
    """What is kept, behind the user's message that it answers and what was added to it.

    Where results are left out, the first message is marked so.
    """
    shown = [message for unit in kept for message in unit]
    if shown and (shown[0].type != "human" or is_steering(shown[0])):
        shown = [*_asked(left_out), *shown]
    results = chain.from_iterable(unit for place, unit in enumerate(left_out) if len(unit) > 1 or place == 0)
    if shown and any(map(ref_of, results)):
        shown[0] = shown[0].model_copy(update={"additional_kwargs": {**shown[0].additional_kwargs, _LEFT_OUT: True}})
    return shown


def _asked(left_out: Sequence[Exchange]) -> list[AnyMessage]:
    """The latest user's message that began a task, and what was added to it."""
    asked: list[AnyMessage] = []
    for unit in reversed(left_out):
        if unit[0].type == "human":
            asked.insert(0, unit[0])
            if not is_steering(unit[0]):
                return asked
    return []


def window(messages: Sequence[AnyMessage], most_tokens: int, result_chars: int) -> list[AnyMessage]:
    """The latest exchanges that fit, behind the user's message that they answer."""
    return latest(*split(messages, most_tokens, result_chars))


def left_out_results(messages: Sequence[AnyMessage]) -> bool:
    """Whether results of earlier turns are left out of a window."""
    return any(message.additional_kwargs.get(_LEFT_OUT) for message in messages)


# Descriptions of tools in a prompt, and their schemas in a reply.

MOST_STEPS = 20
"""Steps that a model is asked for at most; a longer plan is accepted."""

_TEXT = {"type": "string"}


def described(tools: Mapping[str, Tool], language: str, renderings: Renderings | None = None) -> str:
    """One line a tool: name, parameters' schema, what it does."""
    return described_specs([tool.spec for tool in tools.values()], language, renderings)


def described_specs(specs: Sequence[Mapping[str, Any]], language: str, renderings: Renderings | None = None) -> str:
    """The same of specifications in OpenAI's format."""
    return "\n".join((renderings or Renderings()).each(_line, specs)) or phrase("no_tools", language)


def _line(spec: Mapping[str, Any]) -> str:
    function = spec["function"]
    parameters = function.get("parameters", {})
    shown = _plain(parameters).get("properties", {})
    required = parameters.get("required", [])
    about = " ".join(str(function.get("description", "")).split())
    return f"- `{function['name']}` {as_json(shown)} required: {as_json(required)}: {about}"


def _plain(schema: Any) -> Any:
    """A parameter's schema without titles and what only Segue reads."""
    return plain_schema(schema, (*NOISE, "title"))


def _object(properties: Mapping[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _call_schema(tool: Tool, refer: bool) -> dict[str, Any]:
    """The form of a call; what the parameters mean is said in the prompt."""
    arguments = plain_schema(tool.spec["function"]["parameters"], (*NOISE, "title", "description"))
    if refer:
        arguments = or_references(arguments)
    return _object({"function": _object({"name": {"const": tool.name}, "arguments": arguments})})


def _action(kind: str, output: Mapping[str, Any], planned: bool) -> dict[str, Any]:
    progress = {"step_id": _TEXT, "step_status_update": _UPDATES} if planned else {}
    return _object({"action_type": {"const": kind}, "output": output, **progress}, *progress)


def _planned(status: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's step, which may name the tool and the parameters of its call."""
    call = {"action": _TEXT, "params": {"type": "object"}}
    return _object({"step_id": _TEXT, "description": _TEXT, "status": status, **call}, *call)


_STATUS = {"enum": [status.value for status in Status]}
_UPDATES = {"type": "array", "items": _object({"step_id": _TEXT, "status": _STATUS})}
ACTIONS = ("CALL_TOOL", "PLAN", "REMEND", "ANSWER")


def envelope_schema(
    tools: Mapping[str, Tool], offered: Collection[str] = ACTIONS, planned: bool = True
) -> dict[str, Any]:
    """The JSON schema of a decision: one arm an action that is offered, one a tool.

    Without a plan there are no steps to name.
    """
    step = _planned({"enum": ["pending", "done"]})
    plan = {"type": "array", "items": step, "minItems": 1}
    outputs = {"ANSWER": [_object({"answer": _TEXT})], "PLAN": [_object({"plan": plan, "notes": _TEXT})]}
    if tools:
        refer = is_hidden(tools.values())
        arms = [_call_schema(tool, refer) for tool in tools.values()]
        calls = {"type": "array", "items": {"anyOf": arms}, "minItems": 1}
        outputs["CALL_TOOL"] = [_object({"tool_calls": calls})]
        outputs["REMEND"] = [
            _object({"diagnosis": _TEXT, "tool_calls": calls}),
            _object({"diagnosis": _TEXT, "plan": plan}),
        ]
    actions = [_action(kind, output, planned) for kind in offered for output in outputs.get(kind, ())]
    return _object({"observe": _TEXT, "thought": _TEXT, "action": _object({"result": {"anyOf": actions}})})


def plan_schema(tools: Mapping[str, Tool]) -> dict[str, Any]:
    """The JSON schema of a plan: one arm a tool, with its own parameters."""
    arms = [_step_schema(tool.name, _params_schema(tool)) for tool in tools.values()]
    arms.append(_step_schema("none", {"type": "object", "properties": {}, "additionalProperties": False}))
    steps = {"type": "array", "items": {"anyOf": arms}, "minItems": 1, "maxItems": MOST_STEPS}
    return _object({"goal": _TEXT, "steps": steps})


def _step_schema(action: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return _object(
        {
            "step": {"type": "integer"},
            "action": {"const": action},
            "params": params,
            "description": _TEXT,
            "phase": {"enum": ["planning", "execution", "generation"]},
            "depends_on": {"type": "array", "items": {"type": "integer"}},
        },
        "depends_on",
    )


def _params_schema(tool: Tool) -> Any:
    """The tool's parameters, each of which may refer to an earlier result instead."""
    return or_references(_plain(tool.spec["function"]["parameters"]))


def or_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of arguments, each of which may be a reference instead."""
    refer = _object({REF: _TEXT})
    either = {name: {"anyOf": [given, refer]} for name, given in schema.get("properties", {}).items()}
    return {**schema, "properties": either} if either else {**schema}


def specs_of(tools: Mapping[str, Tool]) -> list[Mapping[str, Any]]:
    """The tools as the native protocol binds them; where results are hidden, an argument may refer to one."""
    specs = [tool.spec for tool in tools.values()]
    return [*map(_with_references, specs)] if is_hidden(tools.values()) else specs


def _with_references(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    function = spec["function"]
    return {**spec, "function": {**function, "parameters": or_references(function.get("parameters", {}))}}


def _control_tool(name: str, about: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


_STEPS = {"type": "array", "items": _planned(_STATUS), "minItems": 1}
_CALLS = {"type": "array", "items": _object({"name": _TEXT, "arguments": {"type": "object"}})}

CONTROL_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "plan": _control_tool(
        "plan",
        "Before a task of several steps, list them; or rewrite them, all with their status: finished steps stay. Or "
        "only report progress with step_status_update. Call it alone.",
        _object(
            {"plan": _STEPS, "notes": _TEXT, "step_status_update": _UPDATES}, "plan", "notes", "step_status_update"
        ),
    ),
    "remend": _control_tool(
        "remend",
        "Repair a failed call: say what went wrong, and give the corrected calls or a new plan; step_id is the step "
        "that the calls work on. Call it alone.",
        _object(
            {"diagnosis": _TEXT, "tool_calls": _CALLS, "plan": _STEPS, "step_id": _TEXT},
            "tool_calls",
            "plan",
            "step_id",
        ),
    ),
}
"""What the native protocol offers beside the agent's tools, where it makes sense."""
