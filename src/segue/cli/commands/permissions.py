"""`segue permissions`: the tools that need no further approval."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import options
from ..exits import USAGE, complain
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, write_json
from .inspect import ask

LIST = "list"


class _ListByDefault(TyperGroup):
    """Lists where no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[0] if args else ""
        return super().parse_args(ctx, args if named in self.commands or named in ("--help", "-h") else [LIST, *args])


permissions = typer.Typer(
    name="permissions",
    cls=_ListByDefault,
    help="List the tools that you always allow, or revoke that.\n\n"
    "`segue permissions SESSION` lists those of one session. `segue answer TASK_ID --always session` gives one.",
    rich_markup_mode=None,
)


@permissions.command(LIST)
def permitted(
    session: options.AnySession = None,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the tools that run without approval."""
    from ..views.tables import print_permissions

    settings = Settings(db)
    rows = ask(settings, lambda opened: opened.permissions(session))
    write_json(rows, indent=2) if as_json else print_permissions(output(), rows, settings.language_for(""))


@permissions.command()
def revoke(
    session: options.SessionName,
    tool: Annotated[str, typer.Argument(metavar="[TOOL]", help="The tool; every one without it.")] = "",
    agent: Annotated[str, typer.Option("--agent", help="Only the tool of this agent.")] = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Have a tool ask for approval again."""
    settings = Settings(db)
    count = ask(settings, lambda opened: opened.revoke(session, tool=tool, agent_id=agent))
    if not count:
        complain(settings.say("not_permitted", session=session))
        raise typer.Exit(USAGE)
    typer.echo(settings.say("revoked", n=count))
