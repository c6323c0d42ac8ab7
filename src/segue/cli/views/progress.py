"""A goal with subtasks: a table and a bar that are redrawn in a terminal, and lines where there is none."""

import time
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ...core.events import Event, Lifecycle, PlanUpdate, Resumed, StepUpdate, Thinking, Thought, ToolCall, ToolResult
from ...core.lifecycle import EngineEventType
from . import lines
from .board import ended_line, planned_line, progress_bar, subtask_table
from .live import LiveView
from .plain import PlainView
from .sanitize import one_line
from .task_view import Item, is_banner


class LiveProgress(LiveView):
    """Redraws the table of the subtasks; what a subtask thinks on its way is left to the trace."""

    def show(self, event: Event) -> None:
        match event:
            case Thinking():
                self._say_what_is_done(event)
            case Thought():
                pass
            case PlanUpdate() | StepUpdate():
                self._scene.fold(event)
            case _:
                super().show(event)

    def _say_what_is_done(self, event: Thinking) -> None:
        if is_banner(event) and (banner := lines.banner_lines(event)):
            self._doing = banner[-1]

    def _plan_and_headings(self, items: list[Item]) -> Iterator[RenderableType]:
        scene = self._scene
        everything = list(scene.items.values())
        if everything:
            yield Group(Text(), subtask_table(items, self._signs, scene.language, time.time()))
            yield progress_bar(everything)
        for call in list(scene.running.values()):
            if call.step_id in scene.items:
                yield Padding(lines.call_line(call, self._signs), (0, 0, 0, 2))

    def _progress(self) -> Text:
        """What is being done, and for how long; the bar says how far it is."""
        seconds = time.monotonic() - self._began
        doing = one_line(self._doing, self._room())
        return Text(" · ".join(part for part in (doing, f"{seconds:.0f} s") if part), style="dim")


class PlainProgress(PlainView):
    """A line when a subtask begins and when it ends, and its calls below the line of the one that makes them."""

    _under = ""
    """The subtask whose line the last one is, or whose calls are below it."""

    def show(self, event: Event) -> None:
        match event:
            case Thinking() | Thought():
                pass
            case PlanUpdate() | Resumed():
                self._scene.fold(event)
                self._list()
            case StepUpdate():
                self._scene.fold(event)
            case Lifecycle():
                self._scene.fold(event)
                self._tell(event)
            case ToolCall() | ToolResult():
                self._head(event.step_id)
                super().show(event)
            case _:
                super().show(event)

    def _list(self) -> None:
        self._under = ""
        for item in self._scene.items.values():
            self._print(Text("  ") + planned_line(item, self._signs))

    def _head(self, step_id: str) -> None:
        """Say which subtask is spoken of, unless it is the one above."""
        if step_id != self._under and step_id in self._scene.items:
            self._under = step_id
            self._print(lines.item_line(self._scene.items[step_id], self._signs))

    def _tell(self, event: Lifecycle) -> None:
        items = self._scene.items
        item = items.get(str(event.details.get("task_id")))
        if item is None:
            return
        match event.event_type:
            case EngineEventType.TASK_STARTED:
                self._head(item.step_id)
            case EngineEventType.TASK_COMPLETED | EngineEventType.TASK_FAILED:
                self._under = ""
                self._print(ended_line(item, items.values(), self._signs, event.timestamp))
