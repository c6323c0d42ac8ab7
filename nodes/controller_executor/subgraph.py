"""A branch that is a graph: an agent's, another flow, or one of the user's own."""

from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph

from segue.core.errors import ModelUnreachable, StorageError
from segue.core.events import BranchEnd
from segue.core.flows import BranchConfig, FlowConfig, early_exit
from segue.core.plan import Step
from segue.core.usage import add_usages
from segue.prompts.catalogue import phrase
from segue.prompts.errors import sentence_of
from segue.tools.calls.json_values import json_value

from ..shared.context import NodeRuntime, announce
from ..shared.plan_progress import end_steps, step_events
from ..shared.prompt_budget import as_text, truncate_result
from .branches import branch_context, flow_context, ids_of, input_names
from .hooks import exit_of
from .outcome import outcome_of
from .state import FlowNode, FlowState, FlowUpdate

BranchGraph = CompiledStateGraph[Any, Any, Any, Any]
_SHOWN = {"result", "summary", "status", "usage", "messages", "gave_up", "early_exit", "events"}
"""What streams show of the nodes of a graph of Segue's; `events` is never a part of the output."""


class Failed(Exception):
    """The branch could not be carried out; the message says why."""


def subgraph(name: str, branch: BranchConfig, graph: BranchGraph, config: FlowConfig) -> FlowNode:
    """The node of one branch over its graph."""
    kind = "agent" if branch.agent else "flow" if branch.flow else "graph"
    takes = input_names(graph)

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Run the graph; its result goes to the controller, its summary to the logs. A failure is the branch's own."""
        work, call = flow_context(runtime, config), state["call"] or {}
        arguments = call["arguments"]
        out: Mapping[str, Any] = {}
        try:
            given = _graph_input(takes, arguments, state, name)
            context = branch_context(state, work, branch.agent)
            out = await _invoke(graph, given, context, state["language"])
            result = _result(out)
        except Failed as why:
            result = {"error": str(why)}
        summary = (
            phrase("flow_branch", state["language"], branch=name, summary=out["summary"]) if "summary" in out else ""
        )
        outcome = outcome_of(name, kind, arguments, result, state, summary)
        bounded = truncate_result(result, work.agent.budget.result_chars)
        about = {"step_id": call["step_id"], **ids_of(state)}
        ended = BranchEnd(branch=name, kind=kind, result=bounded, summary=outcome["summary"], **about)
        old = tuple(Step(**step) for step in state["steps"])
        steps = end_steps(old, [{"step_id": call["step_id"], "name": name, "result": result}])
        return {
            "call": None,
            "steps": [step.model_dump(mode="json") for step in steps],
            "outcome": outcome,
            "usage": _added(state["usage"], out),
            "early_exit": _early_exit(out),
            "events": announce(ended, *step_events(old, steps, ids_of(state))),
        }

    return node


def _graph_input(takes: Collection[str], arguments: Mapping[str, Any], state: FlowState, name: str) -> dict[str, Any]:
    """The graph's input: the arguments, or their goal as a message; a graph of Segue's also gets the task's id."""
    given = {**arguments}
    if "messages" in takes and "messages" not in given:
        if not str(goal := given.pop("goal", "")).strip():
            raise Failed(phrase("branch_needs", state["language"], branch=name, argument="goal"))
        given["messages"] = [HumanMessage(str(goal))]
    if "assignment" in takes:
        given["assignment"] = {
            "task_id": state["task_id"],
            "language": state["language"],
            "started_at": state["started_at"],
            "branch": f"{state['branch']}.{name}",
        }
    return given


async def _invoke(graph: BranchGraph, given: dict[str, Any], context: Any, language: str) -> dict[str, Any]:
    """What the graph returns.

    Raises:
        Failed: it raised something.
        ModelUnreachable, StorageError: other branches would fail as well; the run stops here and can be resumed.
    """
    shown = [name for name in graph.stream_channels_list if name in _SHOWN] if "assignment" in given else None
    try:
        out: dict[str, Any] = await graph.ainvoke(given, context=context, output_keys=shown)
        return out
    except (GraphBubbleUp, ModelUnreachable, StorageError):
        raise
    except Exception as error:  # whatever one branch raises becomes its failure; the flow continues
        raise Failed(sentence_of(error, language)) from error


def _result(out: Mapping[str, Any]) -> dict[str, Any]:
    """{"success"} or {"error"} of what a graph returned: a flow's, a mode's, or any other."""
    if "status" in out and "result" in out:
        result = json_value(out["result"])
        if out.get("early_exit") and (end := early_exit(out["early_exit"])).error:
            text = as_text(result)
            alone = text and end.result == end.summary  # a flow that cannot go on has its summary as its result
            return {"error": text if alone else f"{end.error}: {text}"}
        return {"success": {"status": out["status"], "result": result}}
    if out.get("gave_up"):
        return {"error": str(out["gave_up"])}
    made = out.get("result")
    if isinstance(made, Mapping) and "answer" in made:
        return {"error": f"{made['error']}: {made['answer']}"} if made.get("error") else {"success": made["answer"]}
    texts = [message.text for message in out.get("messages", ()) if isinstance(message, BaseMessage)]
    return {"success": texts[-1] if texts else json_value(dict(out))}


def _added(usage: Mapping[str, Any], out: Mapping[str, Any]) -> dict[str, Any]:
    """The usage with that of the branch."""
    made = out.get("result")
    spent = out.get("usage") or (made.get("usage") if isinstance(made, Mapping) else None) or {}
    return add_usages([usage, spent])


def _early_exit(out: Mapping[str, Any]) -> dict[str, Any] | None:
    """The end of this flow too, where a graph of the user's own asks for it with EARLY_EXIT."""
    if not out.get("EARLY_EXIT"):
        return None
    return exit_of(early_exit(out))
