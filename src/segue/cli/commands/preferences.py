"""`segue rate` and `segue preferences`: ratings of answers, and the default mode of a user."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import options
from ..latest import find_task, named
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, write_json
from .inspect import ask

if TYPE_CHECKING:
    from ...app import App

DefaultMode = Annotated[
    str | None, typer.Option("--mode", help="The mode of messages that name none; '' leaves it to the agent.")
]


def rate(
    rating: Annotated[int, typer.Argument(metavar="RATING", help="1 (useless) to 5 (excellent).")],
    task_id: options.TaskId = None,
    last: options.Last = False,
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Rate a task's answer from 1 to 5."""
    settings, name = Settings(db), named(task_id, last)

    async def rated(opened: "App") -> str:
        found = await find_task(opened, name)
        await opened.rate(found, rating)
        return found

    typer.echo(settings.say("rated", task_id=ask(settings, rated), rating=rating))


def preferences(
    user: Annotated[str, typer.Option("--user", help="The user.")] = "default",
    mode: DefaultMode = None,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Show or set a user's default mode, and list the modes that answered them."""
    from ..views.tables import print_preferences

    settings = Settings(db)

    async def preferred(opened: "App") -> dict[str, Any]:
        if mode is not None:
            await opened.set_preferences(user, default_mode=mode)
        return await opened.preferences(user)

    found = ask(settings, preferred)
    write_json(found, indent=2) if as_json else print_preferences(output(), found, settings.language_for(""))
