"""The position in a recorded session while it is replayed."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ...core.context import Ids, TaskId, TraceId
from ...core.errors import SegueError
from ...core.records import Json
from ...models.request_text import digest
from ...runtime.reply_stream import ReplyText
from .cassette import Answer, Cassette, ModelCall, ToolCall, Turn, asked_of, canonical
from .difference import Difference, Kind, replied

OnCall = Callable[[ToolCall, bool], None]
"""Hears of each tool call of a live turn, and whether its recorded result was reused."""


class Tape:
    """What was recorded, and how much of it the replay has used.

    From turn `live_from` on, models are called, and tools run from the first call that was not recorded. Without
    `compare`, requests may differ from those that were sent.
    """

    def __init__(self, cassette: Cassette, *, live_from: int | None = None, compare: bool = True) -> None:
        self.cassette = cassette
        self.difference: Difference | None = None
        self.runs_tools = False
        """Whether a live turn made a call that was not recorded."""
        self.on_call: OnCall = lambda call, reused: None
        self._live_from = live_from
        self._compare = compare and live_from is None
        self.texts: dict[tuple[int, int], str] = {}
        """The requests of this replay, by turn and place."""
        self.begin(1)

    def begin(self, number: int) -> Turn:
        """Go to the beginning of a turn; the first is 1."""
        self.number = number
        self.turn = self.cassette.turns[number - 1]
        self.elapsed = 0.0
        self.stopped = asyncio.Event()
        """Set where a cancelled task reaches what was under way when it was cancelled."""
        self._asked: list[int] = [*range(len(self.turn.model_calls))]
        self._called: list[ToolCall] = [*self.turn.tool_calls]
        self._answers: list[Answer] = [*self.turn.answers]
        self._trace_ids = iter(self.turn.trace_ids)
        self.streamed = ReplyText()
        return self.turn

    @property
    def continues(self) -> bool:
        """Whether there are live turns."""
        return self._live_from is not None

    def answer_to(self, question: Json) -> Answer | None:
        """The next recorded answer, if it was to this question."""
        asked, then = asked_of(question), self._answers[0].asked if self._answers else ""
        if self._answers and asked == then:
            return self._answers.pop(0)
        if self._answers or self.turn.status != "cancelled":
            self.difference = self.difference or Difference(self.number, "question", then, asked)
        return None

    @property
    def live(self) -> bool:
        """Whether this turn is not replayed but continued."""
        return self._live_from is not None and self.number >= self._live_from

    @property
    def model(self) -> str:
        """The name of the model that the next call was made to."""
        calls = self.turn.model_calls
        return calls[self._asked[0]].model if self._asked else calls[-1].model if calls else "offline"

    def next_trace_id(self) -> str | None:
        return next(self._trace_ids, None)

    def clock(self) -> float:
        """The time of what was replayed last: a task's budget of seconds is spent where it was spent."""
        return self.turn.created_at + self.elapsed

    def notes(self) -> tuple[str, ...]:
        """The notes that had reached the agent by now; in a live turn all of them."""
        if self.live:
            return self.turn.notes
        asked = len(self.turn.model_calls) - len(self._asked)
        ran = len(self.turn.tool_calls) - len(self._called)
        reached = [t.count for t in self.turn.taken_notes if t.model_calls <= asked and t.tool_calls <= ran]
        return self.turn.notes[: max(reached, default=0)]

    @property
    def unstreamed(self) -> str:
        """What a cancelled task had streamed of its answer beyond what the replay has."""
        return self.turn.partial.removeprefix(self.streamed.whole)

    async def reply_to(self, text: str, cut: Callable[[], None]) -> ModelCall:
        """The recorded call with this request; `cut` is called where the task was cancelled before a reply.

        Raises:
            SegueError: the request differs, or is one more than there were; or the failure that ended the task.
        """
        sent = digest(text)
        if not self._asked:
            await self._end_of_recording(text, cut)
        calls: tuple[ModelCall, ...] = self.turn.model_calls
        place = next((place for place in self._asked if calls[place].digest == sent), self._asked[0])
        if self._compare and calls[place].digest != sent:
            self._differ("request", calls[place].request, text, place + 1, replied(calls[place]))
        self._asked.remove(place)
        self.texts[self.number, place] = text
        self._move_on(calls[place].at)
        return calls[place]

    def skip(self, sent: str) -> None:
        """Go on behind the recorded call with this request's digest, else behind the next one."""
        calls = self.turn.model_calls
        place = next((place for place in self._asked if calls[place].digest == sent), next(iter(self._asked), None))
        if place is not None:
            self._asked.remove(place)

    async def _end_of_recording(self, text: str, cut: Callable[[], None]) -> NoReturn:
        """A request after the last one that was answered."""
        if self.turn.status == "cancelled":
            cut()
            await self._stop()
        if self.turn.failure:
            raise SegueError(self.turn.failure)
        self._differ("model_call", "", text, len(self.turn.model_calls) + 1)

    async def result_of(self, name: str, arguments: Mapping[str, Any]) -> Json | None:
        """The recorded outcome of a call; None where it has to run.

        Raises:
            SegueError: no such call was recorded, and no tool may run.
        """
        wanted = canonical(arguments)
        made = (c for c in self._called if c.name == name and canonical(c.arguments) == wanted)
        found = None if self.runs_tools else next(made, None)
        if self.live:
            return self._reused(name, arguments, found)
        if found is None:
            then = self._called[0].text if self._called else ""
            place = len(self.turn.tool_calls) - len(self._called) + 1
            self._differ("tool_call", then, f"{name}({wanted})", place)
        if found.outcome is None:
            await self._stop()
        self.use(found)
        return found.outcome

    def use(self, call: ToolCall) -> None:
        """Go on behind a recorded call that was made again."""
        self._called.remove(call)
        self._move_on(call.at)

    def _reused(self, name: str, arguments: Mapping[str, Any], found: ToolCall | None) -> Json | None:
        """The outcome in a live turn: from the first call that was not recorded, tools run."""
        outcome = found.outcome if found else None
        self.runs_tools = outcome is None
        if found and outcome is not None:
            self._called.remove(found)
        self.on_call(ToolCall(name=name, arguments=dict(arguments), at=0.0), outcome is not None)
        return outcome

    def left_out(self) -> Difference | None:
        """The first recorded call or question of the turn that the replay did not come to."""
        if self._asked:
            place = self._asked[0]
            return Difference(self.number, "left_out", replied(self.turn.model_calls[place]), "", place + 1)
        if self._called and self._called[0].outcome is not None:
            place = self.turn.tool_calls.index(self._called[0])
            return Difference(self.number, "left_out", self._called[0].text, "", place + 1)
        if self._answers:
            return Difference(self.number, "question", self._answers[0].asked, "")
        return None

    def _move_on(self, at: float) -> None:
        self.elapsed = max(self.elapsed, at)

    async def _stop(self) -> NoReturn:
        """Wait to be cancelled."""
        self.stopped.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    def _differ(self, kind: Kind, then: str, now: str, call: int, did: str = "") -> NoReturn:
        self.difference = self.difference or Difference(self.number, kind, then, now, call, did)
        raise SegueError("The replay differs from the recording.")


class RecordedIds(Ids):
    """The ids of the recording, as long as there are some."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def task(self) -> TaskId:
        return TaskId(self._tape.turn.task_id)

    def trace(self) -> TraceId:
        recorded = self._tape.next_trace_id()
        return TraceId(recorded) if recorded else super().trace()
