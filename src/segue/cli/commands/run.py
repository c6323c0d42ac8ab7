"""`segue run`: a goal is broken down into subtasks, over files that are copied in for it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

from ...prompts.language import language_of
from ...prompts.terminal import sentence
from ..dialog.conversation import LIFECYCLE
from ..dialog.loop import one_shot
from ..exits import remark
from ..settings import Settings

DATA_AGENT = "data"


def run_goal(settings: Settings, text: str, files: Sequence[Path], *, as_json: bool, steer: bool) -> int:
    """Carry a goal out in the mode with subtasks, and return the exit code.

    Raises:
        MissingExtra: files cannot be read without it.
        ConfigurationError: a file cannot be copied into the data folder.
    """
    settings = replace(settings, mode=LIFECYCLE, verb="run")
    if files:
        given = tuple(str(file) for file in files)
        settings = replace(settings, agent=settings.agent or DATA_AGENT, files=given, message=text)
        text = _naming(settings, text, _copied(files))
    return one_shot(settings, text, as_json=as_json, steer=steer)


def _copied(files: Sequence[Path]) -> dict[str, str]:
    """Copy the files into the data folder; by its name there the name that each had."""
    from ...tools.data.engine import need_duckdb
    from ...tools.data.folder import DataFolder, import_file

    need_duckdb()
    folder = DataFolder.of().path
    return {import_file(file, folder): normalize("NFC", file.name) for file in files}


def _naming(settings: Settings, text: str, copied: dict[str, str]) -> str:
    """The text with the names that the files have in the data folder; those that it does not mention are added."""
    for name, given in copied.items():
        if name.casefold() != given.casefold():
            remark(settings.say("file_renamed", given=given, name=name))
            if given not in copied:
                text = name.join(_mention(given).split(text))
    missing = [name for name in copied if not _mention(name).search(text)]
    return f"{text.rstrip()}\n\n{sentence('files', language_of(text), names=', '.join(missing))}" if missing else text


def _mention(name: str) -> re.Pattern[str]:
    """The name in a text, where it is not a piece of another one."""
    return re.compile(rf"(?<![A-Za-z0-9_.-]){re.escape(name)}(?![A-Za-z0-9_-])", re.IGNORECASE)
