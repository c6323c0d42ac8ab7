"""What the tasks of the last days used."""

from typing import Annotated, Literal

import typer

from .. import options
from ..lookup import ask
from ..settings import DEFAULT_DATABASE, Settings
from ..views.console import output, write_json


def usage(
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days, today included.")] = 30,
    by: Annotated[Literal["day", "agent", "user", "model"], typer.Option("--by", help="What each row shows.")] = "day",
    agent: options.OfAgent = "",
    agents: options.MoreAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Show tokens and cost of the last days, by day, agent, user or model, and the usage of limits.

    Costs are computed from tokens and prices. They are not billed amounts. The limits are those of the agents file.
    """
    from ..views.usage import print_usage

    settings = Settings(db, agents)
    report = ask(settings, lambda app: app.tasks.usage_report(days, agent_id=agent or None))
    write_json(report.json(), indent=2) if as_json else print_usage(output(), report, by, settings)
