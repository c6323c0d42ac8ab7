"""Commands on tasks: resume, answer, pause, cancel, rate, and the list of those that wait for a person."""

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ...core.errors import TaskError
from ...core.task import TaskStatus
from .. import options
from ..exits import report_errors
from ..lookup import LATEST, ask, find_task, for_task, named
from ..output import echo
from ..settings import DEFAULT_DATABASE, SHORT, Settings, task_command
from ..verdicts import Answer, Decisions, with_bare_approvals
from ..views.console import flat, indented, output, printable, write_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rich.console import Console

    from ...app import App
    from ...core.records import Task, WaitingTask


def resume(
    task_id: options.TaskId = None,
    last: options.Last = False,
    every: Annotated[
        bool, typer.Option("--all", help="Resume every paused or interrupted task, four at a time.")
    ] = False,
    model: options.OtherModel = "",
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfResumed = False,
) -> None:
    """Resume a paused, interrupted or failed task.

    A task that waits for an answer asks again.
    """
    if (task_id is not None) + last + every != 1:
        raise typer.BadParameter("give a TASK_ID, --last or --all", param_hint="TASK_ID")
    settings = Settings(db, agents, model=model)
    with report_errors(settings):
        if every:
            from .resume import resume_all

            raise typer.Exit(resume_all(settings, as_json=as_json))
        from ..dialog import resumed

        name = task_id or LATEST
        raise typer.Exit(resumed(for_task(settings, name), name, as_json=as_json))


class AnswerCommand(TyperCommand):
    """Takes --approve also without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_bare_approvals(args))


def answer(
    task_id: options.TaskId = None,
    text: options.AnswerText = None,
    last: options.Last = False,
    finish: options.Finish = False,
    approve: options.Approve = None,
    edit: options.Edit = None,
    reject: options.Reject = None,
    respond: options.Respond = None,
    always: options.Always = None,
    only: options.Only = None,
    flow: options.Flow = False,
    question: options.Question = "",
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOption = False,
) -> None:
    """Answer a task's question or approve its calls, and resume it.

    Answer a question with a text. Approve, edit or reject calls by the number shown with each; an
    option without a number applies to all other calls. Without a text or an option you are asked
    interactively. Without a TASK_ID it is the only task that waits; --last is the newest of them.
    """
    if last and text is None:
        task_id, text = None, task_id
    if task_id and last:
        raise typer.BadParameter("give either a TASK_ID or --last", param_hint="TASK_ID")
    answer_to: Answer | str | None = {"manual_finish": True} if finish else text
    if (text is not None) + finish + any((approve, edit, reject, respond, always, only, flow)) > 1:
        raise typer.BadParameter("give a text, --finish, or decisions on the calls", param_hint="ANSWER")
    if (only or flow) and not always:
        hint = "--only" if only else "--flow"
        raise typer.BadParameter("it needs --always task or --always session", param_hint=hint)
    name = task_id or _find_waiting(Settings(db), newest=last)
    settings = for_task(Settings(db, agents), name)
    with report_errors(settings):
        from ..dialog import answered

        decisions = Decisions(approve or (), edit or (), reject or (), respond or (), always or "", only or (), flow)
        raise typer.Exit(answered(settings, name, decisions, answer_to, question, as_json=as_json))


def _find_waiting(settings: Settings, *, newest: bool) -> str:
    """The id of the newest task that waits for an answer, or of the only one."""
    found = ask(settings, lambda app: app.tasks.waiting())
    with report_errors(settings):
        if not found:
            raise TaskError("No task is waiting for an answer: `segue waiting` lists those that are.")
    if len(found) > 1 and not newest:
        _print_waiting(found, settings)
        raise typer.BadParameter("several tasks wait: give a TASK_ID or --last", param_hint="TASK_ID")
    return found[-1].task_id


def pause(
    task_id: options.TaskId = None,
    last: options.Last = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Pause a task at its next checkpoint."""
    settings, name = Settings(db, agents), named(task_id, last)

    task = ask(settings, lambda app: _task_after(app, name, app.pause))
    said = {TaskStatus.PAUSED: "task_paused", TaskStatus.DONE: "task_ended"}.get(task.status, "task_pausing")
    echo(settings.say(said, task_id=task.task_id))
    if task.status != TaskStatus.DONE:
        echo(task_command(settings, "resume", task.task_id))


def cancel(
    task_id: options.TaskId = None,
    last: options.Last = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Cancel a task, running or not."""
    settings, name = Settings(db, agents), named(task_id, last)

    task = ask(settings, lambda app: _task_after(app, name, app.cancel))
    echo(settings.say("session_accepts_next", task_id=task.task_id, session=task.session_id))
    if unknown := (task.result or {}).get("unknown_outcomes"):
        echo(settings.say("check_calls", names=", ".join(printable(call["name"]) for call in unknown)))


def event(
    task_id: Annotated[str, options.TASK_ID],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the event that the task waits for.")],
    data: Annotated[str, typer.Option("--data", metavar="JSON", help="Data for the task.")] = "null",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Send an event to a task that waits for it, or will wait.

    The task continues in a running segue serve, segue worker or segue schedules --run.
    """
    settings = Settings(db)
    try:
        given = json.loads(data)
    except ValueError:
        raise typer.BadParameter("it is not valid JSON", param_hint="--data") from None

    async def send(app: "App") -> str:
        found = await app.tasks.find(task_id)
        await app.tasks.send_event(found, name, given)
        return found

    echo(settings.say("event_sent", event=printable(name), task_id=ask(settings, send)))


def spawn(
    task_id: Annotated[str, options.TASK_ID],
    description: Annotated[str, typer.Argument(metavar="DESCRIPTION", help="What is to be done.")],
    after: Annotated[
        list[str] | None, typer.Option("--after", metavar="ID", help="A subtask that it needs; may be repeated.")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", help="Lower runs first.")] = 0,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds that it may take.")] = None,
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Add a subtask to a lifecycle run, which takes it up after the subtasks under way."""
    settings = Settings(db)

    async def add(app: "App") -> str:
        found = await app.tasks.find(task_id)
        about: dict[str, Any] = {"depends_on": after or (), "priority": priority, "timeout": timeout}
        return await app.tasks.spawn_subtask(found, description, **about)

    echo(settings.say("subtask_added", name=printable(ask(settings, add))))


def rate(
    rating: Annotated[int, typer.Argument(metavar="RATING", help="1 (useless) to 5 (excellent).")],
    task_id: options.TaskId = None,
    last: options.Last = False,
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Rate a task's answer from 1 to 5."""
    settings, name = Settings(db), named(task_id, last)

    task = ask(settings, lambda app: _task_after(app, name, partial(app.sessions.rate, rating=rating)))
    echo(settings.say("rated", task_id=task.task_id, rating=rating))


async def _task_after(app: "App", name: str, request: "Callable[[str], Awaitable[None]]") -> "Task":
    """The task after a request."""
    task_id = await find_task(app, name)
    await request(task_id)
    return await app.task(task_id)


def waiting(db: options.Database = DEFAULT_DATABASE, as_json: options.JsonOfList = False) -> None:
    """List the tasks that need an answer, and how to give it."""
    settings = Settings(db)
    found = ask(settings, lambda app: app.tasks.waiting())
    if as_json:
        return write_json([task.json() for task in found], indent=2)
    if not found:
        output().print(settings.say("none_waiting"))
    _print_waiting(found, settings)


def _print_waiting(tasks: "Sequence[WaitingTask]", settings: Settings) -> None:
    """Each task's question and since when it waits; then the commands that answer them, once where tasks share them."""
    from rich.text import Text

    from ...prompts.catalogue import word
    from ..approval import print_question
    from ..hints import answer_hints
    from ..views.console import print_prose
    from ..views.tables import message_text, when

    console, shared = output(), dict[str, list[str]]()
    for task in tasks:
        language, question = settings.language_for(task.message), task.json()
        about = f"{word('session', language)} {task.session_id}  {word('agent', language)} {task.agent_id}"
        title = Text.assemble((task.task_id[:SHORT], "bold"), (f"  {flat(about)}  {when(task.since)}", "dim"))
        print_prose(console, title.append(f"\n  {message_text(task.message, language, 120)}"))
        if task.kind:
            print_question(console, question, language)
        if len(tasks) > 1 and task.kind in ("approval", "question"):
            hints = answer_hints(settings, "TASK_ID", question)
            shared.setdefault("\n".join(hint.partition(" --edit ")[0] for hint in hints), hints)
            console.print()
        else:
            _print_hints(console, answer_hints(settings, task.task_id, question) if task.kind else [task.problem])
    for hints in shared.values():
        _print_hints(console, hints)


def _print_hints(console: "Console", hints: "Sequence[str]") -> None:
    from rich.text import Text

    for line in hints:
        console.print(Text(indented(line), style="dim"), soft_wrap=True)
    console.print()
