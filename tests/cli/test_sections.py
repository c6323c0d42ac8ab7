"""The sections of `segue --help`."""

from typer.main import get_command
from typer.testing import CliRunner

from segue.cli import app
from segue.cli.sections import SECTIONS


def test_every_command_is_in_one_section() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(name for name, command in commands.items() if not command.hidden)


def test_help_lists_the_sections() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    assert [line for line in shown if line[:-1] in SECTIONS] == [f"{title}:" for title in SECTIONS]
