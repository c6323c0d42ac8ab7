"""`segue simulate`: a conversation between a user, a bot and an API."""

import asyncio
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..command_lines import simulate_command
from ..exits import FAILED, PAUSED, WAITING, remark, report_errors
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, read_line

if TYPE_CHECKING:
    from ...core.conversation import ConversationConfig, Utterance
    from ...core.records import Json

_CODES = {"done": 0, "waiting": WAITING, "paused": PAUSED}
_UNSCRIPTED = ("dummy_user", "input_user", "llm_profile", "llm_oow", "rule_user")
_UNPLAYED = ("dummy_user", "input_user", "scripted_user", "rule_user")
_OWN = "or your own as module:attribute"
Config = Annotated[
    str, typer.Option("--config", metavar="FILE", help="A TOML or YAML file; the options given here take precedence.")
]
User = Annotated[
    str | None,
    typer.Option("--user", help=f"dummy_user, input_user, scripted_user, llm_profile, llm_oow, rule_user, {_OWN}."),
]
Bot = Annotated[
    str | None,
    typer.Option("--bot", help=f"dummy_bot, input_bot, react_bot, workflow_bot, rule_bot, segue:MODE, {_OWN}."),
]
Api = Annotated[str | None, typer.Option("--api", help=f"dummy_api, tools, llm, request, backend, {_OWN}.")]
Turns = Annotated[int | None, typer.Option("--turns", min=1, metavar="N", help="The user's turns at most; 20.")]
Agent = Annotated[str | None, typer.Option("--agent", help="The agent that is the bot: see `segue agents`.")]
UserModel = Annotated[str | None, typer.Option("--user-model", help="The simulated user's model, such as openai:NAME.")]
Goal = Annotated[str | None, typer.Option("--goal", help="What the simulated user wants.")]
Persona = Annotated[str | None, typer.Option("--persona", help="Who the simulated user is.")]
Say = Annotated[
    list[str] | None, typer.Option("--say", metavar="TEXT", help="A line of scripted_user; may be repeated.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Makes what is random reproducible; models are sent it.")]
Session = Annotated[
    str, typer.Option("--session", help="The conversation's name; one that was interrupted goes on where it stopped.")
]
Workflow = Annotated[
    str | None, typer.Option("--workflow", help="travel_change, clinic_appointment, device_return, or your own file.")
]
Scenario = Annotated[str | None, typer.Option("--scenario", help="One of the workflow's scenarios; by default all.")]
Number = Annotated[
    int | None, typer.Option("--n", min=1, metavar="N", help="Hold N conversations, the workflow's scenarios in turn.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=64, help="Processes for --n, each with a database; 1.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The folder of --n, with its manifest, logs and reports; ./rehearsal."),
]
Log = Annotated[
    str, typer.Option("--log", metavar="FILE", help="Where the log is written; by default SESSION.jsonl in ./logs.")
]


def simulate(
    context: typer.Context,
    config: Config = "",
    user: User = None,
    bot: Bot = None,
    api: Api = None,
    turns: Turns = None,
    agent: Agent = None,
    model: options.Model = "",
    user_model: UserModel = None,
    goal: Goal = None,
    persona: Persona = None,
    say: Say = None,
    workflow: Workflow = None,
    scenario: Scenario = None,
    seed: Seed = None,
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

    Ctrl-C pauses it; the same command with its --session continues it. With --n it is a batch, whose
    folder `segue report` evaluates; the same command continues a batch that was stopped.
    """
    settings = Settings(db, agents, session=session, language=language)
    who = {"user_mode": user, "bot_mode": bot, "api_mode": api, "bot_agent": agent, "bot_model": model or None}
    script = {"user_model": user_model, "goal": goal, "persona": persona, "script": say or None}
    course = {"conversation_turn_limit": turns, "workflow": workflow, "scenario": scenario, "seed": seed}
    values = who | script | course | {"language": _given(context, "language") or None}
    with report_errors(settings):
        from ...core.conversation import config_of, load_config

        chosen = load_config(config, **values) if config else config_of(values)
        _check_user(chosen, say, {"--goal": goal, "--persona": persona})
        _check_batch(settings, n, {"--out": out, "--workers": workers}, {"--session": session, "--log": log})
        if n is None:
            raise typer.Exit(simulated(settings, chosen, log))
        from ...rehearsal.batch import batch_of
        from .batch import run_batch

        manifest = batch_of(chosen, n=n, workers=workers or 1, agents=agents)
        raise typer.Exit(run_batch(settings, out or Path("rehearsal"), manifest))


def _check_batch(settings: Settings, n: int | None, batch: "Json", single: "Json") -> None:
    """Refuse options of a batch without --n, and those of a single conversation with it."""
    for hint in (name for name, value in (batch if n is None else single).items() if value):
        own = "a batch names its sessions and logs itself: see --out"
        raise typer.BadParameter(settings.say("needs_n") if n is None else own, param_hint=hint)


def _given(context: typer.Context, option: str) -> str:
    """An option's value on the command line; empty where it comes from the environment or is the default."""
    source = context.get_parameter_source(option)
    return str(context.params[option]) if source and source.name == "COMMANDLINE" else ""


def _check_user(config: "ConversationConfig", say: list[str] | None, character: "Json") -> None:
    """Refuse lines and a character for a user that has no use for them, and a scripted user without lines.

    Raises:
        ConfigurationError.
    """
    from ...core.errors import ConfigurationError
    from ...rehearsal.workflows import with_workflow

    whole = with_workflow(config)
    if say and whole.user_mode in _UNSCRIPTED:
        raise ConfigurationError(
            "--say gives lines to scripted_user, and the user is {mode}: add --user scripted_user, or leave it out.",
            mode=whole.user_mode,
        )
    for option in (name for name, value in character.items() if value and whole.user_mode in _UNPLAYED):
        raise ConfigurationError(
            "{option} is for a user that a language model plays, and the user is {mode}: add --user llm_profile, or "
            "leave it out.",
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
        status = "paused"
    if status != "done":
        remark(settings.say("unended", command=simulate_command(settings, session, log)))
    return _CODES.get(status, FAILED)


async def _run(settings: Settings, config: "ConversationConfig", session: str, file: str) -> str:
    """The status that the conversation comes to."""
    from time import localtime, strftime

    from ...rehearsal import converse, load_conversation, write_log
    from ...rehearsal.simulate import check_config
    from ...rehearsal.text_file import check_writable
    from ...rehearsal.workflows import with_workflow
    from ..views.transcript import print_footer, print_header, print_utterance

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
            person=partial(_asked, shown.language or "en"),
        )
        status = (await app.tasks.get(conversation.task_id)).status
    write_log(conversation, file, time=time)
    if conversation.ending:
        print_footer(console)
    return str(status)


_PEOPLE = ("input_user", "input_bot")


def _typed(utterance: "Utterance", config: "ConversationConfig") -> bool:
    """Whether a person has just typed it at this terminal, where it need not be shown again."""
    mode = {"USER": config.user_mode, "BOT": config.bot_mode}.get(utterance.role, "")
    return mode in _PEOPLE and sys.stdin.isatty()


async def _asked(language: str, question: "Json") -> str | None:
    """What a person types, as the role that is asked; None if they leave. Nothing else runs meanwhile."""
    from ...core.conversation import Role
    from ..dialog.approval import print_question
    from ..views.transcript import prefix

    prompt = f"{prefix(Role(question.get('role', Role.USER)))} "
    if question["kind"] == "approval":
        print_question(output(), question, language)
        prompt = "approve / reject: "
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return read_line(prompt if sys.stdin.isatty() else "")
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        signal.signal(signal.SIGINT, before)
