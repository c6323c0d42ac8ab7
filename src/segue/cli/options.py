"""The options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

Mode = Annotated[str, typer.Option("--mode", help="auto, direct, react, plan, …: see `segue modes`.")]
Session = Annotated[str, typer.Option("--session", help="The session to go on with; a new one without it.")]
OfSession = Annotated[str, typer.Option("--session", help="Only the tasks of this session.")]
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="The session: see `segue threads`.")]
Agent = Annotated[str, typer.Option("--agent", help="The agent: see `segue agents`.")]
OfAgent = Annotated[str, typer.Option("--agent", help="Only the tasks of this agent.")]


def _agents_file(more: str) -> Any:
    told = f"A TOML file of [[agent]] and [modes] tables, which may name modules beside it{more}."
    return typer.Option("--agents", envvar="SEGUE_AGENTS", metavar="FILE", help=told)


Agents = Annotated[str, _agents_file("; its first agent is the default")]
TaskAgents = Annotated[str, _agents_file(": the one that the task began with, if any")]
MoreAgents = Annotated[str, _agents_file("")]
_MODELS = "openai:NAME, local:FILE.gguf or offline"
Model = Annotated[str, typer.Option("--model", help=f"{_MODELS}; else what the agent or the environment names.")]
OtherModel = Annotated[str, typer.Option("--model", help=f"{_MODELS}; else the one that the task began with.")]
User = Annotated[str, typer.Option("--user", help="Whose preferences apply.")]
Database = Annotated[str, typer.Option("--db", envvar="SEGUE_DATABASE", metavar="FILE", help="The database.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON: an event a line, and the result as the last.")]
JsonOfResumed = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Write JSON: an event a line, and the result as the last; with --all a result a line, and a summary.",
    ),
]
JsonOfList = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A CSV, TSV or Parquet file, which is copied into the data folder ($SEGUE_DATA, else ./data); "
        "may be repeated. The agent is `data` then, unless you name another.",
    ),
]
TASK_ID: Any = typer.Argument(
    metavar="TASK_ID", help="The task's id, or its first six characters or more: see `segue tasks`."
)
TaskId = Annotated[str, TASK_ID]
Wait = Annotated[
    float,
    typer.Option("--wait", min=0, metavar="SECONDS", help="Stand in line this long where the session is busy."),
]
Steer = Annotated[
    bool, typer.Option("--steer", help="Add the message to the session's unfinished task, and go on with it.")
]
Approve = Annotated[
    list[str] | None,
    typer.Option("--approve", metavar="[CALL]", help="Let a call run: 0, or 0,2; or all that get no other verdict."),
]
Edit = Annotated[
    list[str] | None,
    typer.Option(
        "--edit",
        metavar="CALL=JSON",
        help='Let it run with these arguments, which replace all of the call\'s: \'0={"amount": 5, "note": "late"}\'.',
    ),
]
Reject = Annotated[
    list[str] | None,
    typer.Option("--reject", metavar="[CALL=]REASON", help="Do not run it, and say why: '1=too dear', or 'too dear'."),
]
Host = Annotated[str, typer.Option("--host", envvar="SEGUE_HOST", help="The address to answer on.")]
Port = Annotated[int, typer.Option("--port", envvar="SEGUE_PORT", min=0, max=65535, help="0 takes one that is free.")]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that answer, over one database.")]
