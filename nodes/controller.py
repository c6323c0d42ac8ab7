"""The controller graph: state, routes and nodes of the mode that carries a task by a flow."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.state import CompiledStateGraph

from segue.core.calls import CallKey, CallResult
from segue.core.events import PlanUpdate, Token
from segue.core.flows import early_exit
from segue.core.plan import Step, numbered_plan

from .context import (
    STEER,
    Node,
    NodeContext,
    NodeRuntime,
    Settled,
    announce,
    as_text,
    conversation,
    exchange,
    is_steering,
    node_context,
    truncate_result,
)
from .history import window
from .task import (
    GraphInput,
    PlannedTask,
    attachments_of,
    before_objective,
    compose_result,
    end_task,
    given_steps,
)

# State of the controller mode's graph.


class ControllerInput(GraphInput, total=False):
    """What the graph is invoked with: a message, or what the flow itself takes."""

    plan: Any
    """A text, or steps: [{"step_id", "description", "status"?}]; without one, that of the message, or a new one."""
    memory_files: dict[str, str]
    """The paths of memory files by their names."""
    goal: str
    """Instead of a message."""
    logs: str
    """What was done before."""


class ControllerState(PlannedTask, total=False):
    """INIT resets every channel that belongs to a task, CONTROLLER_EXECUTOR clears the inputs."""

    goal: str
    """The input, then that of the plan. DECOMPOSE."""
    memory_files: dict[str, str]
    logs: str
    branch: str
    """The branches that lead here, where a flow has this graph as one. INIT."""


# Router of the controller mode's graph.


def after_init(state: PlannedTask) -> Literal["GIVEN_PLAN", "MAKE_PLAN"]:
    """A plan that is given, by a caller or in the message, is carried out as it is."""
    return "GIVEN_PLAN" if state["plan"] or numbered_plan(state["objective"]) else "MAKE_PLAN"


# INIT: a new task on the thread, from a message or from the flow's own inputs.


def init(begin_plan: Node[Any, Any]) -> Node[ControllerState, ControllerState]:
    """The node, whose task begins as one of the plan graph does."""

    async def node(state: ControllerState, runtime: NodeRuntime) -> ControllerState:
        """Take the inputs in; a goal becomes the task's message."""
        messages = list(state.get("messages") or ())
        assignment = state.get("assignment") or node_context(runtime).services.part_of
        goal = str(state.get("goal") or "").strip()
        is_asked = bool(messages) and messages[-1].type == "human" and not is_steering(messages[-1])
        added = [HumanMessage(goal)] if goal and not is_asked else []
        fresh = await begin_plan({**state, "messages": [*messages, *added]}, runtime)
        plan = fresh["plan"] or given_steps(state.get("plan"))
        return cast(
            ControllerState, {**fresh, "messages": added, "plan": plan, "branch": assignment.get("branch") or ""}
        )

    return node


# GIVEN_PLAN: take over the plan that a caller or the message gives.


async def given_plan(state: PlannedTask, runtime: NodeRuntime) -> PlannedTask:
    """Show the plan; its steps are carried out as they are written."""
    given = state["plan"] or numbered_plan(state["objective"])
    steps = [Step.model_validate(step).model_dump(mode="json") for step in given]
    return {
        "plan": steps,
        "events": announce(PlanUpdate(task_id=state["task_id"], goal=state["objective"], steps=steps)),
    }


# CONTROLLER_EXECUTOR: hand the goal and the plan to the flow, and turn its result into the task's answer.

FlowGraph = CompiledStateGraph[Any, Any, Any, Any]
SHOWN = ("result", "summary", "status", "steps", "records", "added", "round", "usage", "early_exit", "events")
"""What streams show of the flow's nodes; `events` is never a part of the output."""


def controller_executor(graph: FlowGraph, mode: str) -> Node[ControllerState, ControllerState]:
    """The node over this flow, which carries the mode of that name."""

    async def run_flow(state: ControllerState, runtime: NodeRuntime) -> ControllerState:
        """Run the flow; its answer, or why it is unfinished, ends the task."""
        work, task_id = node_context(runtime), state["task_id"]
        inherited: dict[str, Any] = {name: state[name] for name in ("task_id", "language", "usage", "started_at")}
        inherited |= {"attachments": attachments_of(state["messages"]), "branch": state.get("branch", "")}
        plan = state["plan"]
        logs = "\n\n".join(filter(None, [_logs(state, work), state.get("logs", "")]))
        given = {"goal": state["objective"], "plan": plan, "logs": logs, "assignment": inherited}
        given["memory_files"] = state.get("memory_files") or work.services.reply_options.memory_files
        out = await graph.ainvoke(given, context=runtime.context, output_keys=[*SHOWN])
        last = as_text(out["result"]) or out["summary"]
        answer = "\n\n".join([*_intermediate_answers(out), last])  # behind what was said before
        if rest := answer.removeprefix(_streamed(out)):
            work.emit(Token(task_id=task_id, content=rest))
        error = early_exit(out["early_exit"]).error
        result = _result_of(out, mode, answer, error, work.agent.budget.result_chars)
        added = [HumanMessage(note, additional_kwargs={STEER: True}) for note in out["added"]]
        spoken = [message for record in out["records"] for message in _exchange(record, task_id, state["objective"])]
        return {
            "messages": [*added, *spoken, AIMessage(answer)],
            "plan": [],
            "logs": "",
            "memory_files": {},
            "usage": out["usage"],
            "result": result,
            "events": announce(*end_task(state, result, failure=error)),
        }

    return run_flow


def _logs(state: ControllerState, work: NodeContext) -> str:
    """The conversation so far, as the flow's logs; empty where there is none."""
    budget = work.agent.budget
    past = window(before_objective(state["messages"]), budget.prompt_tokens // 8, budget.result_chars)
    spoken = conversation([message for message in past if message.type != "tool"], budget.result_chars)
    return "\n".join(f"{entry['role']}: {entry['content']}" for entry in spoken if entry["content"])


def _intermediate_answers(out: Mapping[str, Any]) -> list[str]:
    return [record["said"] for record in out["records"] if record.get("said")]


def _streamed(out: Mapping[str, Any]) -> str:
    """What was streamed of the answer while it was written."""
    last = str((out["early_exit"] or {}).get("streamed", ""))
    return "".join(f"{text}\n\n" for text in _intermediate_answers(out)) + last


def _exchange(record: Mapping[str, Any], task_id: str, request: str) -> list[AnyMessage]:
    """A question or a tool call of the flow with its answer or result, as the thread's history keeps it."""
    arguments, result = record["arguments"], record["result"]
    if record["kind"] == "tool":
        key = CallKey(task_id, record["trace_id"], 0)
        settled = Settled(f"{record['trace_id']}-0", record["branch"], arguments, result, key)
        return exchange("", [settled], request=request)
    answer = CallResult.of(result)
    if record["branch"] == "ask_user" and answer.success:
        return [AIMessage(arguments["question"]), HumanMessage(answer.value, additional_kwargs={STEER: True})]
    return []


def _result_of(out: Mapping[str, Any], mode: str, answer: str, error: str, chars: int) -> dict[str, Any]:
    history = [
        {
            "step": record["round"],
            "phase": "execution",
            "action": record["branch"],
            "result": truncate_result(record["result"], chars),
            "description": record["summary"],
        }
        for record in out["records"]
        if record["kind"] != "built_in"
    ]
    result = compose_result(
        mode,
        answer,
        history=history,
        reasoning="\n".join(f"[{record['round']}] {record['summary']}" for record in out["records"]),
        plan=out["steps"],
        usage=out["usage"],
        error=error,
        truncated=bool((out["early_exit"] or {}).get("truncated")),
    )
    return {**result, "flow_status": out["status"]}
