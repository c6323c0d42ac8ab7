"""The review of a plan: a person approves, edits or rejects it before it runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import StructuredTool
from pydantic import ValidationError

from segue.core.calls import ASK_USER, REVIEW_PLAN, Tool
from segue.core.errors import InvalidPlan, listed
from segue.core.events import Durable
from segue.core.json import object_schema
from segue.core.plan import FINAL, Plan, Status, Step, keep_finished, validate
from segue.core.records import Json
from segue.core.reviews import DECISIONS, OF_APPROVALS
from segue.prompts.catalogue import error_text
from segue.tools.adapters.client import misfit
from segue.tools.bound_tool import BadArguments, Marks, fit_arguments, refuse_unknown
from segue.tools.calls import TOOLS
from segue.tools.registry import BoundTool

from .context import NodeContext, references
from .permission import approval_events, ask_person, question_of

# The steps of a plan as a model or a person writes them.

_FIELDS = ("action", "params", "description", "phase", "depends_on")
"""What a step says beside its id and its status."""


def _step_id_in(item: Mapping[str, Any], place: int) -> str:
    """The id of a step as a draft has it; else its place."""
    return str(item.get("step", item.get("step_id", place)))


def read_draft(drafted: object) -> tuple[Step, ...]:
    """The steps; one that declares no dependencies follows the one before it and what its parameters refer to.

    One without a description has the name of its tool.
    """
    if not isinstance(drafted, list) or not drafted:
        raise InvalidPlan("The plan has no steps: give at least one.")
    steps: list[Step] = []
    for place, item in enumerate(drafted, start=1):
        if not isinstance(item, dict):
            raise InvalidPlan("Step {place} is not an object.", place=place)
        try:
            given = {name: item[name] for name in _FIELDS if item.get(name) is not None}
            step = Step(**{**given, "step_id": _step_id_in(item, place)})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidPlan("Step {place}: {where}: {why}.", place=place, where=where, why=first["msg"]) from error
        needs = [steps[-1].step_id] if item.get("depends_on") is None and steps else list(step.depends_on)
        needs += [need for need in referenced_steps(step.params) if need not in needs]
        needs = [need for need in needs if need != step.step_id]
        said = step.description or (step.action if step.uses_tool else "")
        changes = {"depends_on": tuple(needs), "description": said}
        steps.append(step.model_copy(update=changes))
    return tuple(steps)


def referenced_steps(params: Any) -> list[str]:
    """The ids of the steps that parameters refer to."""
    parts = [reference.split(".") for reference in references(params)]
    return [part[1] for part in parts if len(part) > 1 and part[0] == "steps"]


def plan_actions(tools: Iterable[str], asks_user: bool) -> list[str]:
    """What the steps of a plan may call: the tools, and a question where the task may ask the user."""
    return [*tools, *([ASK_USER] if asks_user else [])]


# The question, which is an approval of one call: every place that shows approvals shows it.

_SCHEMA = object_schema("goal", "steps", goal={"type": "string"}, steps={"type": "array", "items": {"type": "object"}})


_Check = Callable[[Mapping[str, Any]], object]
"""Raises InvalidPlan for a draft that cannot run."""


@dataclass(frozen=True)
class _Review:
    """What a person decided: the plan in the form of a draft, None where they rejected it, with the reason."""

    draft: Mapping[str, Any] | None
    edited: bool = False
    reason: str = ""
    events: Sequence[Durable] = ()


def review(
    work: NodeContext, goal: str, steps: Sequence[Step], check: _Check, language: str, **ids: Any
) -> _Review | None:
    """Interrupt the graph until a person has decided about a plan; None where nobody reviews it.

    After an edit that cannot run they are asked again.
    """
    if not work.reviews_plan:
        return None

    def check_edit(draft: Mapping[str, Any]) -> None:
        check(draft)
        _refuse_without_effect(draft["steps"], shown["steps"], {name: tool.spec for name, tool in work.tools.items()})

    shown: dict[str, Any] = {"goal": goal, "steps": [_shown(step) for step in steps]}
    tool = _tool(check_edit, language)
    if not (work.services.executor or TOOLS).needs_approval(tool):
        return None
    question = {**question_of(0, shown, tool), DECISIONS: [*OF_APPROVALS]}
    verdicts = ask_person([question], {REVIEW_PLAN: tool}, language, ())
    given, verdict = approval_events([question], verdicts, work.agent.agent_id, **ids), verdicts[0]
    if verdict.verdict == "reject":
        return _Review(None, reason=verdict.reason.strip(), events=given)
    edited = verdict.verdict == "edit"
    return _Review(_by_answer(verdict.arguments or {}, shown) if edited else shown, edited, events=given)


def _by_answer(draft: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """The edited plan, in which the answer carries out the steps that the person left without a tool: no call does."""
    before = {str(step["step"]): step["action"] for step in shown["steps"]}
    steps = []
    for place, item in enumerate(draft["steps"], start=1):
        step = Step(step_id=_step_id_in(item, place), action=item.get("action") or "")
        is_new = not step.uses_tool and before.get(step.step_id) != step.action
        steps.append({**item, "phase": "generation"} if is_new else item)
    return {**draft, "steps": steps}


def is_same_plan(old: Sequence[Step], new: Sequence[Step]) -> bool:
    """Whether a plan has the same steps, whatever became of them."""
    before, after = ([(s.step_id, s.description, s.action, s.params) for s in steps] for steps in (old, new))
    return before == after


_Specs = Mapping[str, Mapping[str, Any]]
"""The specifications of tools by name."""


def review_tool(call: Mapping[str, Any], specs: _Specs, asks_user: bool, language: str) -> Tool:
    """What checks the edit of a plan that a person is asked about; its steps may call these tools, or ask the user."""
    old = [Step(**{**step, "step_id": str(step["step"])}) for step in call["arguments"]["steps"]]
    finished = [step for step in old if step.status in FINAL]

    def check(draft: Mapping[str, Any]) -> None:
        validate(Plan(steps=keep_finished(finished, read_draft(draft.get("steps")))), plan_actions(specs, asks_user))
        _refuse_without_effect(draft["steps"], call["arguments"]["steps"], specs)

    return _tool(check, language)


def _refuse_without_effect(edited: Sequence[Json], shown: Sequence[Json], specs: _Specs) -> None:
    """Refuse what a person wrote into a plan and would have no effect, and a call that could not be made."""
    before = {str(step["step"]): step for step in shown}
    for place, item in enumerate(edited, start=1):
        step = _step_id_in(item, place)
        old = before.get(step, {})
        if unknown := item.keys() - {"step", "step_id", "status", *_FIELDS}:
            raise InvalidPlan(
                "Step {step} has the unknown field '{field}': use {known}.",
                step=step,
                field=min(unknown),
                known=listed(["step", *_FIELDS]),
            )
        status = old.get("status", Status.PENDING)
        if item.get("status") not in (None, status):
            raise InvalidPlan("The status of step {step} stays '{status}': leave it out.", step=step, status=status)
        if status in FINAL:
            continue
        if step in map(str, item.get("depends_on") or ()) or step in referenced_steps(item.get("params")):
            raise InvalidPlan("Step {step} depends on itself: name another step, or none.", step=step)
        action, params = item.get("action") or "", item.get("params") or {}
        if not action.strip() and (old.get("action") or all(each["action"] for each in shown)):
            raise InvalidPlan(
                "Step {step} has no action: name a tool, or write none for a step without one.", step=step
            )
        if action not in specs or (action, params) == (old.get("action"), old.get("params")):
            continue
        schema = specs[action]["function"].get("parameters") or {}
        later: Json = {name: {} for name in params if [*references(params[name])]}  # known when another step has run
        fitting = {**schema, "properties": {**schema.get("properties", {}), **later}}
        try:
            refuse_unknown(schema, params)
            why = misfit({"function": {"parameters": fitting}}, fit_arguments(fitting, params))
        except BadArguments as error:
            why = str(error)
        if why:
            raise InvalidPlan("Step {place}: {where}: {why}.", place=step, where="params", why=why)


def _shown(step: Step) -> dict[str, Any]:
    """A step as a person sees and edits it; of one that has begun, with its status."""
    written = step.model_dump(mode="json", include={*_FIELDS})
    begun = {} if step.status is Status.PENDING else {"status": step.status.value}
    return {"step": step.step_id, **{name: written[name] for name in _FIELDS}, **begun}


def _tool(check: _Check, language: str) -> BoundTool:
    async def refuse_to_run(**arguments: Any) -> Any:
        raise RuntimeError("A review is no call.")

    def checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            check(arguments)
        except InvalidPlan as error:
            raise BadArguments(error_text(error, language).rstrip(".。")) from error
        return {**arguments}

    about = "The plan that the task carries out."
    inner = StructuredTool.from_function(
        coroutine=refuse_to_run, name=REVIEW_PLAN, description=about, args_schema=_SCHEMA
    )
    spec = {"type": "function", "function": {"name": REVIEW_PLAN, "description": about, "parameters": _SCHEMA}}
    return BoundTool(
        inner=inner, marks=Marks(needs_approval=True), spec=spec, check=checked, synchronous=False, origin=REVIEW_PLAN
    )
