"""`segue workflows`: the shipped workflows, and the text of one to start your own from."""

from typing import Annotated

import typer

from ..exits import report_errors

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A shipped workflow, or a file to check.")]


def workflows(name: Name = None) -> None:
    """List the shipped workflows, or check one and print its file.

    To change one: segue workflows travel_change > mine.md
    """
    with report_errors():
        from ...rehearsal.workflows import load_workflow, shipped_names, workflow_file

        if name:
            load_workflow(name)
            typer.echo(workflow_file(name).read_text(encoding="utf-8"), nl=False)
            return
        for shipped in shipped_names():
            typer.echo(f"{shipped}: {load_workflow(shipped).description}")
