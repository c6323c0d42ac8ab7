"""The commands of `segue` that start, change or stop work; the read-only ones are in `commands/inspect.py`."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from . import options
from .commands import inspect
from .commands.inbox import waiting
from .commands.inspect import ask
from .commands.memory import memory
from .commands.report import report
from .commands.simulate import simulate
from .commands.workflows import workflows
from .dialog.verdicts import with_bare_approvals
from .exits import EXIT_CODES, report_errors
from .settings import DEFAULT_DATABASE, Settings
from .views.sanitize import from_shell

app = typer.Typer(
    name="segue",
    help=f"Talk with tool-using agents that do not lose work.\n\nExit codes: {EXIT_CODES}.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """The entry point of the console script."""
    app(prog_name="segue")


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"segue {version('segue')}")
        raise typer.Exit


@app.callback()
def segue(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options before a command."""


@app.command()
@options.with_message_options
def chat(
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE", help="The message, or - to read it from standard input; interactive without one."
        ),
    ] = None,
    mode: options.Mode = "",
    *,
    shared: options.MessageOptions,
) -> None:
    """Send a message, or start an interactive conversation."""
    if message is None and (shared.as_json or shared.steer):
        raise typer.BadParameter(
            "it needs a MESSAGE, or - to read one from standard input",
            param_hint="--json" if shared.as_json else "--steer",
        )
    settings = shared.settings(mode)
    with report_errors(settings):
        if message is None:
            from .commands.chat import interactive

            raise typer.Exit(interactive(settings))
        from .dialog.loop import one_shot

        raise typer.Exit(one_shot(settings, _read(message), as_json=shared.as_json, steer=shared.steer))


@app.command()
@options.with_message_options
def run(
    text: Annotated[str, typer.Argument(metavar="GOAL", help="The goal, or - to read it from standard input.")],
    file: options.Files = None,
    *,
    shared: options.MessageOptions,
) -> None:
    """Break a goal down into subtasks and run them.

    Ctrl-C pauses the task; `segue resume` continues it.
    """
    settings = shared.settings()
    with report_errors(settings):
        from .commands.run import run_goal

        raise typer.Exit(run_goal(settings, _read(text), file or (), as_json=shared.as_json, steer=shared.steer))


def _read(message: str) -> str:
    """The message, or standard input in place of -."""
    return sys.stdin.buffer.read().decode("utf-8", "replace") if message == "-" else from_shell(message)


@app.command()
def resume(
    task_id: Annotated[str | None, options.TASK_ID] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Resume every task that was paused or interrupted, four at a time.")
    ] = False,
    model: options.OtherModel = "",
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfResumed = False,
) -> None:
    """Resume a paused, interrupted or failed task.

    A task that waits for an answer asks again.
    """
    if (task_id is None) != every:
        raise typer.BadParameter("give either a task id or --all", param_hint="TASK_ID")
    settings = Settings(db, agents, model=model)
    with report_errors(settings):
        if task_id is None:
            from .commands.resume import resume_all

            raise typer.Exit(resume_all(settings, as_json=as_json))
        from .dialog.loop import resumed

        raise typer.Exit(resumed(settings, task_id, as_json=as_json))


class _AnswerCommand(TyperCommand):
    """Takes --approve also without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_bare_approvals(args))


@app.command(cls=_AnswerCommand)
def answer(
    task_id: options.TaskId,
    text: options.AnswerText = None,
    finish: options.Finish = False,
    approve: options.Approve = None,
    edit: options.Edit = None,
    reject: options.Reject = None,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOption = False,
) -> None:
    """Answer what a task waits with, and resume it.

    A question is answered with a text. Calls that wait are approved, edited or rejected: an
    option names its call by the number shown with it, or applies to every call that no other
    option names. Without either you are asked.
    """
    settings = Settings(db, agents)
    answer_to: dict[str, Any] | None = {"manual_finish": True} if finish else None if text is None else {"answer": text}
    if (text is not None) + finish + any((approve, edit, reject)) > 1:
        raise typer.BadParameter("give a text, --finish, or what becomes of the calls", param_hint="ANSWER")
    with report_errors(settings):
        from .dialog.loop import answered

        verdicts = (approve or (), edit or (), reject or ())
        raise typer.Exit(answered(settings, task_id, verdicts, answer_to, as_json=as_json))


@app.command()
def pause(task_id: options.TaskId, agents: options.TaskAgents = "", db: options.Database = DEFAULT_DATABASE) -> None:
    """Pause a task at its next checkpoint."""
    from .commands.control import paused

    settings = Settings(db, agents)
    for line in ask(settings, lambda opened: paused(opened, settings, task_id)):
        typer.echo(line)


@app.command()
def cancel(task_id: options.TaskId, agents: options.TaskAgents = "", db: options.Database = DEFAULT_DATABASE) -> None:
    """Cancel a task, whether it runs or not."""
    from .commands.control import cancelled

    settings = Settings(db, agents)
    for line in ask(settings, lambda opened: cancelled(opened, settings, task_id)):
        typer.echo(line)


@app.command()
def recover(
    session: options.SessionName,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Repair a damaged session.

    If necessary it goes back to its newest readable snapshot.
    """
    from .commands.control import recovered

    settings = Settings(db, agents)
    lines, code = ask(settings, lambda opened: recovered(opened, settings, session))
    typer.echo("\n".join(lines))
    raise typer.Exit(code)


@app.command()
def delete(
    session: options.SessionName,
    keep_memory: Annotated[
        bool, typer.Option("--keep-memory", help="Keep what its tasks wrote to memory files.")
    ] = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Delete a session and everything that it holds.

    Its forks stay. A session with a running task is not deleted.
    """
    settings = Settings(db, agents)
    ask(settings, lambda opened: opened.delete(session, keep_memory=keep_memory))
    typer.echo(settings.say("session_deleted", session=session))


@app.command()
def serve(
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    workers: options.Workers = 1,
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Serve the HTTP API.

    Only this machine can connect unless SEGUE_API_KEY is set.
    """
    with report_errors():
        from .commands.serve import serve as answer_over_http

        answer_over_http(Settings(db, agents), host, port, workers)


app.command()(simulate)
for command in (
    inspect.threads,
    inspect.tasks,
    waiting,
    inspect.history,
    inspect.trace,
    inspect.graph,
    inspect.modes,
    inspect.agents,
    inspect.doctor,
    report,
    workflows,
):
    app.command()(command)
app.add_typer(memory)
