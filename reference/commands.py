"""The command line's commands, from Typer."""

from functools import cache
from typing import Any

import typer

from segue.cli import app

from .tables import code, table


@cache
def root_command() -> Any:
    return typer.main.get_command(app)


def commands() -> dict[str, Any]:
    """Every visible command by its words, such as `memory list`."""
    return dict(_below(root_command(), ""))


def _below(group: Any, name: str) -> list[tuple[str, Any]]:
    found = []
    for word, command in group.commands.items():
        path = f"{name} {word}".strip()
        if not command.hidden:
            found += _below(command, path) if hasattr(command, "commands") else [(path, command)]
    return found


def describe_commands() -> str:
    return "\n\n".join(_command(name, command) for name, command in commands().items())


def _command(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    usage = " ".join(["segue", name, *(_place(argument) for argument in arguments), "[OPTIONS]" if options else ""])
    parts = [f"## segue {name}", command.help or "", f"```text\n{usage.strip()}\n```"]
    rows = [(code(_place(argument)), argument.help or "") for argument in arguments]
    rows += [(code(_option(option)), _meaning(option)) for option in options if option.name != "help"]
    return "\n\n".join([*parts, table(("argument or option", "meaning"), rows)] if rows else parts)


def _place(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _option(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    return f"{names} {option.metavar or option.name.upper()}"


def _meaning(option: Any) -> str:
    parts = [option.help or ""]
    if option.default and option.default is not True:
        parts.append(f"Default: {code(option.default)}.")
    if option.envvar:
        parts.append(f"Variable: {code(option.envvar)}.")
    if option.multiple:
        parts.append("May be repeated.")
    return " ".join(parts)
