"""How an engine follows its run: what it tells, when, and where it stands."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ..core.events import Event
from ..core.lifecycle import VALID_STATE_TRANSITIONS, EngineEvent, EngineEventType, EngineState, next_state
from .backend import Given, GoOn, Track
from .run_state import Mirror

_S, _T = EngineState, EngineEventType
PAUSABLE = (_S.SCHEDULING, _S.EXECUTING)
_FINISHED = (_T.TASK_COMPLETED, _T.TASK_FAILED)


class Following:
    """The state of an engine, the run that it follows, and what of it was told."""

    def __init__(self, track: Track) -> None:
        self._track = track
        self._mirror = Mirror()
        self._state = _S.IDLE
        self._paused_from = _S.EXECUTING
        self._live = False
        self._stopping = False
        """Whether a pause was asked for since the last step began."""
        self._ended = False
        self._failure: Exception | None = None
        self._answer: Any = None
        self._wake = asyncio.Event()
        self._own: deque[tuple[EngineEventType, dict[str, Any]]] = deque()
        """What the engine itself did and has not told."""
        self._untold: deque[tuple[EngineEvent, bool]] = deque()
        """What happened and was not told, and whether it did after a pause was asked for."""

    async def _events(self, given: Given) -> AsyncGenerator[EngineEvent, None]:
        """Tell what is on hand, then take the next step, until nothing is left to do."""
        while True:
            async with aclosing(self._on_hand()) as known:
                async for event in known:
                    yield event
            if self._failure is not None:
                self._fail(self._failure)
                continue
            if self._ended:
                return
            async with aclosing(self._stretch(given)) as steps:
                async for event in steps:
                    yield event
            given = GoOn()
            if self._stands_early():
                return

    async def _on_hand(self) -> AsyncGenerator[EngineEvent, None]:
        """Tell what the engine itself did and what has arrived; while it is paused, wait."""
        while True:
            while self._own:
                yield self._own_event(*self._own.popleft())
            if self._state is _S.PAUSED:
                await self._wake.wait()
                continue
            self._stopping = False
            while event := self._next():
                yield event
            if not self._own:
                return

    async def _stretch(self, given: Given) -> AsyncGenerator[EngineEvent, None]:
        """Run until the end or a boundary; what is raised on the way is kept for the time when it can be told."""
        if isinstance(given, GoOn) and self._answer is not None:
            given, self._answer = GoOn(self._answer), None
        try:
            async with aclosing(self._track.stretch(given, self._arrived)) as steps:
                async for _ in steps:
                    while event := self._next():
                        yield event
        except Exception as error:  # noqa: BLE001 - the one seam: whatever a model or the storage raises ends as ERROR
            self._failure = error
        self._ended = not self._track.standing

    def _arrived(self, events: list[Event]) -> bool:
        """Take in what happened, whether or not it can be told yet."""
        known = [told for event in events if (told := self._mirror.learn(event))]
        self._untold.extend((event, self._stopping) for event in known)
        return bool(known)

    def _next(self) -> EngineEvent | None:
        """The next event to tell. Once a pause was asked for, only of what was finished while it took effect."""
        for place, (event, meanwhile) in enumerate(self._untold):
            if not self._stopping or (meanwhile and event.event_type in _FINISHED):
                del self._untold[place]
                if event.event_type is _T.STATE_CHANGED:
                    self._state = next_state(self._state, event.data["to"])
                return event
        return None

    def _own_event(self, kind: EngineEventType, data: dict[str, Any]) -> EngineEvent:
        if kind in (_T.ENGINE_PAUSED, _T.ENGINE_RESUMED):
            data = {"progress": self._mirror.progress, **data}
        return EngineEvent(kind, data)

    def _change(self, new: EngineState, kind: EngineEventType, data: dict[str, Any]) -> None:
        """Go to another state by the engine's own doing; it is told as soon as nothing is under way."""
        moved = next_state(self._state, new)
        self._own.append((_T.STATE_CHANGED, {"from": self._state.value, "to": moved.value}))
        self._own.append((kind, data))
        self._state = moved

    def _fail(self, error: Exception) -> None:
        """End in ERROR; where the table has no way there, whoever runs the engine gets the error itself."""
        if _S.ERROR not in VALID_STATE_TRANSITIONS[self._state]:
            raise error
        why, phase = str(error) or type(error).__name__, self._state.value
        self._change(_S.ERROR, _T.ENGINE_ERROR, {"error": why, "phase": phase})
        self._failure, self._ended = None, True

    def _pause(self, data: dict[str, Any]) -> None:
        self._paused_from = self._state
        self._change(_S.PAUSED, _T.ENGINE_PAUSED, data)
        self._wake.clear()

    def _stands_early(self) -> bool:
        """Whether the run stands without our doing where it cannot be paused.

        Where it can, because a person is asked or another process paused it, the engine is paused now.
        """
        if not self._track.standing or self._failure is not None or self._own:
            return False
        if self._state not in PAUSABLE:
            return True
        self._pause({"question": dict(self._track.question)} if self._track.question else {})
        return False

    def _go_on(self) -> None:
        self._change(self._paused_from, _T.ENGINE_RESUMED, {})
        self._wake.set()

    def _leave(self) -> None:
        """Nobody follows the run any more: it does not count as executing."""
        self._live = False
        if self._state in PAUSABLE:
            self._pause({})
