"""`segue memory`: what tasks wrote to memory files."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import UnknownTask
from .. import options
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, write_json
from .inspect import ask

if TYPE_CHECKING:
    from ...app import App

memory = typer.Typer(
    name="memory",
    help="Look at the memory files that tasks write, and forget what they hold.\n\n"
    "They are Markdown in the folder $SEGUE_MEMORY, or in one beside the database; you may edit them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Owner = Annotated[str, typer.Option("--user", help="The user whose memory files are meant.")]
FileName = Annotated[str, typer.Argument(metavar="FILE", help="The memory file: see `segue memory list`.")]
OfFile = Annotated[str, typer.Option("--file", metavar="FILE", help="The memory file; all of it without --task.")]
OfTask = Annotated[
    str, typer.Option("--task", metavar="TASK_ID", help="Only the entries of this task; of all files without --file.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@memory.command("list")
def files(
    user: Owner = "default", db: options.Database = DEFAULT_DATABASE, as_json: options.JsonOfList = False
) -> None:
    """List the memory files."""
    from ..views.tables import print_memory_files

    settings = Settings(db)
    rows = ask(settings, lambda opened: opened.memory.files(user_id=user))
    write_json(rows, indent=2) if as_json else print_memory_files(output(), rows, settings.language_for(""))


@memory.command()
def show(
    name: FileName,
    user: Owner = "default",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Print a memory file."""
    from ..views.tables import print_memory_file

    found = ask(Settings(db), lambda opened: opened.memory.show(name, user_id=user))
    write_json(found, indent=2) if as_json else print_memory_file(output(), found["text"])


@memory.command()
def forget(
    task: OfTask = "",
    file: OfFile = "",
    user: Owner = "default",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Remove the entries of a task, or a file.

    What you wrote beside a task's entries stays.
    """
    settings = Settings(db)
    if not (task or file):
        raise typer.BadParameter("name a task, a file, or both", param_hint="--task / --file")

    async def forgotten(opened: "App") -> int:
        task_id, owner = await _owner(opened, task, user)
        return await opened.memory.forget(task_id=task_id, name=file, user_id=owner)

    entries = ask(settings, forgotten)
    write_json({"entries": entries}) if as_json else typer.echo(settings.say("memory_forgotten", n=entries))


async def _owner(opened: "App", task: str, user: str) -> tuple[str, str]:
    """The id of a task and its user; of one whose session is deleted, what was given."""
    with suppress(UnknownTask):
        if task:
            task_id = await opened.find_task(task)
            return task_id, (await opened.tasks.get(task_id)).user_id
    return task, user


@memory.command()
def clear(
    user: Owner = "default",
    yes: Yes = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Delete all memory files of a user, and ask before."""
    settings = Settings(db)
    if not yes:
        count = len(ask(settings, lambda opened: opened.memory.files(user_id=user)))
        typer.confirm(settings.say("memory_clear", n=count, user=user), abort=True, err=True)
    files = ask(settings, lambda opened: opened.memory.clear(user_id=user))
    write_json({"files": files}) if as_json else typer.echo(settings.say("memory_cleared", n=files))
