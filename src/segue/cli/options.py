"""The options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

Mode = Annotated[str, typer.Option("--mode", help="auto, direct, react, plan, …: see `segue modes`.")]
Session = Annotated[str, typer.Option("--session", help="The session to go on with; a new one without it.")]
Agent = Annotated[str, typer.Option("--agent", help="The agent: see `segue agents`.")]
Agents = Annotated[
    str,
    typer.Option(
        "--agents",
        envvar="SEGUE_AGENTS",
        metavar="FILE",
        help="A TOML file of [[agent]] tables; `tools` may name modules beside it. Its first agent is the default.",
    ),
]
Model = Annotated[
    str, typer.Option("--model", help="openai:NAME or offline; else what the agent or the environment names.")
]
User = Annotated[str, typer.Option("--user", help="Whose preferences apply.")]
Database = Annotated[str, typer.Option("--db", envvar="SEGUE_DATABASE", metavar="FILE", help="The database.")]
Json = Annotated[
    bool, typer.Option("--json", help="Write JSON: for a task one event a line, and its result as the last.")
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A CSV or Parquet file, which is copied into the data folder ($SEGUE_DATA, else ./data); may be repeated. "
        "The agent is `data` then, unless you name another.",
    ),
]
TASK_ID: Any = typer.Argument(metavar="TASK_ID", help="The task's id, or enough of its beginning: see `segue tasks`.")
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
    typer.Option("--edit", metavar="CALL=JSON", help="Let it run with these arguments instead: '0={\"amount\": 5}'."),
]
Reject = Annotated[
    list[str] | None,
    typer.Option("--reject", metavar="[CALL=]REASON", help="Do not run it, and say why: '1=too dear', or 'too dear'."),
]
Host = Annotated[str, typer.Option("--host", envvar="SEGUE_HOST", help="The address to answer on.")]
Port = Annotated[int, typer.Option("--port", envvar="SEGUE_PORT", min=0, max=65535, help="0 takes one that is free.")]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that answer, over one database.")]
