"""The text of a workflow for a language model."""

import json
from collections.abc import Mapping
from typing import Any

from ...prompts.load import render
from ...prompts.rehearsal import rehearsed
from .scenario import Persona
from .workflow import Step, Workflow


def instructions(workflow: Workflow) -> str:
    """The instructions of a bot that follows the workflow: slots, procedure, answers, preconditions and the policy."""
    return render(
        "workflow_bot",
        workflow.language,
        description=workflow.description,
        slots=_listed({name: f"{slot.description}" for name, slot in workflow.slots.items()}),
        procedure="\n".join(_step(place, step) for place, step in enumerate(workflow.procedure, start=1)),
        preconditions=_preconditions(workflow),
        answers=_listed(workflow.answers),
        policy=workflow.policy,
    )


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in texts.items())


def _step(place: int, step: Step) -> str:
    lines = [f"{place}. {step.description}"]
    if step.when:
        lines.append(f"   when: {json.dumps(dict(step.when), ensure_ascii=False)}")
    if step.call:
        lines.append(f"   call: {step.call}")
    lines += [f"   {status} → {failure.answer}" for status, failure in step.failures.items()]
    if step.answer:
        lines.append(f"   answer: {step.answer}")
    return "\n".join(lines)


def _preconditions(workflow: Workflow) -> str:
    required: dict[str, Any] = {name: ", ".join(api.requires) for name, api in workflow.apis.items() if api.requires}
    return _listed({name: rehearsed("requires", workflow.language, names=names) for name, names in required.items()})


def persona_text(workflow: Workflow, persona: Persona) -> str:
    """Who a simulated user is and what it knows, for a language model that plays it."""
    facts = {
        workflow.slots[name].description: fact if isinstance(fact, str) else " → ".join(fact)
        for name, fact in persona.facts.items()
        if name in workflow.slots
    }
    parts = [persona.profile, persona.style, rehearsed("knows", workflow.language, facts=_listed(facts))]
    if persona.requests:
        parts.append(rehearsed("also", workflow.language, requests=" ".join(persona.requests)))
    return "\n".join(part for part in parts if part)
