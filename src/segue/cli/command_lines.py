"""Command lines that continue from here in another process, ready to be copied into a shell."""

import os
import shlex

from ..core.environment import is_server, without_password
from .settings import DEFAULT_DATABASE, Settings

MOST = 200
"""Characters of a message that a command line repeats."""
SHORT = 8
"""Characters of a task's id in a command line."""
_OF_TASK = ("resume", "answer", "pause", "cancel", "trace")


def continue_command(settings: Settings, session_id: str) -> str:
    """Continue a session; the message is left for the person to write."""
    command = shlex.join(["segue", "chat", "--session", session_id, *_places(settings), *_chosen(settings)])
    return f'{command} "…"'


def send_command(settings: Settings, message: str, *options: str) -> str:
    """Send a message again; one that does not fit a command line is left for the person to write."""
    message = settings.message or message
    mode = ["--mode", settings.mode] if settings.mode and settings.verb == "chat" else []
    files = [word for file in settings.files for word in ("--file", file)]
    words = ["segue", settings.verb, *options, *_places(settings), *_chosen(settings), *mode, *files]
    fits = message.isprintable() and 0 < len(message) <= MOST and not message.startswith("-")
    return f"{shlex.join(words)} {shlex.quote(message)}" if fits else f'{shlex.join(words)} "…"'


def task_command(settings: Settings, verb: str, name: str, *options: str) -> str:
    """Resume, answer, pause, cancel or trace a task, which remembers its agents file, or recover a session."""
    shown = name[:SHORT] if verb in _OF_TASK else name
    return shlex.join(["segue", verb, shown, *options, *_database(settings)])


def simulate_command(settings: Settings, session_id: str, log: str) -> str:
    """Continue a conversation, and its log."""
    logged = ["--log", log] if log else []
    return shlex.join(["segue", "simulate", "--session", session_id, *logged, *_places(settings)])


def doctor_command(settings: Settings) -> str:
    """Check the database."""
    return shlex.join(["segue", "doctor", *_database(settings)])


def _places(settings: Settings) -> list[str]:
    return [*_database(settings), *(["--agents", settings.agents_file] if settings.agents_file else [])]


def _database(settings: Settings) -> list[str]:
    default = settings.database == DEFAULT_DATABASE and not os.environ.get("SEGUE_DATABASE")
    known = is_server(settings.database) and settings.database == os.environ.get("SEGUE_DATABASE")
    return [] if default or known else ["--db", without_password(settings.database)]


def _chosen(settings: Settings) -> list[str]:
    given = {
        "--agent": settings.agent,
        "--model": settings.model,
        "--user": "" if settings.user == "default" else settings.user,
        "--language": "" if settings.language == os.environ.get("SEGUE_LANGUAGE") else settings.language,
    }
    return [word for option, value in given.items() if value for word in (option, value)]
