"""The branches of a controller: tools, graphs, and the built-in ones; and the node context of a flow."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_type_hints

from langgraph.graph.state import CompiledStateGraph
from pydantic import PydanticUserError, TypeAdapter
from typing_extensions import is_typeddict

from segue.core.context import AppContext
from segue.core.errors import ConfigurationError
from segue.core.flows import BranchConfig, FlowConfig
from segue.core.json_schema import NOISE, object_schema, plain_schema
from segue.core.plan import Status
from segue.core.tools import Tool
from segue.prompts.catalogue import phrase
from segue.tools.builtin import BUILTIN

from ..shared.context import NodeContext, NodeRuntime, node_context
from ..shared.hidden_results import is_hidden
from ..shared.nested_services import nested_services
from ..shared.tool_schemas import or_references
from .state import FlowState

_TEXT = {"type": "string"}
_STEP = object_schema("step_id", "description", step_id=_TEXT, description=_TEXT)
_UPDATE = object_schema("step_id", "status", step_id=_TEXT, status={"enum": [status.value for status in Status]})
PARAMETERS: Mapping[str, dict[str, Any]] = {
    "ask_user": object_schema("question", question=_TEXT, choices={"type": "array", "items": _TEXT}),
    "re_plan": object_schema("plan", plan={"type": "array", "items": _STEP, "minItems": 1}, reason=_TEXT),
    "update_plan": object_schema("updates", updates={"type": "array", "items": _UPDATE, "minItems": 1}),
    "intermediate_answer": object_schema("answer", answer=_TEXT),
    "final_answer": object_schema("answer", answer=_TEXT),
    "finish": object_schema("summary", summary=_TEXT, result={}),
    "manual_finish": object_schema(),
}
_NODES = {"ask_user": "ASK_USER", "re_plan": "PLAN", "update_plan": "PLAN", "intermediate_answer": "ANSWER"}
_GOAL = object_schema("goal", goal=_TEXT)
Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class Branch:
    """A branch as the controller sees it; `node` is where it runs."""

    name: str
    kind: str
    node: str
    description: str
    parameters: Mapping[str, Any]
    needs_approval: bool = False


def branches_of(config: FlowConfig, work: NodeContext, language: str = "en") -> dict[str, Branch]:
    """Every branch by its name: tools first, then graphs, flows and agents, then the built-in ones.

    Raises:
        ConfigurationError: two have one name.
    """
    executor, tools = config.subflows_config.executor, tools_of(config, work)
    taken = {*executor.built_ins, *executor.branches}
    if twice := [name for name in tools if name in taken]:
        raise ConfigurationError(
            "The tool {tool} has the name of another branch of the flow {flow}: rename it, name the flow's "
            "`tools`, or leave the built-in branch out of its `built_ins`.",
            tool=twice[0],
            flow=config.name,
        )
    refer = is_hidden(tools.values())
    found = [_of_tool(tool, refer) for tool in tools.values()]
    found += [_of_graph(name, branch) for name, branch in executor.branches.items()]
    found += [_built_in(name, language) for name in executor.built_ins]
    return {branch.name: branch for branch in found}


def tools_of(config: FlowConfig, work: NodeContext) -> Mapping[str, Tool]:
    """The tools that are branches."""
    given = config.subflows_config.executor.tools
    if given is None:
        return work.tools
    named = {name: work.tools[name] for name in given if isinstance(name, str) and name in work.tools}
    return {**named, **_resolved(tuple(tool for tool in given if not (isinstance(tool, str) and tool in named)))}


@cache
def _resolved(given: tuple[Any, ...]) -> Mapping[str, Tool]:
    return BUILTIN.resolve(given)


def _of_tool(tool: Tool, refer: bool) -> Branch:
    """The branch of a tool; `refer`: its arguments may be references to results."""
    function = tool.spec["function"]
    about = " ".join(str(function.get("description", "")).split())
    schema = plain_schema(function["parameters"], (*NOISE, "title"))
    parameters = or_references(schema) if refer else schema
    return Branch(tool.name, "tool", "EXECUTOR", about, parameters, tool.needs_approval)


def _of_graph(name: str, branch: BranchConfig) -> Branch:
    kind = "agent" if branch.agent else "flow" if branch.flow else "graph"
    described = branch.description or (branch.flow.description if isinstance(branch.flow, FlowConfig) else "")
    return Branch(name, kind, name, described, branch.parameters or _GOAL)


def input_names(graph: Graph) -> Collection[str]:
    """The fields of a graph's input."""
    return graph.builder.schemas[graph.builder.input_schema]


def parameters_of(name: str, graph: Graph) -> dict[str, Any]:
    """The JSON schema of what a branch's graph is given: a goal where it takes messages, else what its input declares.

    Raises:
        ConfigurationError: the input has no such schema.
    """
    if {"messages", "goal"} & {*input_names(graph)}:
        return _GOAL
    try:
        schema: dict[str, Any] = plain_schema(_input_schema(graph.builder.input_schema, graph), (*NOISE, "title"))
        return schema
    except (PydanticUserError, NameError) as error:
        raise ConfigurationError(
            "The input of the graph of the branch '{name}' has no JSON schema ({error}): give the branch `parameters`.",
            name=name,
            error=str(error).partition("\n")[0],
        ) from error


def _input_schema(kind: type, graph: Graph) -> dict[str, Any]:
    """The schema of the input; of a `typing.TypedDict` too, which pydantic does not take before Python 3.12."""
    if not is_typeddict(kind):
        return graph.get_input_jsonschema()
    hints, required = get_type_hints(kind, include_extras=True), getattr(kind, "__required_keys__", ())
    fields = {name: _field_schema(hint) for name, hint in hints.items()}
    return object_schema(*(name for name in fields if name in required), **fields)


def _field_schema(hint: Any) -> dict[str, Any]:
    """The schema of a field; anything where its type has none."""
    try:
        return TypeAdapter(hint).json_schema()
    except PydanticUserError:
        return {}


def _built_in(name: str, language: str) -> Branch:
    return Branch(name, "built_in", _NODES.get(name, ""), phrase(f"branch_{name}", language), PARAMETERS[name])


def flow_context(runtime: NodeRuntime, config: FlowConfig) -> NodeContext:
    """What a node works with: the agent is the controller's."""
    work, name = node_context(runtime), config.subflows_config.controller.agent
    return replace(work, agent=work.services.agent(name)) if name else work


def branch_context(state: FlowState, work: NodeContext, agent_id: str) -> AppContext:
    """The context of a branch's graph: its events name the round that it belongs to."""
    agent = work.services.agent(agent_id or work.agent.agent_id)
    read = [state["memory"]] if state.get("memory") else []
    services = nested_services(work.services, work.services.ledger, parent_id=state["trace_id"], read=read)
    own = {"agent": agent.agent_id, "model": "" if agent_id and agent.model is not None else work.context.model}
    return AppContext.carrying(services, **{**work.context.model_dump(), **own})


def ids_of(state: FlowState) -> dict[str, Any]:
    """What every event of this round carries."""
    return {"task_id": state["task_id"], "trace_id": state["trace_id"], "iteration": state["round"]}
