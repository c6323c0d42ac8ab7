"""The options that several commands share."""

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..core.bounds import MOST_SECONDS
from ..core.task import ANYBODY
from .settings import DEFAULT_DATABASE, FOLDERS_AGENTS, Settings

Mode = Annotated[str, typer.Option("--mode", help="auto, direct, react, plan, …: see `segue modes`.")]
Session = Annotated[str, typer.Option("--session", help="The session to continue; by default a new one.")]
OfSession = Annotated[str, typer.Option("--session", help="Only the tasks of this session.")]
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="The session: see `segue sessions`.")]
NewSession = Annotated[str, typer.Option("--to", metavar="SESSION", help="The new session's name.")]
AnySession = Annotated[str | None, typer.Argument(metavar="SESSION", help="The session: see `segue sessions`.")]
Agent = Annotated[str, typer.Option("--agent", help="The agent: see `segue agents`.")]
OfAgent = Annotated[str, typer.Option("--agent", help="Only the tasks of this agent.")]


def _choose_agents_file(given: str) -> str:
    """The named agents file; where none is, the folder's own."""
    if given or "SEGUE_AGENTS" in os.environ:
        return given if given == os.environ.get("SEGUE_AGENTS") else given.removeprefix("./")
    return FOLDERS_AGENTS if Path(FOLDERS_AGENTS).is_file() else ""


def _agents_file(more: str) -> Any:
    text = f"A TOML file of [[agent]] and [modes] tables, which may name modules beside it{more}."
    return typer.Option("--agents", envvar="SEGUE_AGENTS", metavar="FILE", help=text, callback=_choose_agents_file)


Agents = Annotated[str, _agents_file("; its first agent is the default. Without it, ./agents.toml if it exists")]
TaskAgents = Annotated[str, _agents_file("; use the one that the task was started with")]
MoreAgents = Annotated[str, _agents_file(". Without it, ./agents.toml if it exists")]
_MODELS = "openai:NAME, local:FILE.gguf or offline"
Model = Annotated[str, typer.Option("--model", help=f"{_MODELS}; by default from the agent or the environment.")]
OtherModel = Annotated[str, typer.Option("--model", help=f"{_MODELS}; by default the one the task started with.")]
User = Annotated[str, typer.Option("--user", help="The user whose preferences apply.")]
Language = Annotated[
    str,
    typer.Option(
        "--language",
        envvar="SEGUE_LANGUAGE",
        metavar="zh|en",
        help="The language of the answer; by default that of the message.",
    ),
]
Database = Annotated[
    str,
    typer.Option(
        "--db", envvar="SEGUE_DATABASE", metavar="DATABASE", help="A SQLite file, or postgresql://USER@HOST/NAME."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: one event per line, then the result.")]
JsonOfResumed = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print JSON: one event per line, then the result; with --all one result per line, then a summary.",
    ),
]
JsonOfList = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A CSV, TSV or Parquet file, which is copied into the data folder ($SEGUE_DATA, or ./data); "
        "may be repeated. The default agent is then `data`.",
    ),
]
MessageFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A text, image or PDF to send with the message; may be repeated.",
    ),
]
MemoryFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--memory-file",
        metavar="NAME=PATH",
        help="A memory file for a flow to read, such as rules=rules.md; may be repeated.",
    ),
]
AskUser = Annotated[
    bool | None,
    typer.Option("--ask-user/--no-ask-user", help="Whether the agent may ask you questions; by default as it is set."),
]
ReviewPlan = Annotated[
    bool | None,
    typer.Option(
        "--review-plan/--no-review-plan", help="Review the plan before it runs; by default as the agent is set."
    ),
]
Remember = Annotated[
    bool,
    typer.Option(
        "--remember/--no-remember",
        help="Use what the user said of themselves before, and remember what the message says.",
    ),
]
TASK_ID: Any = typer.Argument(
    metavar="TASK_ID", help="The task's id, or its first six characters or more: see `segue tasks`."
)
TaskId = Annotated[str | None, TASK_ID]
Last = Annotated[bool, typer.Option("--last", help="The most recent task, instead of a TASK_ID.")]
LastSession = Annotated[bool, typer.Option("--last", help="The most recent session, instead of a SESSION.")]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0,
        max=MOST_SECONDS,
        metavar="SECONDS",
        help="Wait up to this many seconds if the session is busy.",
    ),
]
Steer = Annotated[
    bool, typer.Option("--steer", help="Add the message to the session's unfinished task, and resume it.")
]
AnswerText = Annotated[
    str | None,
    typer.Argument(metavar="[ANSWER]", help="The answer to a question, or words that approve or reject calls."),
]
Question = Annotated[
    str,
    typer.Option(
        "--question", metavar="ID", help="Answer this question only: see interrupt_id in `segue waiting --json`."
    ),
]
Finish = Annotated[bool, typer.Option("--finish", help="End the task instead of answering its question.")]
Approve = Annotated[
    list[str] | None,
    typer.Option(
        "--approve",
        metavar="[CALL]",
        help="Approve calls: 0, or 0,2; by default all calls without another option.",
    ),
]
Edit = Annotated[
    list[str] | None,
    typer.Option(
        "--edit",
        metavar="CALL=JSON",
        help='Approve a call with these arguments, which replace its own: \'0={"amount": 5, "note": "late"}\'.',
    ),
]
Reject = Annotated[
    list[str] | None,
    typer.Option(
        "--reject",
        metavar="[CALL=]REASON",
        help="Reject a call with a reason: '1=too expensive', or 'too expensive' for all.",
    ),
]
Respond = Annotated[
    list[str] | None,
    typer.Option(
        "--respond",
        metavar="[CALL=]RESULT",
        help="Give the result in place of the tool, where the graph that asks allows it.",
    ),
]
Always = Annotated[
    Literal["task", "session"] | None,
    typer.Option(
        "--always",
        help="Also allow the approved tools for the rest of the task or session. Approves every call that no "
        "other option names.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="NAME=VALUE",
        help="With --always: only for calls with this argument; 'NAME=PREFIX*' matches a prefix, 'NAME=*' any "
        "value. List every argument of the call.",
    ),
]
Flow = Annotated[
    bool,
    typer.Option("--flow", help="With --always: only for calls whose untrusted values come from the same sources."),
]


def by_name(given: Iterable[str]) -> dict[str, str]:
    """The paths of memory files by their names."""
    pairs = [each.partition("=") for each in given]
    if wrong := next(("".join(pair) for pair in pairs if not (pair[0] and pair[2])), ""):
        raise typer.BadParameter(f"'{wrong}' is not NAME=PATH, such as rules=rules.md", param_hint="--memory-file")
    return {name: path for name, _, path in pairs}


@dataclass(frozen=True)
class MessageOptions:
    """What every command that sends a message takes."""

    session: Session = ""
    latest: Annotated[bool, typer.Option("--continue", "-c", help="Continue the most recent session.")] = False
    agent: Agent = ""
    agents: Agents = ""
    model: Model = ""
    user: User = ANYBODY
    wait: Wait = 0.0
    steer: Steer = False
    remember: Remember = True
    language: Language = ""
    db: Database = DEFAULT_DATABASE
    as_json: JsonOption = False

    def settings(self, mode: str = "") -> Settings:
        """The settings of the command, in this mode."""
        if self.latest and self.session:
            raise typer.BadParameter("give either --continue or --session", param_hint="--continue")
        if self.steer and not (self.session or self.latest):
            raise typer.BadParameter("name the session of the task with --session", param_hint="--steer")
        return Settings(
            self.db,
            self.agents,
            self.agent,
            mode,
            self.model,
            self.user,
            self.session,
            self.wait,
            self.language,
            latest=self.latest,
            remember=self.remember,
        )


def with_options_of(kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take a dataclass of options, each an option of its own, as its parameter `shared`."""
    fields = inspect.signature(kind).parameters

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            command(shared=kind(**{name: given.pop(name) for name in fields}), **given)

        signature = inspect.signature(command)
        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            parameters += fields.values() if name == "shared" else [parameter]
        keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
        return run

    return wrap
