"""How the steps of a plan move."""

from segue.events import StepUpdate
from segue.plan import Status, Step, ready, set_status


def step_event(task_id: str, step: Step) -> StepUpdate:
    """The event of a step that changed."""
    return StepUpdate(
        task_id=task_id, step_id=step.step_id, status=step.status.value, description=step.description, note=step.note
    )


def thought_through(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan with its ready steps without a tool done: nothing has to wait for a mere thought."""
    while thoughts := [step.step_id for step in ready(steps) if not step.uses_tool]:
        for step_id in thoughts:
            steps = set_status(steps, step_id, Status.DONE)
    return steps
