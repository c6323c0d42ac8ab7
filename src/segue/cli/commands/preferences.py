"""Commands on what is stored of a user or session: preferences, permissions and memory files."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ...core.errors import UnknownTask
from ...core.task import ANYBODY
from .. import options
from ..exits import USAGE
from ..lookup import ask
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings
from ..views.console import output, print_error, write_json

if TYPE_CHECKING:
    from ...app import App
    from ...core.records import UserPreferences

OfUser = Annotated[str, typer.Option("--user", help="The user.")]
DefaultMode = Annotated[
    str | None, typer.Option("--mode", help="The mode of messages without one; '' lets the agent decide.")
]
FactKey = Annotated[str, typer.Argument(metavar="KEY", help="The key of the fact: see `segue memory facts`.")]
OfFact = Annotated[
    str, typer.Option("--fact", metavar="KEY", help="Delete this fact of the user, with what it replaced.")
]
FileName = Annotated[str, typer.Argument(metavar="FILE", help="The memory file: see `segue memory list`.")]
OfFile = Annotated[
    str, typer.Option("--file", metavar="FILE", help="The memory file; without --task, delete all of it.")
]
OfTask = Annotated[
    str,
    typer.Option("--task", metavar="TASK_ID", help="Delete only entries of this task; without --file, in all files."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
LIST = "list"


def preferences(
    user: OfUser = ANYBODY,
    mode: DefaultMode = None,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Show or set a user's default mode.

    Also lists the modes that answered this user.
    """
    from ..views.tables import print_preferences

    settings = Settings(db)

    async def preferred(app: "App") -> "UserPreferences":
        if mode is not None:
            await app.set_preferences(user, default_mode=mode)
        return await app.preferences(user)

    found = ask(settings, preferred)
    write_json(found.json(), indent=2) if as_json else print_preferences(output(), found, settings.ui_language)


# Permissions.


class _ListByDefault(TyperGroup):
    """Lists where no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        return super().parse_args(ctx, args if first in self.commands or first in ("--help", "-h") else [LIST, *args])


permissions = typer.Typer(
    name="permissions",
    cls=_ListByDefault,
    help="List the tools that are always allowed, or revoke a permission.\n\n"
    "`segue permissions SESSION` lists those of one session. `segue answer TASK_ID --always session` adds one.",
    rich_markup_mode=None,
)


@permissions.command(LIST)
def list_permissions(
    session: options.AnySession = None,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the tools that run without approval."""
    from ..views.tables import print_permissions

    settings = Settings(db)
    found = ask(settings, lambda app: app.sessions.permissions(session))
    if as_json:
        return write_json([permission.json() for permission in found], indent=2)
    print_permissions(output(), found, settings.ui_language)


@permissions.command()
def revoke(
    session: options.SessionName,
    tool: Annotated[str, typer.Argument(metavar="[TOOL]", help="The tool; by default all.")] = "",
    agent: Annotated[str, typer.Option("--agent", help="Only the tool of this agent.")] = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Require approval for a tool again."""
    settings = Settings(db)
    count = ask(settings, lambda app: app.sessions.revoke(session, tool, agent))
    if not count:
        print_error(settings.say("not_permitted", session=session))
        raise typer.Exit(USAGE)
    echo(settings.say("revoked", n=count))


# Memory files.

memory = typer.Typer(
    name="memory",
    help="List, print, edit and delete what is remembered: facts of users, and the memory files that tasks write.\n\n"
    "They are Markdown files in the folder $SEGUE_MEMORY, or in one beside the database; you may edit them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@memory.command(LIST)
def list_files(
    user: OfUser = ANYBODY, db: options.Database = DEFAULT_DATABASE, as_json: options.JsonOfList = False
) -> None:
    """List the memory files."""
    from ..views.tables import print_memory_files

    settings = Settings(db)
    files = ask(settings, lambda app: app.memory.files(user_id=user))
    write_json(files, indent=2) if as_json else print_memory_files(output(), files, settings.ui_language)


@memory.command()
def show(
    name: FileName,
    user: OfUser = ANYBODY,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Print a memory file."""
    from ..views.tables import print_memory_file

    found = ask(Settings(db), lambda app: app.memory.show(name, user_id=user))
    write_json(found, indent=2) if as_json else print_memory_file(output(), found["text"])


@memory.command()
def facts(user: OfUser = ANYBODY, db: options.Database = DEFAULT_DATABASE, as_json: options.JsonOfList = False) -> None:
    """List what a user said of themselves."""
    from ..views.tables import print_facts

    settings = Settings(db)
    found = ask(settings, lambda app: app.memory.facts(user_id=user))
    if as_json:
        return write_json([fact.json() for fact in found], indent=2)
    if not found:
        return echo(settings.say("no_facts", user=user))
    print_facts(output(), found, settings.ui_language)


@memory.command()
def edit(
    key: FactKey,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The words that replace it.")],
    user: OfUser = ANYBODY,
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Replace the words of what a user said of themselves."""
    settings = Settings(db)
    ask(settings, lambda app: app.memory.edit_fact(key, text, user_id=user))
    echo(settings.say("fact_edited"))


@memory.command()
def forget(
    task: OfTask = "",
    file: OfFile = "",
    fact: OfFact = "",
    user: OfUser = ANYBODY,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Delete the entries of a task, a file, or a fact.

    Your own text stays.
    """
    settings = Settings(db)
    if not (task or file) and not fact:
        raise typer.BadParameter("name a task, a file, or both; or a fact", param_hint="--task / --file / --fact")
    if fact and (task or file):
        raise typer.BadParameter("give it without --task and --file", param_hint="--fact")

    async def forgotten(app: "App") -> int:
        if fact:
            return await app.memory.forget_fact(fact, user_id=user)
        task_id, owner = task, user
        with suppress(UnknownTask):  # the session of a deleted task left its entries
            if task:
                task_id = await app.tasks.find(task)
                owner = (await app.task(task_id)).user_id
        return await app.memory.forget(task_id=task_id, name=file, user_id=owner)

    entries = ask(settings, forgotten)
    write_json({"entries": entries}) if as_json else echo(settings.say("memory_forgotten", n=entries))


@memory.command()
def clear(
    user: OfUser = ANYBODY,
    yes: Yes = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Delete all memory files of a user, after asking."""
    settings = Settings(db)
    if not yes:
        count = len(ask(settings, lambda app: app.memory.files(user_id=user)))
        typer.confirm(settings.say("memory_clear", n=count, user=user), abort=True, err=True)
    files = ask(settings, lambda app: app.memory.clear(user_id=user))
    write_json({"files": files}) if as_json else echo(settings.say("memory_cleared", n=files))
