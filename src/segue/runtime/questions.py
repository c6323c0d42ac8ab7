"""Questions to people, their decisions, and what an upgrade of an agent asks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from ..core.actor import actor, current_actor, person
from ..core.approval import Approvals, decided_by, refusal
from ..core.audit import Act
from ..core.calls import WAIT, read_answer
from ..core.errors import InvalidAnswer, NotAnApprover, QuestionClosed, TaskError, listed
from ..core.events import QuestionAsked
from ..core.records import Json, Task
from ..core.task import TaskStatus
from ..nodes.permission import VERSIONS, versions_of
from ..prompts.catalogue import error_text, task_text
from .run import question_of, state_at, thread_config
from .runner import Runner

# Answers of persons: whether they may decide, what their decisions come to, and what the audit log has of them.

_VERDICTS = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "answered"}
_SINCE = "-"
"""Between the id of a question and the number of decisions since it was first asked."""


def interrupt_of(interrupt_id: str) -> str:
    """The id of LangGraph's interrupt that a question is."""
    return interrupt_id.partition(_SINCE)[0]


def open_part(question: Json, row: Task) -> Json:
    """What the next person is asked: the calls that wait on, with who approved them; each decision changes its id."""
    given = _given(question, row)
    if not given:
        return question
    found = [so_far for call in question["calls"] if (so_far := Approvals.of(call, given)).missing]
    shown = {**question, "interrupt_id": f"{question['interrupt_id']}{_SINCE}{len(given)}"}
    shown["calls"] = [each.question for each in found]
    notes = [_note(so_far, row.reply_language, alone=len(found) == 1) for so_far in found if so_far.given]
    return {**shown, "problem": " ".join(notes)} if notes else shown


def _given(question: Json, row: Task) -> Sequence[Json]:
    """What was decided about a question so far."""
    known = row.decisions
    return known["given"] if known and known["interrupt_id"] == interrupt_of(question["interrupt_id"]) else []


def _note(so_far: Approvals, language: str, *, alone: bool) -> str:
    name = "approved_by_some" if so_far.missing == 1 else "approved_by_few"
    who = listed(person(each["by"]) for each in so_far.given)
    sentence = task_text(name, language, who=who, n=so_far.missing)
    return sentence if alone else f"{so_far.call['name']}: {sentence}"


def with_refusals(question: Json, row: Task) -> Json:
    """The question, its calls that the actor may not approve with a sentence that says why."""
    if question["kind"] != "approval":
        return question
    return {**question, "calls": [_with_refusal(call, row) for call in question["calls"]]}


def _with_refusal(call: Json, row: Task) -> Json:
    why = _refusal(call, "approve", row)
    return {**call, "refused": error_text(why, row.reply_language)} if why else call


def _refusal(call: Mapping[str, Any], verdict: str, row: Task) -> NotAnApprover | None:
    return refusal(call, verdict, current_actor(), row.asked_by, row.user_id)


def decidable(question: Json, row: Task, answer: object) -> Json:
    """The question with the calls that the actor decides about with this answer."""
    return {**question, "calls": decided_by(question["calls"], answer, partial(_refusal, row=row))}


def with_decision(question: Json, row: Task, checked: Json, at: float) -> Json:
    """What persons decided about a question so far, the actor last, whose answer is in the form that is stored."""
    verdicts = checked["value"]["verdicts"]
    if not {each["index"] for each in verdicts} <= {call["index"] for call in question["calls"]}:
        raise QuestionClosed(row.task_id, checked["interrupt_id"], question)
    decidable(question, row, checked["value"])
    noted = {"by": actor(), "at": at, "shown": shown_digest(question)}
    given = [*_given(question, row), *({**verdict, **noted} for verdict in verdicts)]
    return {"interrupt_id": interrupt_of(question["interrupt_id"]), "given": given}


def final_answer(question: Json, decisions: Json) -> Json | None:
    """The answer that the decisions come to, in the form that is stored; None while somebody else has to decide.

    `question` is the whole one, with every call.
    """
    found = [Approvals.of(call, decisions["given"]) for call in question["calls"]]
    if any(each.missing for each in found):
        return None
    value = {"verdicts": [each.verdict for each in found], VERSIONS: versions_of(question["calls"])}
    return {"interrupt_id": decisions["interrupt_id"], "value": value}


def shown_digest(question: Json) -> str:
    """The digest of a question as a person was shown it, with the sources of its calls."""
    return sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()


def answer_act(question: Json, value: Any) -> Act | None:
    """What somebody decided who answered a question: of each call the verdict; None where no person was asked.

    `shown` is the digest of the question that was asked. Verdicts that differ are an edit if one is, else an approval.
    """
    if question["kind"] == WAIT:
        return None
    about = {"interrupt_id": question["interrupt_id"], "shown": shown_digest(question)}
    if question["kind"] != "approval":
        return Act("answered", about)
    names = {call["index"]: call["name"] for call in question["calls"]}
    calls = [_call(verdict, names) for verdict in value["verdicts"]]
    given = {call["verdict"] for call in calls}
    action = next(iter(given)) if len(given) == 1 else "edited" if "edited" in given else "approved"
    return Act(action, {**about, "calls": calls})


def _call(verdict: Mapping[str, Any], names: Mapping[int, str]) -> Json:
    about = {"index": verdict["index"], "name": names.get(verdict["index"], "")}
    always = {"always": verdict["always"]} if verdict.get("always") else {}
    return {**about, "verdict": _VERDICTS[verdict["verdict"]], **always}


# The question which version of its agent continues a task, and its answer.

CONTINUE, PIN = "continue", "pin"


def version_question(row: Task) -> Json:
    """What a person is asked of a task with an `offered_version`."""
    versions = {"old": row.agent_version, "new": row.offered_version}
    named = "/".join([row.task_id, *map(str, versions.values())])
    return {
        "kind": "question",
        "question": task_text("which_version", row.reply_language, agent=row.agent_id, **versions),
        "choices": [CONTINUE, PIN],
        "interrupt_id": sha256(named.encode()).hexdigest()[:32],
    }


def version_answer(answer: Any) -> str:
    """What a person decided: continue or pin."""
    given = read_answer(answer)
    choice = given.text.lower()
    if given.manual_finish or choice not in (CONTINUE, PIN):
        raise InvalidAnswer("Answer continue or pin to choose the version that continues the task.")
    return choice


def choose_version(row: Task, choice: str) -> tuple[Task, Json]:
    """The task with what was decided, and the columns that change."""
    changes: Json = {"offered_version": None, "on_upgrade": PIN}
    if choice == CONTINUE:
        changes |= {"on_upgrade": None, "agent_version": row.offered_version}
    return replace(row, **changes), changes


async def ask_about_version(runner: Runner, row: Task, version: str, **changes: Any) -> Task:
    """Let a task wait until a person decides whether this version of its agent continues it."""
    question = version_question(replace(row, offered_version=version))
    about = {name: question[name] for name in ("interrupt_id", "question", "choices")}
    asked = QuestionAsked(task_id=row.task_id, **about)
    status = None if row.status == TaskStatus.WAITING else TaskStatus.WAITING
    return await runner.move(row, status, events=[asked], **{**changes, "offered_version": version})


# What tasks ask persons.


class Questions:
    """The questions that tasks wait with."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def of(self, task_id: str) -> Json:
        """What a task asks the next person."""
        row = await self._runner.tasks.get(task_id)
        if row.asks_for_version:
            return version_question(row)
        return with_refusals(open_part(await self.whole(row), row), row)

    async def whole(self, row: Task) -> Json:
        """What a task asks, whatever some persons decided about it already."""
        state = await state_at(self._runner.graph, thread_config(row.session_id))
        asked = question_of(state.interrupts)
        if row.status != TaskStatus.WAITING or not asked:
            raise TaskError(
                "Task {task_id} is {status}: it is not waiting for an answer.", task_id=row.task_id, status=row.status
            )
        return {**asked.value, "interrupt_id": asked.id}

    async def open(self, task_id: str, interrupt_id: str, *, later: bool = False) -> Json:
        """What a task asks the next person, which must be the question of that id, where one is given.

        With `later` somebody may have decided about some of it since.
        """
        row = await self._runner.tasks.get(task_id)
        if interrupt_id and row.status != TaskStatus.WAITING:
            raise QuestionClosed(task_id, interrupt_id, status=row.status)
        asked = await self.of(task_id)
        known = (asked["interrupt_id"], interrupt_of(asked["interrupt_id"]) if later else "")
        if interrupt_id and interrupt_id not in known:
            raise QuestionClosed(task_id, interrupt_id, asked)
        return asked
