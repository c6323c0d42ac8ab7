"""An app for synchronous code: notebooks, Flask, Django, Streamlit, scripts."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar, Unpack

from pydantic import BaseModel

from .app import App
from .core.events import Event
from .core.records import Result
from .core.sync import run_sync
from .runtime.start import MessageOptions

T = TypeVar("T")


class SyncApp(AbstractContextManager["SyncApp"]):
    """An `App` whose verbs wait for their results; any number of threads may use it.

    Tasks run in a thread of their own, so that one that was started goes on between two calls. `run` does what has no
    verb here: `app.run(lambda app: app.sessions.delete("s1"))`.
    """

    def __init__(self, opening: Awaitable[App]) -> None:
        self._app = run_sync(opening)

    def run(self, verb: Callable[[App], Awaitable[T]]) -> T:
        """Wait for what `verb` does with the `App`; its errors are raised here."""
        return run_sync(verb(self._app))

    def ask(
        self, message: str, *, response_model: type[BaseModel] | None = None, **options: Unpack[MessageOptions]
    ) -> Result:
        """Send a message and wait for the result; options and errors as in `App.ask`."""
        return self.run(lambda app: app.ask(message, response_model=response_model, **options))

    def chat(self, message: str, **options: Unpack[MessageOptions]) -> Iterator[Event]:
        """Send a message and follow its task; options and errors as in `App.chat`. Leaving does not stop the task."""
        return self._events(self._app.chat(message, **options))

    def answer(self, task_id: str, answer: Any, *, interrupt_id: str = "") -> Result:
        """Answer a task's question, or approve its calls, and wait for the result; errors as in `App.answer`."""
        return self.run(lambda app: app.answer(task_id, answer, interrupt_id=interrupt_id))

    def resume(self, task_id: str, *, model: str = "") -> Result:
        """Continue a task and wait for the result; errors as in `App.resume`."""
        return self.run(lambda app: app.resume(task_id, model=model))

    def follow(self, task_id: str, after: int = 0) -> Iterator[Event]:
        """The task's events after number `after`, until it stops; errors as in `App.follow`."""
        return self._events(self._app.follow(task_id, after))

    def pause(self, task_id: str) -> None:
        """Pause a task at its next boundary; errors as in `App.pause`."""
        self.run(lambda app: app.pause(task_id))

    def cancel(self, task_id: str) -> None:
        """End a task; errors as in `App.cancel`."""
        self.run(lambda app: app.cancel(task_id))

    def close(self) -> None:
        """Pause what runs and close the database, as `App.close` does."""
        run_sync(self._app.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _events(self, events: AsyncGenerator[Event, None]) -> Iterator[Event]:
        try:
            while (event := run_sync(anext(events, None))) is not None:
                yield event
        finally:
            run_sync(events.aclose())
