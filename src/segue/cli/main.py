"""The command line: the commands that start, change or stop a task, and the registration of all others."""

import gc
import sys
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from . import options
from .commands import inspect, rewind
from .commands.copy import copy
from .commands.inbox import waiting
from .commands.inspect import ask
from .commands.memory import memory
from .commands.permissions import permissions
from .commands.preferences import preferences, rate
from .commands.record import record, replay
from .commands.report import report
from .commands.simulate import simulate
from .commands.start import demo, init
from .commands.workflows import workflows
from .dialog.verdicts import Decisions, with_bare_approvals
from .exits import EXIT_CODES, remark, report_errors
from .latest import LATEST, named
from .remembered import continued, for_task
from .sections import SectionedGroup
from .settings import DEFAULT_DATABASE, Settings
from .views.consoles import piped_text
from .views.sanitize import from_shell

app = typer.Typer(
    name="segue",
    cls=SectionedGroup,
    help=f"Chat with durable agents.\n\nExit codes: {EXIT_CODES}.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

MOST_NEW = 10_000
"""New objects after which garbage is looked for: the imports of a start create many, which all stay."""


def main() -> None:
    """The entry point of the console script."""
    gc.set_threshold(MOST_NEW)
    try:
        app(prog_name="segue")
    finally:
        if "duckdb" not in sys.modules:  # which reports what is not collected as leaked
            gc.freeze()  # else the end of the process begins with a search of all that was imported


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


app.command()(demo)
app.command()(init)


@app.command()
@options.with_message_options
def chat(
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE", help="The message; what a pipe gives is added below it. Interactive without either."
        ),
    ] = None,
    mode: options.Mode = "",
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="A conversation, one message a line, also where standard input is no terminal."
        ),
    ] = False,
    files: options.MessageFiles = None,
    *,
    shared: options.MessageOptions,
) -> None:
    """Send a message, or start an interactive conversation."""
    settings = continued(shared.settings(mode))
    with report_errors(settings):
        if interactive or (message is None and sys.stdin.isatty()):
            _check_alone(message, shared)
            if files:
                raise typer.BadParameter("it needs a MESSAGE; in a conversation write /file PATH", param_hint="--file")
            from .commands.chat import converse

            raise typer.Exit(converse(settings))
        from .dialog.loop import one_shot

        settings = replace(settings, files=tuple(map(str, files or ())))
        text = read_message(settings, message)
        code = one_shot(settings, text, as_json=shared.as_json, steer=shared.steer, files=settings.files)
        raise typer.Exit(code)


def _check_alone(message: str | None, shared: options.MessageOptions) -> None:
    """Make sure that nothing is asked for which needs a message, or excludes a conversation."""
    if message is not None:
        raise typer.BadParameter("it takes no MESSAGE", param_hint="--interactive")
    if shared.as_json or shared.steer:
        raise typer.BadParameter("it needs a MESSAGE", param_hint="--json" if shared.as_json else "--steer")


@app.command()
@options.with_message_options
def run(
    text: Annotated[str, typer.Argument(metavar="GOAL", help="The goal; what a pipe gives is added below it.")],
    file: options.Files = None,
    *,
    shared: options.MessageOptions,
) -> None:
    """Break a goal down into subtasks and run them.

    Ctrl-C pauses the task; `segue resume` continues it.
    """
    settings = continued(shared.settings())
    with report_errors(settings):
        from .commands.run import run_goal

        goal = read_message(settings, text)
        raise typer.Exit(run_goal(settings, goal, file or (), as_json=shared.as_json, steer=shared.steer))


def read_message(settings: Settings, given: str | None) -> str:
    """The message that was given and what a pipe gives, or either; - stands for the pipe alone."""
    piped = piped_text(lambda: remark(settings.say("reading_input")))
    message = "" if given in (None, "-") else from_shell(given or "")
    return f"{message.rstrip()}\n\n{piped}" if message.strip() and piped.strip() else message or piped


@app.command()
def resume(
    task_id: options.TaskId = None,
    last: options.Last = False,
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
    if (task_id is not None) + last + every != 1:
        raise typer.BadParameter("give a TASK_ID, --last or --all", param_hint="TASK_ID")
    settings = Settings(db, agents, model=model)
    with report_errors(settings):
        if every:
            from .commands.resume import resume_all

            raise typer.Exit(resume_all(settings, as_json=as_json))
        from .dialog.loop import resumed

        name = task_id or LATEST
        raise typer.Exit(resumed(for_task(settings, name), name, as_json=as_json))


class _AnswerCommand(TyperCommand):
    """Takes --approve also without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_bare_approvals(args))


@app.command(cls=_AnswerCommand)
def answer(
    task_id: options.TaskId = None,
    text: options.AnswerText = None,
    last: options.Last = False,
    finish: options.Finish = False,
    approve: options.Approve = None,
    edit: options.Edit = None,
    reject: options.Reject = None,
    always: options.Always = None,
    only: options.Only = None,
    question: options.Question = "",
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOption = False,
) -> None:
    """Answer a task's question or approve its calls, and resume it.

    A question is answered with a text. Calls that wait are approved, edited or rejected: an
    option names its call by the number shown with it, or applies to every call that no other
    option names. Without either you are asked.
    """
    if last and text is None:
        task_id, text = None, task_id
    name = named(task_id, last)
    answer_to: dict[str, Any] | None = {"manual_finish": True} if finish else None if text is None else {"answer": text}
    if (text is not None) + finish + any((approve, edit, reject, always, only)) > 1:
        raise typer.BadParameter("give a text, --finish, or what becomes of the calls", param_hint="ANSWER")
    if only and not always:
        raise typer.BadParameter("it needs --always task or --always session", param_hint="--only")
    settings = for_task(Settings(db, agents), name)
    with report_errors(settings):
        from .dialog.loop import answered

        decisions = Decisions(approve or (), edit or (), reject or (), always or "", only or ())
        raise typer.Exit(answered(settings, name, decisions, answer_to, question, as_json=as_json))


@app.command()
def pause(
    task_id: options.TaskId = None,
    last: options.Last = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Pause a task at its next checkpoint."""
    from .commands.control import paused

    settings, name = Settings(db, agents), named(task_id, last)
    for line in ask(settings, lambda opened: paused(opened, settings, name)):
        typer.echo(line)


@app.command()
def cancel(
    task_id: options.TaskId = None,
    last: options.Last = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Cancel a task, whether it runs or not."""
    from .commands.control import cancelled

    settings, name = Settings(db, agents), named(task_id, last)
    for line in ask(settings, lambda opened: cancelled(opened, settings, name)):
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
    retention: options.Retention = "",
    rehearsals: options.Rehearsals = "",
    require_model: options.RequireModel = False,
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Serve the HTTP API.

    Only this machine can connect unless SEGUE_API_KEY is set.
    """
    with report_errors():
        from .commands.serve import serve as answer_over_http

        answer_over_http(Settings(db, agents), host, port, workers, retention, rehearsals, require_model=require_model)


@app.command()
def worker(
    concurrency: options.Concurrency = 4,
    grace: options.Grace = 30.0,
    metrics_port: options.MetricsPort = 0,
    metrics_host: options.MetricsHost = "127.0.0.1",
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Start a worker, which runs the tasks of a PostgreSQL database.

    Ctrl-C or SIGTERM hands its tasks over to the other workers; the second one stops them where they are.
    """
    settings = Settings(db, agents)
    with report_errors(settings):
        from .commands.worker import work

        work(settings, concurrency, grace, metrics_host, metrics_port)


@app.command()
def mcp(agents: options.Agents = "", db: options.Database = DEFAULT_DATABASE) -> None:
    """Serve the agents as tools of an MCP server on standard input and output.

    `segue serve` does so over HTTP, at /mcp.
    """
    settings = Settings(db, agents)
    with report_errors(settings):
        from .commands.mcp import serve_stdio

        serve_stdio(settings)


app.command()(simulate)
for command in (
    inspect.sessions,
    inspect.tasks,
    waiting,
    rate,
    preferences,
    inspect.history,
    inspect.trace,
    rewind.timeline,
    rewind.diff,
    rewind.fork,
    rewind.edit,
    rewind.undo,
    rewind.prune,
    rewind.export,
    copy,
    inspect.graph,
    inspect.modes,
    inspect.agents,
    inspect.tools,
    inspect.doctor,
    report,
    record,
    replay,
    workflows,
):
    app.command()(command)
app.command("threads", hidden=True)(inspect.sessions)
app.command("import")(rewind.import_)
app.add_typer(memory)
app.add_typer(permissions)
