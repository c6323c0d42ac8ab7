"""Who decided what, and whether the database is as it was stored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.bounds import MOST_COUNT
from .. import options
from ..exits import FAILED
from ..lookup import ask
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings
from ..views.console import output, print_error, write_json

if TYPE_CHECKING:
    from ...app import App
    from ...core.audit import AuditReport


def audit(
    session: Annotated[str, typer.Option("--session", help="Only entries of this session.")] = "",
    user: Annotated[str, typer.Option("--user", help="Only entries of this user's tasks.")] = "",
    actor: Annotated[str, typer.Option("--actor", help="Only entries of this actor: terminal, python, key:NAME.")] = "",
    action: Annotated[str, typer.Option("--action", help="Only this action, such as approved or deleted.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_COUNT, help="The maximum number of entries.")] = 50,
    head: Annotated[bool, typer.Option("--head", help="Print the log's head: keep it outside the database.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the database with the log.")] = False,
    expect: Annotated[
        str, typer.Option("--expect", metavar="HEAD", help="With --verify: a head printed earlier.")
    ] = "",
    anchor: Annotated[
        Path | None, typer.Option("--anchor", metavar="FILE", help="With --verify: the heads in the anchor file.")
    ] = None,
    enable: Annotated[bool, typer.Option("--enable", help="Enable the audit log; it stays enabled.")] = False,
    agents: options.MoreAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List who decided what, the newest first, or verify the log.

    --verify lists rows of tasks, events, calls and sessions that were changed outside Segue; the exit code is
    then 1.
    """
    if (expect or anchor) and not verify:
        raise typer.BadParameter("requires --verify", param_hint="--expect" if expect else "--anchor")
    settings = Settings(db, agents)
    if enable:
        ask(settings, lambda app: app.audit.begin())
        return echo(settings.say("audit_enabled"))
    if head:
        return _print_head(settings, as_json)
    if verify:
        return _verify(settings, expect, anchor, as_json)
    from ..views.audit import print_entries

    entries = ask(
        settings,
        lambda app: app.audit.list(session_id=session, user_id=user, actor=actor, action=action, limit=limit),
    )
    if as_json:
        return write_json([entry.json() for entry in entries], indent=2)
    return print_entries(output(), entries, settings)


def _print_head(settings: Settings, as_json: bool) -> None:
    found = ask(settings, lambda app: app.audit.head())
    if as_json:
        return write_json(None if found is None else vars(found), indent=2)
    if found is None:
        print_error(settings.say("audit_none"))
        raise typer.Exit(FAILED)
    return echo(str(found))


def _verify(settings: Settings, expect: str, anchor: Path | None, as_json: bool) -> None:
    from ..views.audit import print_report

    async def verified(app: "App") -> "AuditReport":
        from ...core.audit import AuditHead

        file = anchor or app.audit.anchor
        return await app.audit.verify([AuditHead.parse(expect)] if expect else (), file)

    report = ask(settings, verified)
    if as_json:
        write_json(report.json(), indent=2)
    else:
        print_report(output(), report, settings)
    if not report.ok:
        raise typer.Exit(FAILED)
