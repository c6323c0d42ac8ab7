"""A task: what goes into the modes' graphs, what every INIT does first, its objective and additions, and its result."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.messages import AnyMessage, HumanMessage
from pydantic import ValidationError
from typing_extensions import TypedDict

from segue.core.attachments import ATTACHMENTS, naming
from segue.core.calls import CallResult
from segue.core.decision import read_steps
from segue.core.errors import InvalidMessage, UnreadableReply
from segue.core.events import Answer, Durable, ErrorRaised, NotesTaken, TaskComplete
from segue.core.plan import Step
from segue.prompts.catalogue import phrase
from segue.prompts.language import language_of

from .channels import Events, History
from .context import NodeContext, NodeRuntime, announce, node_context
from .prompt_budget import as_json, truncate

FOUND_CHARS = 400
"""Characters of each result in the answer of a task that ends early."""


class Assignment(TypedDict, total=False):
    """What a parent graph hands down; INIT takes it in and clears it."""

    task_id: str
    language: str
    """That of the task, which its parts inherit."""
    plan: list[dict[str, Any]]
    """Steps to begin with."""
    vetted: list[dict[str, Any]]
    """Those that untrusted text has no part in: {action, params}."""
    done: list[dict[str, Any]]
    """Calls that another mode made for this task: {name, arguments, result, ref}."""
    usage: dict[str, Any]
    """What the task used so far."""
    started_at: float
    attachments: list[dict[str, Any]]
    """The message's files, for a part that is not given the message."""
    branch: str
    """The branches that lead to a nested flow, joined by dots."""


class GraphInput(TypedDict, total=False):
    """What a graph that carries a task is invoked with."""

    messages: History
    assignment: Assignment | None


class TaskState(GraphInput, total=False):
    """The channels that every graph of a task has. They are thread-scoped: INIT resets them, as all of a task's."""

    task_id: str
    """Of the user's message. INIT."""
    nested: bool
    """Whether a parent graph ends the task. INIT."""
    objective: str
    """The user's message, and what was added to it since. INIT, and every node that reads an addition."""
    language: str
    """zh or en. INIT."""
    started_at: float
    """Unix seconds. INIT."""
    usage: dict[str, Any]
    """Tokens and model calls. Every node that asks a model."""
    result: dict[str, Any] | None
    """The node that ends the task."""
    events: Events
    """What happened in a node, for the event log."""


class PlannedTask(TaskState, total=False):
    """A task with its plan, for the nodes of graphs that make one first."""

    plan: list[dict[str, Any]]
    vetted: list[dict[str, Any]]


class TaskOutput(TypedDict):
    """What a graph returns that ends its task in any case."""

    messages: History
    result: dict[str, Any] | None


class ModeOutput(TaskOutput):
    """What a mode returns that another may take over from: `gave_up` says why."""

    gave_up: str
    usage: dict[str, Any]


def begin(messages: list[AnyMessage], assignment: Mapping[str, Any] | None, runtime: NodeRuntime) -> TaskState:
    """Take the task's id from the parent graph or mint one, and read the objective with what was added to it.

    Raises:
        InvalidMessage: there is no user message, or it is empty.
    """
    work, handed = node_context(runtime), assignment or {}
    asked = objective_of(messages)
    given = handed.get("task_id")
    return {
        "assignment": None,
        "task_id": given or work.services.ids.task(),
        "nested": given is not None,
        "objective": "\n".join([asked, *additions(messages)]),
        "language": work.agent.language or handed.get("language") or work.context.language or language_of(asked),
        "started_at": handed.get("started_at") or work.services.clock(),
        "usage": dict(handed.get("usage") or {}),
        "result": None,
    }


def given_steps(plan: Any) -> list[dict[str, Any]]:
    """A caller's plan as steps; a text is read as a numbered list.

    Raises:
        InvalidMessage: it cannot be read.
    """
    if not plan:
        return []
    try:
        if isinstance(plan, Sequence) and all(isinstance(item, dict) and "step_id" in item for item in plan):
            steps: Sequence[Step] = [Step(**item) for item in plan]
        else:
            steps = read_steps(plan)
    except (UnreadableReply, ValidationError) as error:
        raise InvalidMessage("The plan cannot be read: give a numbered text, or steps with a description.") from error
    return [step.model_dump(mode="json") for step in steps]


STEER = "steer"
"""Marks a user's message that was added to a task under way and began none."""


def is_steering(message: AnyMessage) -> bool:
    """Whether the message was added to a task under way."""
    return message.type == "human" and bool(message.additional_kwargs.get(STEER))


def _place(messages: Sequence[AnyMessage]) -> int:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].type == "human" and not is_steering(messages[place]):
            return place
    raise InvalidMessage('There is no user message: invoke the graph with {"messages": [("user", "…")]}.')


def objective_of(messages: Sequence[AnyMessage]) -> str:
    """The text of the latest user message, verbatim.

    Raises:
        InvalidMessage: there is none, or it is empty.
    """
    text = messages[_place(messages)].text
    if not text.strip():
        raise InvalidMessage("The message is empty: write what you want done.")
    return text


def objective_message(state: Mapping[str, Any]) -> HumanMessage:
    """The objective as a message, with the files of its own message and then of earlier ones, the latest first."""
    return HumanMessage(state["objective"], additional_kwargs=naming(attachments_of(state["messages"])))


def attachments_of(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """The files of the latest user message and then of earlier ones, the latest first, each content once."""
    found: dict[str, dict[str, Any]] = {}
    for message in reversed(messages[: _place(messages) + 1]):
        for form in message.additional_kwargs.get(ATTACHMENTS, ()):
            found.setdefault(form["digest"], form)
    return [*found.values()]


def additions(messages: Sequence[AnyMessage]) -> list[str]:
    """What was added to the latest user message since, oldest first."""
    return [message.text for message in messages[_place(messages) :] if is_steering(message)]


def before_objective(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages of earlier turns."""
    return list(messages[: _place(messages)])


def unfinished(outcomes: Sequence[Mapping[str, Any]], why: str, language: str) -> str:
    """The answer of a task that ends early: why it does, and a line for each successful call."""
    results = [(outcome["name"], CallResult.of(outcome["result"])) for outcome in outcomes]
    lines = [f"- {name}: {truncate(as_json(r.value), FOUND_CHARS)}" for name, r in results if r.success]
    found = "\n".join(lines) or phrase("nothing_found", language)
    return phrase("unfinished", language, why=why, found=found)


def end_task(
    state: TaskState,
    result: Mapping[str, Any],
    *,
    failure: str = "",
    answered: bool = True,
    **ids: Any,
) -> list[Durable]:
    """The events that end a task: its failure, its answer, and its completion, which a parent graph says of its parts.

    `answered`: the answer is not in the log yet. `ids` are those of the events.
    """
    ids = ids or {"task_id": state["task_id"]}
    events: list[Durable] = [ErrorRaised(message=failure, final=True, **ids)] if failure else []
    if answered:
        events.append(Answer(answer=result["answer"], **ids))
    if not state["nested"]:
        status = "done" if result.get("success") else "error"
        events.append(TaskComplete(status=status, result=dict(result), **ids))
    return events


def compose_result(
    mode: str,
    answer: str,
    *,
    history: Sequence[Mapping[str, Any]] = (),
    reasoning: str = "",
    total_steps: int = 0,
    plan: Sequence[Mapping[str, Any]] = (),
    usage: Mapping[str, Any] | None = None,
    error: str = "",
    limit: str = "",
    truncated: bool = False,
) -> dict[str, Any]:
    """`{success, answer, mode, reasoning, history, plan?, usage, error?, limit?, truncated?}`.

    Reasoning is {text, total_steps, tools_used}, a history entry {step, phase, action, result, description};
    `tools_used` are those that ran, in the order of first use. `limit` is the budget of the agent that was spent.
    """
    used = dict.fromkeys(entry["action"] for entry in history if entry["result"] and CallResult.of(entry["result"]).ran)
    result: dict[str, Any] = {
        "success": not error,
        "answer": answer,
        "mode": mode,
        "reasoning": {
            "text": f"<thinking>\n{reasoning}\n</thinking>",
            "total_steps": total_steps,
            "tools_used": list(used),
        },
        "history": [dict(entry) for entry in history],
        "usage": dict(usage or {}),
    }
    if plan:
        result["plan"] = [dict(step) for step in plan]
    if error:
        result["error"] = error
    if limit:
        result["limit"] = limit
    if truncated:
        result["truncated"] = True
    return result


class Added(TypedDict, total=False):
    """The update of a node that reads additions; empty where there are none."""

    messages: list[Any]
    objective: str
    notes_taken: int
    events: list[dict[str, Any]]
    """That they were read; they go before the node's own."""


State = TypeVar("State", bound=Mapping[str, Any])


async def read_added_messages(state: Mapping[str, Any], work: NodeContext) -> Added:
    """What was added since the last look: the objective with it, and the messages for the history."""
    taken = state["notes_taken"]
    fresh = (await work.services.notes(state["task_id"]))[taken:]
    if not fresh:
        return {}
    ids = {name: state[name] for name in ("task_id", "trace_id", "iteration") if state.get(name)}
    return {
        "messages": [HumanMessage(note, additional_kwargs={STEER: True}) for note in fresh],
        "objective": "\n".join([state["objective"], *fresh]),
        "notes_taken": taken + len(fresh),
        "events": announce(NotesTaken(count=taken + len(fresh), **ids)),
    }


def joined(added: State, update: State) -> State:
    """A node's update with the additions that it read, whose events go first."""
    events = [*added.get("events", ()), *update.get("events", ())]
    return cast(State, {**added, **update, "events": events})


def amended(state: State, added: Mapping[str, Any]) -> State:
    """The state as it will be with the update."""
    messages = [*state["messages"], *added.get("messages", ())]
    return cast(State, {**cast(dict[str, Any], state), **added, "messages": messages})
