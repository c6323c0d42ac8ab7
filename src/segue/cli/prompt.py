"""The prompt of a conversation: several lines, a history across runs, completion of commands and their arguments."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.cells import cell_len

from .views.console import read_line

if TYPE_CHECKING:
    pass


Choices = Mapping[str, Sequence[str]]
"""The commands, and what each may be followed by."""


class Prompt(Protocol):
    """Reads what a person writes; None when they leave."""

    async def read(self, choices: Choices) -> str | None: ...


class LinePrompt:
    """A line of standard input, where that is no terminal."""

    async def read(self, choices: Choices) -> str | None:
        try:
            return read_line("")
        except (EOFError, KeyboardInterrupt):
            return None


class TerminalPrompt:
    """A text that is edited at a terminal: Enter sends it, Alt-Enter begins a line, a paste may have several.

    `about` describes the commands. Ctrl-C clears what is written, and leaves where nothing is.
    """

    def __init__(self, prompt: str, about: Mapping[str, str]) -> None:
        self._session = new_session(prompt)
        self._about = about

    async def read(self, choices: Choices) -> str | None:
        try:
            return await self._session.prompt_async(completer=Words(choices, self._about))
        except (EOFError, KeyboardInterrupt):
            return None


def open_prompt(prompt: str, about: Mapping[str, str]) -> Prompt:
    """The prompt for what standard input is; `about` describes the commands."""
    usable = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalPrompt(prompt, about) if usable else LinePrompt()


class Words(Completer):
    """Completes the commands and what follows them."""

    def __init__(self, choices: Choices, about: Mapping[str, str]) -> None:
        self._choices = choices
        self._about = about

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, space, argument = text.partition(" ")
        begun = argument if space else command
        for word in self._choices.get(command, ()) if space else self._choices:
            if word.startswith(begun) and word != begun:
                about = None if space else self._about.get(word)
                yield Completion(word, start_position=-len(begun), display_meta=about)


def new_session(prompt: str) -> PromptSession[str]:
    """An editor of several lines with the history of earlier runs."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("c-c", filter=Condition(lambda: bool(get_app().current_buffer.text)))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return PromptSession(
        prompt,
        history=_history(),
        key_bindings=keys,
        multiline=True,
        complete_while_typing=False,
        prompt_continuation=" " * cell_len(prompt),
        enable_suspend=True,
        enable_open_in_editor=True,
    )


def _history() -> History:
    """What was written in earlier runs; it is kept in memory alone where its file cannot be written."""
    file = history_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        return FileHistory(str(file))
    except OSError:
        return InMemoryHistory()


def history_file() -> Path:
    """SEGUE_HISTORY, or a file of the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("SEGUE_HISTORY") or Path(state, "segue", "history"))
