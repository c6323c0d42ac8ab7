"""Plans: `Plan`, `Step` and `Status`, which all graphs share, and plans that a model writes as text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import count
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .errors import Clause, IllegalTransition, InvalidPlan, listed, together

Phase = Literal["planning", "execution", "generation"]
NO_TOOL = ("", "none", "null", "answer", "generate")
"""Actions that call no tool."""
ANSWERING = ("answer", "generate")
"""Those of them that are the answer."""

MAX_STEPS = 50
_REFERENCE = re.compile(r"steps\.([^.]+)\.(result.*)", re.DOTALL)


class Status(StrEnum):
    """The status of a plan step."""

    PENDING = "pending"
    """Not begun."""
    RUNNING = "running"
    """Under way; a crash leaves it here and a resume continues from it."""
    DONE = "done"
    """Carried out. Final."""
    ERROR = "error"
    """Failed; a repair or a new plan may set it running or pending again."""
    SKIPPED = "skipped"
    """Skipped on purpose, with a reason. Final."""


TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.SKIPPED, Status.DONE, Status.ERROR}),
    Status.RUNNING: frozenset({Status.DONE, Status.ERROR, Status.SKIPPED, Status.PENDING}),
    Status.ERROR: frozenset({Status.RUNNING, Status.PENDING, Status.SKIPPED}),
    Status.DONE: frozenset(),
    Status.SKIPPED: frozenset(),
}
FINAL = frozenset({Status.DONE, Status.SKIPPED})


class Step(BaseModel):
    """One item of a plan."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step_id: str
    description: str = ""
    status: Status = Status.PENDING
    action: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    phase: Phase = "execution"
    depends_on: tuple[str, ...] = ()
    note: str = ""

    @field_validator("step_id", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> str:
        return str(value)

    @field_validator("depends_on", mode="before")
    @classmethod
    def _all_text(cls, value: object) -> object:
        return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else value

    @property
    def uses_tool(self) -> bool:
        return self.action.strip().lower() not in NO_TOOL

    @property
    def written_by_answer(self) -> bool:
        """Whether writing the answer is all that the step asks for."""
        return not self.uses_tool and (self.phase == "generation" or self.action.strip().lower() in ANSWERING)


AnyStep = TypeVar("AnyStep", bound=Step)


class Plan(BaseModel):
    """A goal and its steps, in order."""

    model_config = ConfigDict(frozen=True)

    goal: str = ""
    steps: tuple[Step, ...] = ()


def advance(step: AnyStep, new: Status, note: str = "") -> AnyStep:
    """Return the step in its new status; the same status again changes nothing, and what is done has no old note."""
    if new == step.status:
        return step
    if new not in TRANSITIONS[step.status]:
        raise IllegalTransition(step.status, new)
    return step.model_copy(update={"status": new, "note": note or ("" if new == Status.DONE else step.note)})


def set_status(steps: Sequence[AnyStep], step_id: str, new: Status, note: str = "") -> tuple[AnyStep, ...]:
    """Advance one step of a plan, leaving the others as they are."""
    return tuple(advance(step, new, note) if step.step_id == step_id else step for step in steps)


def open_steps(plan: Iterable[Mapping[str, Any]]) -> int:
    """How many steps of a stored plan are still to be done."""
    return sum(step["status"] in {Status.PENDING, Status.RUNNING} for step in plan)


def ready(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The pending steps whose dependencies are all done, in the plan's order."""
    done = {step.step_id for step in steps if step.status in FINAL}
    return tuple(step for step in steps if step.status == Status.PENDING and done.issuperset(step.depends_on))


def natural_key(step_id: str) -> list[tuple[int, int, str]]:
    """Sort "2" before "10" and "2.1" between "2" and "3"."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", step_id) if part]


def keep_finished(old: Sequence[Step], new: Sequence[Step], *, failed: bool = False) -> tuple[Step, ...]:
    """Merge a new plan into an old one: what is done stays done, and stays in the plan, ahead of the new steps.

    With `failed`, so does what failed; the same step again in the new plan tries it again. A new step that took the
    number of one that stays for something else gets a number of its own.
    """
    stays = {Status.DONE, Status.ERROR} if failed else {Status.DONE}
    kept = {step.step_id: step for step in old if step.status in stays}
    new = _renumber_clashing(kept, new)
    again = {step.step_id for step in new if step.step_id in kept and kept[step.step_id].status == Status.ERROR}
    kept = {step_id: step for step_id, step in kept.items() if step_id not in again}
    return (*kept.values(), *(step for step in new if step.step_id not in kept))


def _renumber_clashing(finished: Mapping[str, Step], new: Sequence[Step]) -> Sequence[Step]:
    def other(step: Step) -> bool:
        done = finished.get(step.step_id)
        if done is None or step.status == Status.DONE:
            return False
        if step.action or done.action:
            return (step.action, step.params) != (done.action, done.params)
        return step.description not in ("", done.description)

    taken = {*finished, *(step.step_id for step in new)}
    free = (str(number) for number in count(1) if str(number) not in taken)
    moved = {step.step_id: next(free) for step in new if other(step)}
    return [
        step.model_copy(
            update={
                "step_id": moved.get(step.step_id, step.step_id),
                "depends_on": tuple(moved.get(need, need) for need in step.depends_on),
                "params": _renumber_references(step.params, moved),
            }
        )
        for step in new
    ]


def _renumber_references(value: Any, moved: Mapping[str, str]) -> Any:
    """Parameters with their references following the steps that got another number."""
    if isinstance(value, Mapping):
        return {name: _renumber_references(inner, moved) for name, inner in value.items()}
    if isinstance(value, list):
        return [_renumber_references(inner, moved) for inner in value]
    if isinstance(value, str) and (found := _REFERENCE.match(value)) and found[1] in moved:
        return f"steps.{moved[found[1]]}.{found[2]}"
    return value


def _cycle(steps: Sequence[Step]) -> list[str]:
    """Ids of steps that wait for each other, found by taking away what can run and what nothing waits for."""
    left = {step.step_id: set(step.depends_on) for step in steps}
    while free := [i for i, needs in left.items() if not needs & left.keys() or not any(i in n for n in left.values())]:
        for step_id in free:
            del left[step_id]
    return sorted(left, key=natural_key)


def problems(steps: Sequence[Step], tools: Iterable[str] | None = None, max_steps: int = MAX_STEPS) -> list[Clause]:
    """Say everything that is wrong with a plan; an empty list means that it can run.

    A step that is final needs nothing any more: a new plan may leave out what it once depended on.
    """
    found: list[Clause] = []
    ids = [step.step_id for step in steps]
    known = None if tools is None else tuple(tools)
    to_run = [step for step in steps if step.status not in FINAL]
    if not steps:
        found.append(Clause("the plan has no steps"))
    if len(steps) > max_steps:
        found.append(Clause("the plan has {n} steps; the limit is {most}", n=len(steps), most=max_steps))
    twice = sorted({i for i in ids if ids.count(i) > 1})
    found += [Clause("step id {step} is used more than once", step=repr(step_id)) for step_id in twice]
    for step in to_run:
        missing = [need for need in step.depends_on if need not in ids]
        found += [
            Clause("step {step} depends on {need}, which is not a step", step=step.step_id, need=repr(need))
            for need in missing
        ]
        if known is not None and step.uses_tool and step.action not in known:
            about = {"step": step.step_id, "tool": repr(step.action), "known": listed(known)}
            found.append(Clause("step {step} names the unknown tool {tool}; use one of: {known}", **about))
    if circle := _cycle(to_run):
        found.append(Clause("steps {steps} wait for each other", steps=", ".join(circle)))
    return found


def validate(plan: Plan, tools: Iterable[str] | None = None) -> Plan:
    """Return the plan if it can run."""
    if found := problems(plan.steps, tools):
        raise InvalidPlan("The plan cannot run: {why}.", why=together(found))
    return plan


_NUMBER = r"(?>\d+(?:\.\d+)*|[一二三四五六七八九十]+(?!\d))"
_NUMBERED = re.compile(
    rf"""[\s\-*\#>•]*(?:
        (?: step\s*({_NUMBER}) | 步骤\s*({_NUMBER}) | 第\s*({_NUMBER})\s*步骤? )(?!\d)\s*+[.)）、:：．，,-]?
      | [(（]?({_NUMBER})(?: [)）、:：．] | [.] )(?!\d)
      | (\d+(?:\.\d+)+)(?=\s)
    )\s*+(.*)$""",
    re.VERBOSE | re.IGNORECASE,
)
_BOLD = re.compile(r"^([\s\-#>•]*)\*\*(.+?)\*\*")
_CHINESE = {"": 0} | {digit: value for value, digit in enumerate("一二三四五六七八九", start=1)}


def lines_of(text: str) -> list[Any]:
    """A plan in text: its numbered lines with what follows each, or every line where none is numbered."""
    steps: list[tuple[str, list[str]]] = []
    plain: list[str] = []
    for line in text.splitlines():
        if numbered := numbered_line(line):
            steps.append((numbered["step_id"], [numbered["description"]]))
        elif not (content := line.strip(" \t-*•")):
            continue
        elif not steps:
            plain.append(content)
        elif content.strip():
            steps[-1][1].append(content.rstrip())
    return [{"step_id": step_id, "description": " ".join(parts).strip()} for step_id, parts in steps] or [*plain]


def numbered_plan(text: str) -> list[dict[str, str]]:
    """The numbered lines of a text that is a plan: two of them at least, else none."""
    steps = [step for line in text.splitlines() if (step := numbered_line(line)) and step["description"]]
    ids = [step["step_id"] for step in steps]
    return steps if len(steps) > 1 and len({*ids}) == len(ids) else []


def numbered_line(line: str) -> dict[str, str] | None:
    """The step of a line such as "1. look", "第一步：看" or "Step 1: look"; None if it has no number."""
    found = _NUMBERED.match(_BOLD.sub(r"\1\2", line))
    if not found:
        return None
    number = next(group for group in found.groups() if group)
    return {"step_id": _in_digits(number), "description": found[6].strip()}


def _in_digits(number: str) -> str:
    """ "十一" as "11"; digits stay as they are."""
    if number[0] not in _CHINESE and number[0] != "十":
        return number
    tens, ten, ones = number.rpartition("十")
    value = (_CHINESE.get(tens) or 1) * 10 + _CHINESE.get(ones, 0) if ten else _CHINESE.get(number, 0)
    return str(value) if value else number
