"""Rehearsals: simulate conversations, one or a batch, report on a batch, and list the shipped workflows."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.bounds import MOST_COUNT
from ...core.task import TaskStatus
from .. import options
from ..exits import FAILED, PAUSED, WAITING, report_errors
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings, simulate_command
from ..views.console import flat, output, print_error, print_hints, print_note, read_line, stderr_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...app import App
    from ...core.conversation import Conversation, ConversationConfig, Utterance
    from ...core.records import Json
    from ...testing.rehearsal.batch import BatchResult, Manifest, Progress
    from ...testing.rehearsal.report import Comparison, Report

_CODES: Mapping[str, int] = {TaskStatus.DONE: 0, TaskStatus.WAITING: WAITING, TaskStatus.PAUSED: PAUSED}
_UNSCRIPTED = ("dummy_user", "input_user", "llm_profile", "llm_oow", "rule_user")
_UNPLAYED = ("dummy_user", "input_user", "scripted_user", "rule_user")
_OWN = "or your own as module:attribute"
Config = Annotated[
    str, typer.Option("--config", metavar="FILE", help="A TOML or YAML file; the options given here take precedence.")
]
Session = Annotated[str, typer.Option("--session", help="The conversation's name; an interrupted one continues.")]
Number = Annotated[
    int | None,
    typer.Option(
        "--n", min=1, max=MOST_COUNT, metavar="N", help="Run N conversations, with the workflow's scenarios in turn."
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=64, help="Processes for --n, each with a database; default 1.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="The folder of --n, with manifest, logs and reports; default ./rehearsal."
    ),
]
Log = Annotated[str, typer.Option("--log", metavar="FILE", help="The log file; by default SESSION.jsonl in ./logs.")]


@dataclass(frozen=True)
class ConfigOptions:
    """What the command line says of a conversation, under the names of its configuration's fields."""

    user_mode: Annotated[
        str | None,
        typer.Option("--user", help=f"dummy_user, input_user, scripted_user, llm_profile, llm_oow, rule_user, {_OWN}."),
    ] = None
    bot_mode: Annotated[
        str | None,
        typer.Option(
            "--bot", help=f"dummy_bot, input_bot, react_bot, workflow_bot, rule_bot, main_bot, segue:MODE, {_OWN}."
        ),
    ] = None
    api_mode: Annotated[str | None, typer.Option("--api", help=f"dummy_api, tools, llm, request, backend, {_OWN}.")] = (
        None
    )
    conversation_turn_limit: Annotated[
        int | None,
        typer.Option(
            "--turns", min=1, max=MOST_COUNT, metavar="N", help="The maximum number of user turns; default 20."
        ),
    ] = None
    bot_agent: Annotated[str | None, typer.Option("--agent", help="The agent that is the bot: see `segue agents`.")] = (
        None
    )
    bot_model: options.Model = ""
    user_model: Annotated[
        str | None, typer.Option("--user-model", help="The simulated user's model, such as openai:NAME.")
    ] = None
    goal: Annotated[str | None, typer.Option("--goal", help="What the simulated user wants.")] = None
    persona: Annotated[str | None, typer.Option("--persona", help="Who the simulated user is.")] = None
    script: Annotated[
        list[str] | None, typer.Option("--say", metavar="TEXT", help="A line of scripted_user; may be repeated.")
    ] = None
    workflow: Annotated[
        list[str] | None,
        typer.Option(
            "--workflow",
            help="travel_change, clinic_appointment, device_return, or your own file; repeated, the bot chooses.",
        ),
    ] = None
    reference: Annotated[
        str,
        typer.Option("--reference", metavar="LOG", help="Force the turns of this log, and show where the bot differs."),
    ] = ""
    scenario: Annotated[
        str | None, typer.Option("--scenario", help="One of the workflow's scenarios; by default all.")
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", help="The random seed, which is also sent to models.")] = None


@options.with_options_of(ConfigOptions)
def simulate(
    context: typer.Context,
    config: Config = "",
    *,
    shared: ConfigOptions,
    n: Number = None,
    workers: Workers = None,
    out: Out = None,
    session: Session = "",
    log: Log = "",
    agents: options.Agents = "",
    language: options.Language = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Simulate a conversation between a user, a bot and an API.

    Ctrl-C pauses it; the same command with its --session continues it. --n runs a batch, which
    `segue report` evaluates; the same command continues a batch that was stopped.
    """
    settings = Settings(db, agents, session=session, language=language)
    given = {name: value for name, value in vars(shared).items() if value not in ("", [])}
    if chosen := given.pop("workflow", None):
        given |= {"workflow": chosen[0], "workflows": chosen[1:] or None}
    values = given | {"language": _given_option(context, "language") or None}
    with report_errors(settings):
        from ...core.conversation import config_of, load_config
        from ...core.errors import ConfigurationError, listed
        from ...testing.rehearsal.participants import shipped_names

        chosen = load_config(config, **values) if config else config_of(values)
        _check_user(chosen, shared.script, {"--goal": shared.goal, "--persona": shared.persona})
        _check_batch(settings, n, {"--out": out, "--workers": workers}, {"--session": session, "--log": log})
        if not config and not session and not any(value for name, value in values.items() if name != "language"):
            raise ConfigurationError(
                "What do you want to simulate? Name a workflow with --workflow ({names}), a configuration file, or who "
                "takes part, as in `segue simulate --user input_user --bot segue:react`.",
                names=listed(shipped_names()),
            )
        if n is None:
            raise typer.Exit(simulated(settings, chosen, log))
        from ...testing.rehearsal.batch import batch_of

        manifest = batch_of(chosen, n=n, workers=workers or 1, agents=agents)
        raise typer.Exit(run_batch(settings, out or Path("rehearsal"), manifest))


def _check_batch(settings: Settings, n: int | None, batch: "Json", single: "Json") -> None:
    """Refuse options of a batch without --n, and those of a single conversation with it."""
    for hint in (name for name, value in (batch if n is None else single).items() if value):
        own = "a batch names its sessions and logs itself: see --out"
        raise typer.BadParameter(settings.say("needs_n") if n is None else own, param_hint=hint)


def _given_option(context: typer.Context, option: str) -> str:
    """An option's value on the command line; empty where it comes from the environment or is the default."""
    source = context.get_parameter_source(option)
    return str(context.params[option]) if source and source.name == "COMMANDLINE" else ""


def _check_user(config: "ConversationConfig", say: list[str] | None, character: "Json") -> None:
    """Refuse lines and a character for a user that has no use for them, and a scripted user without lines."""
    from ...core.errors import ConfigurationError
    from ...testing.rehearsal.participants import with_workflow

    whole = with_workflow(config)
    if say and whole.user_mode in _UNSCRIPTED:
        raise ConfigurationError(
            "--say works only with scripted_user, but the user is {mode}: add --user scripted_user, or "
            "leave --say out.",
            mode=whole.user_mode,
        )
    for option in (name for name, value in character.items() if value and whole.user_mode in _UNPLAYED):
        raise ConfigurationError(
            "{option} works only with a user played by a language model, but the user is {mode}: add "
            "--user llm_profile, or leave the option out.",
            option=option,
            mode=whole.user_mode,
        )
    if whole.user_mode == "scripted_user" and not whole.script:
        raise ConfigurationError("scripted_user has nothing to say: give it lines with --say or `script`.")


def simulated(settings: Settings, config: "ConversationConfig", log: str) -> int:
    """Run one conversation, show it and write its log; returns the exit code."""
    from ...core.context import Ids

    session = settings.session or Ids().thread()
    file = log or str(Path("logs", f"{session}.jsonl"))
    try:
        status = asyncio.run(_run(settings, config, session, file))
    except KeyboardInterrupt:
        status = TaskStatus.PAUSED
    if status != TaskStatus.DONE:
        print_note(settings.say("unended", command=simulate_command(settings, session, log)))
    return _CODES.get(status, FAILED)


async def _run(settings: Settings, config: "ConversationConfig", session: str, file: str) -> str:
    """The conversation's final status."""
    from time import localtime, strftime

    from ...testing.rehearsal import converse, load_conversation, write_log
    from ...testing.rehearsal.participants import with_workflow
    from ...testing.rehearsal.simulate import check_config, check_writable
    from ..views.tables import print_footer, print_header, print_utterance

    def show(utterance: "Utterance") -> None:
        if not _typed(utterance, shown):
            print_utterance(console, utterance)

    console, time = output(), strftime("%Y-%m-%d %H:%M:%S", localtime())
    check_writable(Path(file))
    async with settings.opened() as app:
        known = await app.tasks.newest(session)
        shown = (await load_conversation(app, session)).config if known else with_workflow(config)
        if not known:
            check_config(app, shown)
        print_header(console, {"log_file": file, "time": time} | shown.shown())
        conversation = await converse(
            app,
            config,
            conversation_id=session,
            on_utterance=show,
            person=partial(_asked, app, session),
        )
        status = (await app.task(conversation.task_id)).status
        if status == TaskStatus.WAITING:
            await _print_hints(app, settings, conversation)
    write_log(conversation, file, time=time)
    if conversation.config.reference and conversation.ending:
        _print_differences(settings, conversation)
    if conversation.ending:
        print_footer(console)
        if note := _ENDED.get(conversation.ending.reason):
            print_note(settings.say(note, turns=conversation.config.conversation_turn_limit))
    return str(status)


def _print_differences(settings: Settings, conversation: "Conversation") -> None:
    """Where the bot would have left the reference."""
    from ...testing.rehearsal import differences

    found = differences(conversation)
    echo(settings.say("reference_differs" if found else "reference_same", n=len(found)))
    for each in found:
        echo(settings.say("reference_difference", turn=each.turn, expected=each.expected, got=each.got))


async def _print_hints(app: "App", settings: Settings, conversation: "Conversation") -> None:
    """Say what a conversation waits for, if that is not an utterance, and how it goes on."""
    from ...core.calls import WAIT
    from ..approval import print_question
    from ..hints import answer_hints

    question = await app.question(conversation.task_id)
    if question["kind"] == WAIT:
        print_question(output(), question, conversation.language)
    if question["kind"] in (WAIT, "approval"):
        print_hints(*answer_hints(settings, conversation.task_id, question))


_ENDED = {
    "turn_limit": "ended_by_turn_limit",
    "session_length": "ended_by_session_length",
    "user_failed": "ended_by_user_failed",
}
"""What is said of an end that is not the user's."""
_PEOPLE = ("input_user", "input_bot")


def _typed(utterance: "Utterance", config: "ConversationConfig") -> bool:
    """Whether a person has just typed it at this terminal, where it need not be shown again."""
    mode = {"USER": config.user_mode, "BOT": config.bot_mode}.get(utterance.role, "")
    return mode in _PEOPLE and sys.stdin.isatty()


async def _asked(app: "App", session: str, question: "Json") -> "str | Json | None":
    """What a person types, as the role that is asked; None if they leave. Nothing else runs meanwhile."""
    from ...core.conversation import Role
    from ...testing.rehearsal import load_conversation
    from ..approval import Questioner, can_ask, print_question
    from ..views.tables import prefix

    prompt = f"{prefix(Role(question.get('role', Role.USER)))} "
    if question["kind"] == "approval":
        language = (await load_conversation(app, session)).language
        if can_ask():
            return Questioner(output(), language).ask(question)
        print_question(output(), question, language)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return read_line(prompt if sys.stdin.isatty() else "")
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        signal.signal(signal.SIGINT, before)


# Batches.


def run_batch(settings: Settings, folder: Path, manifest: "Manifest") -> int:
    """Hold the conversations of a batch that have not ended, and return the exit code."""
    try:
        result = asyncio.run(_rehearse(folder, manifest, settings))
    except KeyboardInterrupt:
        print_note(settings.say("batch_stopped"))
        return PAUSED
    for error in result.errors:
        print_error(error)
    if result.finished < result.total:
        print_error(settings.say("batch_unfinished", n=result.total - result.finished, total=result.total))
        return FAILED
    print_note(settings.say("batch_finished", total=result.total, folder=folder))
    return 0


async def _rehearse(folder: Path, manifest: "Manifest", settings: Settings) -> "BatchResult":
    from rich import progress as bars

    from ...testing.rehearsal.batch import Counting, rehearse

    columns = (
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.description}"),
    )
    with bars.Progress(*columns, console=stderr_console()) as progress:
        bar = progress.add_task("", total=manifest.n)

        def show(report: "Progress") -> None:
            progress.update(bar, completed=report.finished, total=report.total, description=report.conversation_id)

        return await rehearse(folder, manifest, show, settings.ui_language, Counting(settings.database))


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a batch: see `segue simulate --out`.")]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="DIR", help="An earlier batch of the same scenarios to compare with."),
]
Judge = Annotated[
    str, typer.Option("--judge", metavar="MODEL", help="Also have a model judge every conversation: openai:NAME.")
]


def report(folder: Folder, against: Against = None, judge: Judge = "", language: options.Language = "") -> None:
    """Write report.json, report.md and report.html of a batch.

    With --against it lists the conversations that got worse or better, and says whether the
    difference exceeds noise; the exit code is 1 if it does and the batch is worse.
    """
    settings = Settings(language=language)
    said_in = settings.ui_language
    with report_errors(settings):
        from ...testing.rehearsal.report import compare, figures, write_report

        made = asyncio.run(_report(folder, judge))
        comparison = compare(asyncio.run(_report(against, judge)), made) if against else None
        files = write_report(made, folder, comparison, said_in)
    _print_figures(figures(made, said_in))
    if comparison:
        _print_comparison(comparison, said_in)
    echo("\n" + "\n".join(str(file) for file in files))
    if comparison and comparison.is_worse:
        raise typer.Exit(FAILED)


def _print_figures(rows: "Sequence[tuple[str, str]]") -> None:
    from rich.cells import cell_len

    width = max(cell_len(name) for name, _ in rows)
    for name, value in rows:
        echo(f"{name}{' ' * (width - cell_len(name))}  {value}")


def _print_comparison(comparison: "Comparison", language: str) -> None:
    from ...prompts.catalogue import report_text

    echo(f"\n{comparison.conclusion(language)}")
    for change in comparison.worse:
        why = flat(change.why(language))
        echo(f"{report_text('worse', language)}: {change.conversation_id}: {why}")
    for change in comparison.better:
        echo(f"{report_text('better', language)}: {change.conversation_id}")


async def _report(folder: Path, judge: str) -> "Report":
    from ...testing.rehearsal.batch import Manifest
    from ...testing.rehearsal.grades import judge_batch, outcomes_of
    from ...testing.rehearsal.report import report_of

    manifest = Manifest.read(folder)
    verdicts = await judge_batch(folder, manifest, judge) if judge else {}
    return report_of(manifest, outcomes_of(folder, manifest, verdicts), judge)


# Workflows.

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="An included workflow, or a file to check.")]


def workflows(
    name: Name = None,
    import_: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Convert a PDL (.yaml) or Mermaid (.mmd) file, and print it."),
    ] = None,
) -> None:
    """List the included workflows, or check and print one.

    To change one: segue workflows travel_change > mine.md
    """
    with report_errors():
        if import_:
            from ...testing.rehearsal.converter import convert_file

            converted = convert_file(import_)
            for warning in converted.warnings:
                print_error(warning)
            return echo(converted.text, end="")
        from ...testing.rehearsal.participants import load_workflow, shipped_names, workflow_file
        from ..views.tables import print_pairs

        if name:
            load_workflow(name)
            echo(workflow_file(name).read_text(encoding="utf-8"), end="")
            return
        print_pairs(output(), "\n".join(f"{each}\t{load_workflow(each).description}" for each in shipped_names()))
