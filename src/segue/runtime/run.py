"""A task that runs in this process: its turn to run, its state, how it is stopped, and the end of a cancelled one."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot

from segue.nodes.shared.hidden_results import seen_outcome
from segue.nodes.shared.prompt_budget import truncate_result
from segue.nodes.shared.task import STEER, additions, compose_result
from segue.nodes.shared.tool_messages import Settled, exchange
from segue.prompts.catalogue import phrase

from ..core.actor import SEGUE
from ..core.agents import Agent, Budget
from ..core.attachments import naming
from ..core.calls import HIDDEN
from ..core.errors import DamagedCheckpoint, InvalidAnswer, SegueError
from ..core.events import ApprovalRequested, Durable, Event, NotesMoved, PauseReason, QuestionAsked, WaitStarted
from ..core.question import API_CALL, CLIENT_CALLS, PAUSE, WAIT, read_answer, read_question, read_results
from ..core.records import Call, Json, Task
from ..core.spend import USD
from ..core.timeline import Place
from ..core.tools import CallKey, Tool
from ..nodes.shared.approval import VERSIONS, check_answer, versions_of
from ..nodes.shared.task import GraphInput
from .capacity import Slot
from .projection import Projection
from .reply_stream import ReplyText

MOST_PUBLISHED = 256
"""Events that a run keeps for who comes later; a longer one is read from the log."""


@dataclass
class Run:
    """A task's row, the fence that it writes under, and what was streamed of its answer so far.

    It is `stoppable` while the graph runs: its final status is then stored without interruption.
    """

    row: Task
    fence: int
    slot: Slot
    control: RunControl = field(default_factory=RunControl)
    task: "asyncio.Task[Json] | None" = None
    stoppable: bool = False
    cancelled_by: str = ""
    """Who cancelled it, if anybody did."""
    abandoned: bool = False
    """Its lease is left to expire: the database failed the task."""
    reply: ReplyText = field(default_factory=ReplyText)
    stored: int = 0
    """The number of its last stored event, as far as this process stored any."""
    published: list[Event] = field(default_factory=list)
    """Its stored events from the first one on, without a gap, and not more than `MOST_PUBLISHED`."""
    streamed: dict[tuple[str, str], int] = field(default_factory=dict)
    """Characters that were streamed, by the type of the event and by the model call."""
    next_id: str = ""
    """The task that begins after it with what was added too late."""

    def note(self, event: Event) -> None:
        """Note an event that was stored."""
        self.stored = max(self.stored, event.seq)
        if event.seq == len(self.published) + 1 <= MOST_PUBLISHED:
            self.published.append(event)
        if isinstance(event, NotesMoved):
            self.next_id = event.next_task_id

    def published_after(self, number: int) -> Sequence[Event] | None:
        """All stored events after that number, for who comes later; None where only the log has them."""
        return self.published[max(number, 0) :] if 0 < self.stored == len(self.published) else None

    @property
    def partial(self) -> str:
        """What was streamed of the answer and not discarded."""
        return self.reply.whole

    @property
    def reason(self) -> str:
        """Why it was stopped."""
        return self.control.drain_reason or ""

    def pause(self, reason: str) -> None:
        """Stop at the next boundary, or in the queue; the first reason counts, unless the lease is lost.

        From any thread.
        """
        if not self.reason or reason == PauseReason.LEASE_LOST:
            self.control.request_drain(reason)
        with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
            self.slot.get_loop().call_soon_threadsafe(self._leave_queue)

    def _leave_queue(self) -> None:
        if not self.slot.done():
            self.slot.set_result(False)

    def stop(self) -> None:
        """Stop where it is: the step under way runs again on resume, its finished tool calls do not."""
        if self.stoppable and self.task is not None:
            self.task.cancel()
        else:
            self.pause(PauseReason.NOT_BEGUN)

    @property
    def cancelled(self) -> bool:
        return bool(self.cancelled_by)

    def cancel(self, by: str = SEGUE) -> None:
        """Stop where it is and for good; once is enough, a second time would interrupt the storing of its result."""
        if not self.cancelled:
            self.cancelled_by = by
            self.stop()


def retrieve_error(run: asyncio.Task[Any]) -> None:
    """What a run raised was stored with its task, so that asyncio does not warn about it."""
    if not run.cancelled():
        run.exception()


def is_of_task(state: StateSnapshot, task_id: str) -> bool:
    """Whether the thread's newest checkpoint belongs to this task."""
    values = state.values or {}
    return task_id in (values.get("task_id"), (values.get("assignment") or {}).get("task_id"))


RunInput = GraphInput | Command[Any] | None
"""What the graph of a task is invoked with; None to continue."""


def initial_input(row: Task) -> RunInput:
    """The message that a task begins with."""
    message = HumanMessage(row.message, additional_kwargs=naming(row.attachments))
    return {"messages": [message], "assignment": {"task_id": row.task_id}}


def resume_input(state: StateSnapshot, row: Task) -> RunInput:
    """The message, if the graph does not have it yet, a person's answer, or None."""
    if not is_of_task(state, row.task_id):
        return initial_input(row)
    answer = row.answer
    if answer and any(question.id == answer["interrupt_id"] for question in state.interrupts):
        return Command(resume={answer["interrupt_id"]: answer["value"]})
    return None


def question_of(interrupts: Iterable[Interrupt]) -> Interrupt | None:
    """What a person is asked, if a graph that stopped asks anything."""
    asked = next((asked for asked in interrupts if asked.value != {"kind": PAUSE}), None)
    return asked and Interrupt(value=read_question(asked.value), id=asked.id)


def asking_events(task_id: str, interrupt_id: str, question: Json) -> Sequence[Durable]:
    """That a person is asked, or that the task waits; nothing of a call that a conversation carries out."""
    ids: dict[str, Any] = {"task_id": task_id, "interrupt_id": interrupt_id}
    if question["kind"] == API_CALL:
        return []
    if question["kind"] == WAIT:
        return [WaitStarted(until=question["until"], name=question["event"], **ids)]
    if "question" not in question:
        return [ApprovalRequested(calls=question.get("calls", []), **ids)]
    more = {name: question[name] for name in (CLIENT_CALLS, "choices") if name in question}
    return [QuestionAsked(question=question["question"], **more, **ids)]


def wait_of(question: Json) -> Json:
    """The columns of a task that say what it waits for, if it asks no person."""
    return {"due": question["until"], "awaited": question["event"] or None} if question["kind"] == WAIT else {}


def stored_answer(question: Json, answer: Any, tools: Mapping[str, Tool]) -> Any:
    """A person's answer to a question in the form that the graph is resumed with; `tools` are those of an approval.

    Raises:
        InvalidAnswer: it does not fit the question.
    """
    if calls := question.get(CLIENT_CALLS):
        return {"results": read_results(answer, calls)}
    if question["kind"] == WAIT:
        raise InvalidAnswer("The task is not waiting for a person. {what}", what=question["question"])
    if question["kind"] != "approval":
        reply = read_answer(answer)
        return reply.json() if question["kind"] == "question" else reply.text
    verdicts = check_answer(question["calls"], tools, answer)
    given = [verdict.model_dump(mode="json", exclude_none=True, exclude={"by"}) for verdict in verdicts]
    return {"verdicts": given, VERSIONS: versions_of(question["calls"])}


_UNFIT = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""What a channel or reducer makes of values that are not of its kind."""


async def state_at(
    graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig, subgraphs: bool = False
) -> StateSnapshot:
    """The state of a thread, read in whole.

    Raises:
        DamagedCheckpoint: it cannot be read, or holds what no message is.
    """
    thread_id = str(config["configurable"]["thread_id"])
    try:
        state = await graph.aget_state(config, subgraphs=subgraphs)
        messages: list[AnyMessage] = state.values.get("messages", [])
    except _UNFIT as error:
        raise DamagedCheckpoint(thread_id, f"its values do not fit: {type(error).__name__}") from error
    if not all(issubclass(kind, BaseMessage) for kind in set(map(type, messages))):
        raise DamagedCheckpoint(thread_id, "its messages cannot be read")
    return state


def recursion_limit(agent: Agent) -> int:
    """The most nodes that a task of the agent may run, in each graph."""
    return 20 + 4 * agent.max_iteration + 2 * agent.budget.tool_calls


async def language_by_now(graph: CompiledStateGraph[Any, Any, Any, Any], row: Task) -> str:
    """The language of a task as its graph has it: that of a conversation may be its first message's."""
    try:
        state = await state_at(graph, {"configurable": {"thread_id": row.thread_id}}, subgraphs=True)
    except SegueError:
        return row.reply_language
    nested = (task.state.values for task in state.tasks if isinstance(task.state, StateSnapshot))
    known = [values for values in (*nested, state.values) if values.get("task_id") == row.task_id]
    return next((str(values["language"]) for values in known if values.get("language")), row.reply_language)


def thread_config(thread_id: str) -> RunnableConfig:
    """LangGraph's way to name a thread."""
    return {"configurable": {"thread_id": thread_id}}


def config_of(place: Place) -> RunnableConfig:
    """LangGraph's way to name a snapshot."""
    return {
        "configurable": {
            "thread_id": place.thread_id,
            "checkpoint_ns": place.inside,
            "checkpoint_id": place.checkpoint_id,
        }
    }


async def close_turn(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig,
    state: StateSnapshot,
    row: Task,
    calls: Sequence[Call],
    partial: str,
    result: Json,
) -> None:
    """End the turn of a task that will not continue, so that the thread can take the next message.

    `calls` are the task's in the ledger, all settled. Their exchange and `partial`, marked as interrupted, follow what
    the history has. `state` is the thread's, and belongs to the task.
    """
    values = state.values
    if values.get("result") and not state.tasks:
        return  # it had ended, or was closed before
    mark = phrase("interrupted", row.language or values.get("language") or "en")
    closing = AIMessage(f"{partial}\n\n{mark}".strip(), additional_kwargs={"interrupted": True})
    messages = values.get("messages", [])
    added = [HumanMessage(note, additional_kwargs={STEER: True}) for note in row.notes[len(additions(messages)) :]]
    update = {
        "messages": [*added, *_missing(messages, row, calls), closing],
        "result": result,
        "assignment": None,
    }
    await graph.aupdate_state(config, {**update, "task_id": row.task_id}, as_node="FINISH")


def _missing(messages: Sequence[AnyMessage], row: Task, calls: Sequence[Call]) -> list[AnyMessage]:
    """The exchanges of the calls that the history does not have yet, a recursion's or step's together."""
    known = [m.additional_kwargs.get("key") for m in messages if isinstance(m, ToolMessage)]
    rounds: dict[str, list[Settled]] = {}
    for place, call in enumerate(calls):
        key = CallKey(row.task_id, call.scope, call.idx)
        if asdict(key) not in known:
            call_id = f"{row.task_id[:8]}-{place}"
            settled = _settled(call, call_id, key, row.language or "en")
            rounds.setdefault(call.scope, []).append(settled)
    return [message for made in rounds.values() for message in exchange("", made)]


def _settled(call: Call, call_id: str, key: CallKey, language: str) -> Settled:
    """A call as the history keeps it; of one with a hidden result, nothing that a model may not see."""
    outcome = call.outcome or {}
    arguments = {} if outcome.get(HIDDEN) else call.arguments
    return Settled(call_id, call.name, arguments, seen_outcome(outcome, key, language), key)


def cancelled_result(
    row: Task, partial: str, calls: Sequence[Call], unknown: Sequence[Json], known: Projection, agent: Agent | None
) -> Json:
    """The result of a task that was cancelled: what it thought, called and used until then, from its log and ledger.

    Without its agent, costs are in US dollars.
    """
    budget, usage = agent.budget if agent else Budget(), known.usage.as_dict()
    if usage["cost"]:
        usage["currency"] = agent.prices.currency if agent and agent.prices else USD
    history = [
        {
            "step": step,
            "phase": "execution",
            "action": call.name,
            "result": truncate_result(call.outcome or {}, budget.result_chars),
            "description": "",
        }
        for step, call in enumerate(calls, start=1)
    ]
    result = compose_result(
        row.mode,
        partial,
        history=history,
        reasoning="\n".join(text for text in known.thoughts if text),
        total_steps=len(history),
        usage=usage,
    )
    model = next(reversed(known.models), "")
    return {**result, "success": False, "status": "cancelled", "unknown_outcomes": [*unknown], "model": model}


def stopped(row: Task) -> Json:
    """The result of a task that was stopped before it had one."""
    return {"success": False, "answer": "", "mode": row.mode, "status": "paused"}
