"""`segue demo` and `segue init`: the first steps."""

import shlex
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ...core.context import Ids
from ...core.errors import ConfigurationError
from .. import options
from ..exits import report_errors
from ..settings import DEFAULT_DATABASE, Settings

PROJECT = ("agents.toml", "shop_tools.py", "test_shop.py")
Folder = Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to; created where it is missing.")]


def demo(db: options.Database = DEFAULT_DATABASE, language: options.Language = "") -> None:
    """Plan a trip with the offline planner, without a key."""
    settings = Settings(db, agent="travel", mode="plan", model="offline", language=language)
    with report_errors(settings):
        from ..dialog.loop import one_shot

        settings = replace(settings, session=f"demo-{Ids().thread()}")
        raise typer.Exit(one_shot(settings, settings.say("demo_message"), as_json=False))


def init(folder: Folder = Path()) -> None:
    """Write an agents file, a module of tools and its test, which run at once."""
    settings = Settings()
    with report_errors(settings):
        write_project(folder)
    agents = shlex.quote(str(folder / PROJECT[0]))
    typer.echo(settings.say("project_written", files=", ".join(str(folder / name) for name in PROJECT)))
    for message in ("Where is my order 17?", "Please refund 17"):
        typer.echo(f'  segue chat "{message}" --agents {agents}')
    typer.echo(f"  python {shlex.quote(str(folder / PROJECT[-1]))}")


def write_project(folder: Path) -> None:
    """Copy the project's files into a folder.

    Raises:
        ConfigurationError: one is there already, or cannot be written; nothing is overwritten.
    """
    for name in PROJECT:
        if (folder / name).exists():
            raise ConfigurationError(
                "The file {file} already exists: name another folder, as in `segue init my-agents`.", file=folder / name
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in PROJECT:
            text = files("segue.cli").joinpath("project", name).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            "The folder {folder} cannot be written: {error}.", folder=folder, error=error.strerror
        ) from error
