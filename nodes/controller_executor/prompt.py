"""The controller's prompt: goal, plan, memory and the latest results, within the agent's budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.attachments import naming
from segue.core.flows import FlowConfig
from segue.core.json_schema import object_schema
from segue.core.models import ModelRequest
from segue.core.prompt_size import tokens
from segue.prompts.load import agent_prompt, render

from ..shared.attached_files import size_of
from ..shared.context import NodeContext
from ..shared.prompt_budget import as_json, truncate_result
from .branches import Branch, tools_of
from .state import FlowState

_TEXT = {"type": "string"}
LEAST_CHARS = 60
"""A description or a result is not made shorter than this."""


def request(config: FlowConfig, state: FlowState, work: NodeContext, branches: Mapping[str, Branch]) -> ModelRequest:
    """[0] the system prompt with the state, [1] the goal."""
    most = work.agent.budget.prompt_tokens
    bare = _system(config, state, work, branches, "", "")
    files = state.get("attachments", [])
    asked = tokens(state["objective"]) + size_of(files, work)
    room = max(most // 8, most - tokens(bare) - asked - _MARGIN)
    memory = newest_part(_memory(state), room // 2)
    shown = _state(config, state, work, room - tokens(memory))
    return ModelRequest(
        purpose="decide",
        messages=[
            SystemMessage(_system(config, state, work, branches, memory, shown)),
            HumanMessage(state["objective"], additional_kwargs=naming(files)),
        ],
        schema=decision_schema(branches),
        tools=[tool.spec for tool in tools_of(config, work).values()],
    )


_MARGIN = 20


def _memory(state: FlowState) -> str:
    """What was read of the memory files; where they cannot be read, the logs of this flow."""
    read = state["memory"] or "\n".join(f"- {record['summary']}" for record in state["records"])
    return "\n\n".join(part for part in (state["before"], read) if part)


def newest_part(text: str, most: int) -> str:
    """The end of a text, at most so many tokens of it, from the beginning of a line on."""
    lines = text.splitlines()
    used, first = 0, len(lines)
    while first and (used := used + tokens(lines[first - 1]) + 1) <= most:
        first -= 1
    return "\n".join(lines[first:])


def _state(config: FlowConfig, state: FlowState, work: NodeContext, room: int) -> str:
    """The live state as JSON: round, plan, results, and what is wrong."""
    fixed: dict[str, Any] = {"conversation": [], "round": state["round"], "max_round": config.max_round}
    wrong = {"problem": state["complaint"], "memory_error": state["memory_error"]}
    fixed |= {name: text[: room // 2] for name, text in wrong.items() if text}
    fixed["plan"] = _plan(state["steps"], room // 3)
    left = room - tokens(as_json(fixed))
    return as_json({**fixed, "results": _results(state["records"], work.agent.budget.result_chars, left)})


def _plan(steps: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """The steps, their descriptions shortened until all of them fit; what does not fit then is left out."""
    chars = 1_000
    while True:
        shown = [_step(step, chars) for step in steps]
        if chars <= LEAST_CHARS or tokens(as_json(shown)) <= most:
            break
        chars //= 2
    while shown and tokens(as_json(shown)) > most:
        shown.pop()
    return shown


def _step(step: Mapping[str, Any], chars: int) -> dict[str, Any]:
    names = ("step_id", "description", "status", "note", "action", "params")
    kept = {name: step[name] for name in names if step.get(name)}
    return {name: value[:chars] if isinstance(value, str) else value for name, value in kept.items()}


def _results(records: Sequence[Mapping[str, Any]], most_chars: int, most: int) -> list[dict[str, Any]]:
    """What the latest rounds came to, oldest first: as many as fit, the last one at any rate."""
    shown: list[dict[str, Any]] = []
    for record in reversed(records):
        chars = most_chars
        while True:
            entry = _entry(record, chars)
            fits = tokens(as_json([entry, *shown])) <= most
            if fits or shown or chars <= LEAST_CHARS:
                break
            chars //= 2
        if not fits:
            return shown
        shown.insert(0, entry)
    return shown


def _entry(record: Mapping[str, Any], chars: int) -> dict[str, Any]:
    arguments = record["arguments"]
    if len(text := as_json(arguments)) > chars:
        arguments = {"…": text[:chars]}
    about = {"round": record["round"], "name": record["branch"], "arguments": arguments}
    return {**about, "result": truncate_result(record["result"], chars)}


def _system(
    config: FlowConfig, state: FlowState, work: NodeContext, branches: Mapping[str, Branch], memory: str, shown: str
) -> str:
    language = state["language"]
    listed = "\n".join(_line(branch) for branch in branches.values())
    own = agent_prompt(work.agent, language, state["objective"], current_state=shown, tools=listed)
    return render("controller", language, agent_prompt=own, branches=listed, memory=memory, current_state=shown)


def _line(branch: Branch) -> str:
    properties = branch.parameters.get("properties", {})
    required = branch.parameters.get("required", [])
    return f"- `{branch.name}` {as_json(properties)} required: {as_json(required)}: {branch.description}"


def decision_schema(branches: Mapping[str, Branch]) -> dict[str, Any]:
    """The JSON schema of a decision: one arm a branch."""
    arms = [
        object_schema("command", "command_args", command={"const": b.name}, command_args={**b.parameters})
        for b in branches.values()
    ]
    return object_schema("thought", "step_id", "decision", thought=_TEXT, step_id=_TEXT, decision={"anyOf": arms})
