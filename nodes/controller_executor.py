"""The controller–executor graph: routes and nodes."""

import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.core.context import AppContext, Services, surrounding
from segue.core.decision import read_clarification
from segue.core.errors import InvalidMessage, ModelUnreachable, StorageError, UnreadableReply, listed
from segue.core.events import BranchEnd, FlowEnd, QuestionAnswered, Token
from segue.core.flows import BranchConfig, FlowConfig, early_exit
from segue.core.message import check_memory_files
from segue.core.models import add_usages
from segue.core.plan import Step
from segue.prompts.catalogue import language_of, sentence_of, task_text
from segue.tools.calls import json_value

from .calls import (
    CallRunner,
    answer_steps,
    count_usage,
    describe_outcome,
    end_steps,
    result_events,
    step_events,
)
from .context import NodeContext, NodeRuntime, announce, as_text, node_context, truncate_result
from .control_decision import (
    FlowNode,
    FlowState,
    FlowUpdate,
    append_entry,
    branch_context,
    branch_under_way,
    branches_of,
    exit_of,
    flow_context,
    ids_of,
    input_names,
    manual_finish,
    outcome_of,
    rounds_of,
    tools_of,
)
from .questions import ask_question
from .repeated_failures import refused_repeat
from .task import given_steps, replaced

# Routers of the controller–executor graph: each node may end the flow with an early exit.


def after_memory_reading(state: FlowState) -> Literal["CONTROLLER", "FINISH"]:
    """The controller decides, unless no round is left."""
    return "FINISH" if state["early_exit"] else "CONTROLLER"


def after_controller(state: FlowState) -> str:
    """The chosen branch's node; a reply that cannot be read is asked for again."""
    return "FINISH" if state["early_exit"] else state["branch_node"] or "CONTROLLER"


def after_executor(state: FlowState) -> Literal["EXECUTOR", "MEMORY_WRITING", "FINISH"]:
    """A call that a person has just decided about runs next."""
    if state["early_exit"]:
        return "FINISH"
    return "EXECUTOR" if state["call"] else "MEMORY_WRITING"


def after_branch(state: FlowState) -> Literal["MEMORY_WRITING", "FINISH"]:
    """The branch's result is stored."""
    return "FINISH" if state["early_exit"] else "MEMORY_WRITING"


def after_memory_writing(state: FlowState) -> Literal["MEMORY_READING", "FINISH"]:
    """The next round begins."""
    return "FINISH" if state["early_exit"] else "MEMORY_READING"


# INIT: take the plan, the goal and the names of the memory files in.


def init(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Mint the task's id, unless a caller has, and reset everything that belongs to a task."""
        work = flow_context(runtime, config)
        branches_of(config, work)
        for each in config.subflows_config.executor.branches.values():
            work.services.agent(each.agent)
        goal = state.get("goal") or config.subflows_config.controller.goal
        if not goal.strip():
            raise InvalidMessage('The flow has no goal: invoke the graph with {"goal": "…"}, or configure one.')
        given = state.get("assignment") or work.services.part_of
        task_id = given.get("task_id") or work.services.ids.task()
        session = str(get_config().get("configurable", {}).get("thread_id", "")) or task_id
        branch = given.get("branch") or config.name
        memory_files = check_memory_files(state.get("memory_files"))
        return {
            "assignment": None,
            "task_id": task_id,
            "language": work.agent.language or given.get("language") or work.context.language or language_of(goal),
            "started_at": given.get("started_at") or work.services.clock(),
            "objective": goal,
            "attachments": list(given.get("attachments", ())),
            "steps": given_steps(state.get("plan")),
            "branch": branch,
            "files": _files(config, memory_files, session, branch),
            "needed": _needed(config, memory_files),
            "before": state.get("logs") or "",
            **_UNUSED,
            "records": replaced([]),
            "usage": dict(given.get("usage") or {}),
        }

    return node


_UNUSED: FlowUpdate = {
    "plan": "",
    "goal": "",
    "logs": "",
    "memory_files": {},
    "added": [],
    "round": 0,
    "trace_id": "",
    "memory": "",
    "memory_error": "",
    "asked": 0,
    "complaint": "",
    "branch_node": "",
    "call": None,
    "outcome": None,
    "tool_calls": 0,
    "early_exit": None,
    "result": None,
    "summary": "",
    "status": "",
}


def _files(config: FlowConfig, given: Mapping[str, str], session: str, branch: str) -> dict[str, str]:
    """The paths of the memory files by their names: the caller's, the flow's own, and those that it reads by name."""
    writing, reading = config.subflows_config.memory_writing, config.subflows_config.memory_reading
    own = _with_suffix(writing.file) if writing.file else f"{branch if len(branch) <= 60 else _plain(branch)}.logs.md"
    named = {name: _with_suffix(name) for name in reading.files or ()}
    return {**named, writing.name: f"{_plain(session)}/{own}" if writing.in_session else own, **given}


def _needed(config: FlowConfig, given: Mapping[str, str]) -> list[str]:
    """The paths of the caller's files that the flow reads and does not write."""
    subflows = config.subflows_config
    written = {subflows.memory_writing.name} if config.writes_memory else set()
    listed = subflows.memory_reading.files
    read = set() if not config.reads_memory else {*given} if listed is None else {*listed}
    if unused := [name for name in given if name not in read | written]:
        raise InvalidMessage(
            "The flow {flow} does not read the memory file {name}: leave it out of memory_files, or name it in the "
            "flow's MemoryReading.files.",
            flow=config.name,
            name=unused[0],
        )
    return [path for name, path in given.items() if name not in written]


def _with_suffix(name: str) -> str:
    """The name of a memory file, which is Markdown where it does not say so."""
    return name if PurePosixPath(name).suffix else f"{name}.md"


def _plain(text: str) -> str:
    """A text as part of a path: what a path cannot hold is replaced, and a digest keeps different texts apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:48]
    return plain if plain == text else f"{plain}-{sha256(text.encode()).hexdigest()[:8]}"


# EXECUTOR: run the chosen tool, once a person has approved it where it needs that.


def executor(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Run the call through the ledger; what a person decides about it is stored before it runs."""
        work = flow_context(runtime, config)
        runner = runner_of(state, work, config)
        (call,), given, ready = await runner.prepare([branch_under_way(state)])
        if not ready:
            left: FlowUpdate = {"call": call.json()}
            return {**left, "events": announce(*given)} if given else left
        (ran,) = done = await runner.run([call])
        usage = count_usage(state["usage"], done)
        if waiting := runner.waiting([call], done):
            update: FlowUpdate = {"call": waiting[0].json()}
            if usage:
                update["usage"] = usage
            return update
        entry = describe_outcome(ran, work, state["task_id"])
        old = tuple(Step(**step) for step in state["steps"])
        steps = end_steps(old, [entry])
        outcome = outcome_of(call.name, "tool", entry["arguments"], entry["result"], state)
        update = {
            "call": None,
            "outcome": outcome | ({"approved": entry["approved"]} if "approved" in entry else {}),
            "tool_calls": state["tool_calls"] + ran.count,
            "steps": [step.model_dump(mode="json") for step in steps],
            "events": announce(*result_events(done, work, ids_of(state)), *step_events(old, steps, ids_of(state))),
        }
        if usage:
            update["usage"] = usage
        return update

    return node


def runner_of(state: FlowState, work: NodeContext, config: FlowConfig) -> CallRunner:
    """What runs the tool of a round."""
    tools = tools_of(config, work)

    def refuse(call: PendingCall) -> CallResult | None:
        if call.name not in tools:
            known = listed(branches_of(config, work))
            return CallResult.failed(task_text("no_branch", state["language"], name=call.name, known=known))
        most = work.agent.budget.tool_calls
        if state["tool_calls"] < most:
            return refused_repeat(call, rounds_of(state), state["task_id"], state["language"])
        return CallResult(status=CallStatus.OVER_BUDGET, error=task_text("spent_calls", state["language"], n=most))

    return CallRunner(
        work, tools, state["task_id"], state["language"], ids_of(state), refuse, memory=state.get("memory", "")
    )


# A branch that is a graph: an agent's, another flow, or one of the user's own.

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
        work, call = flow_context(runtime, config), branch_under_way(state)
        arguments = call.arguments
        out: Mapping[str, Any] = {}
        try:
            given = _graph_input(takes, arguments, state, name)
            context = branch_context(state, work, name, branch.agent)
            shown = [name for name in graph.stream_channels_list if name in _SHOWN] if "assignment" in takes else None
            out = await _invoke(graph, given, context, work.services, state["language"], shown)
            result = _result(out)
        except Failed as why:
            result = {"error": str(why)}
        summary = (
            task_text("flow_branch", state["language"], branch=name, summary=out["summary"]) if "summary" in out else ""
        )
        outcome = outcome_of(name, kind, arguments, result, state, summary)
        bounded = truncate_result(result, work.agent.budget.result_chars)
        about = {"step_id": call.step_id, **ids_of(state)}
        ended = BranchEnd(branch=name, kind=kind, result=bounded, summary=outcome["summary"], **about)
        old = tuple(Step(**step) for step in state["steps"])
        steps = end_steps(old, [{"step_id": call.step_id, "name": name, "result": result}])
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
    """The graph's input: the arguments, or their goal as a message."""
    given = {**arguments}
    if "messages" in takes and "messages" not in given:
        if not str(goal := given.pop("goal", "")).strip():
            raise Failed(task_text("branch_needs", state["language"], branch=name, argument="goal"))
        given["messages"] = [HumanMessage(str(goal))]
    return given


async def _invoke(
    graph: BranchGraph,
    given: dict[str, Any],
    context: AppContext,
    outer: Services,
    language: str,
    shown: list[str] | None,
) -> dict[str, Any]:
    """What the graph returns; streams have what is `shown` of its nodes, None: all.

    Where other branches would fail as well, the run stops with the error and can be resumed; any other one is Failed.
    """
    try:
        with surrounding(context, outer):
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


# ASK_USER: the flow waits for a person's answer.


async def ask_user(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
    """Interrupt the graph until a person has answered; they may also end the flow."""
    call, ids = branch_under_way(state), ids_of(state)
    try:
        asked = read_clarification(call.arguments)
    except UnreadableReply:
        needed = task_text("branch_needs", state["language"], branch="ask_user", argument="question")
        result = {"error": needed}
        return {"call": None, "outcome": outcome_of("ask_user", "built_in", call.arguments, result, state)}
    answer = ask_question(asked["question"], asked["choices"], state["language"])
    text = answer.text or task_text("flow_terminated", state["language"])
    outcome = outcome_of("ask_user", "built_in", call.arguments, {"success": text}, state)
    about = {name: outcome[name] for name in ("branch", "kind", "result", "summary")}
    events = announce(QuestionAnswered(question=asked["question"], answer=text, **ids), BranchEnd(**about, **ids))
    ended = exit_of(manual_finish(state)) if answer.manual_finish else None
    return {"call": None, "outcome": outcome, "early_exit": ended, "events": events}


# ANSWER: an intermediate answer goes to the person, and the flow continues.


async def answer(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
    """Keep the intermediate answer: the final answer follows it."""
    call, ids = branch_under_way(state), ids_of(state)
    text = str(call.arguments.get("answer") or "")
    node_context(runtime).emit(Token(content="\n\n", **ids))
    language = state["language"]
    needed = task_text("branch_needs", language, branch=call.name, argument="answer")
    result = {"success": task_text("flow_said", language)} if text else {"error": needed}
    outcome = {**outcome_of(call.name, "built_in", call.arguments, result, state), "said": text}
    about = {name: outcome[name] for name in ("branch", "kind", "result", "summary")}
    return {"call": None, "outcome": outcome, "events": announce(BranchEnd(**about, **ids))}


# FINISH: the flow ends with the result, the summary and the status of its early exit.


def finish(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Write the end down, also in the memory file."""
        end = state["early_exit"] or {}
        summary, status = end["summary"], end["status"]
        await append_entry(config, state, node_context(runtime), status, summary, f"{state['trace_id']}/end")
        old = tuple(Step(**step) for step in state["steps"])
        steps = answer_steps(old) if status == "finished" else old
        ended = FlowEnd(flow=config.name, status=status, summary=summary, **ids_of(state))
        return {
            "steps": [step.model_dump(mode="json") for step in steps],
            "result": end["result"],
            "summary": summary,
            "status": status,
            "events": announce(*step_events(old, steps, ids_of(state)), ended),
        }

    return node
