"""`ConversationEngine`: a goal is received, broken down, scheduled and carried out, and every step is told."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..core.agents import Agent
from ..core.lifecycle import Coordinator, EngineBusy, EngineEvent, EngineState
from ..core.subtasks import SubTask
from .backend import Begin, Given, GoOn, Restore
from .following import PAUSABLE, Following
from .run_state import InvalidSnapshot, Mirror, read_snapshot
from .setup import track_for

if TYPE_CHECKING:
    from ..app import App

_S = EngineState
_ENDED = (_S.COMPLETED, _S.ERROR)


class ConversationEngine(Following):
    """Carries one goal at a time from its receipt to its completion.

    `coordinator` gives the context, none gives an empty one. `llm` breaks the goal down and carries the tasks out: a
    model's name, a chat model, or an object with `decompose_goal(text)`; without one the goal is a single task. With
    an `app` the run is a task of its database, in a mode of it, that any process can go on with; the agent is then one
    of the app's, and `task_id` may name a run to go on with.
    """

    def __init__(
        self,
        coordinator: Coordinator | None = None,
        llm: Any = None,
        *,
        agent: Agent | str | None = None,
        tools: Iterable[Any] = (),
        concurrency: int = 1,
        app: "App | None" = None,
        **options: Any,
    ) -> None:
        super().__init__(track_for(coordinator, llm, agent, tools, concurrency, app, options))
        self.refused = ""
        """Why the last `restore_from_snapshot` returned False."""

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def tasks(self) -> list[SubTask]:
        """The tasks as they stand."""
        return list(self._mirror.tasks)

    @property
    def results(self) -> dict[str, str]:
        """What the completed tasks came to, by their ids."""
        return dict(self._mirror.results)

    @property
    def current_progress(self) -> float:
        """The share of the tasks that are completed, from 0 to 1."""
        return self._mirror.progress

    @property
    def completed_tasks(self) -> int:
        return self._mirror.completed

    @property
    def total_tasks(self) -> int:
        return self._mirror.total

    @property
    def question(self) -> Mapping[str, Any] | None:
        """What a person is asked before a task can go on, if one waits: {"kind", "calls"}."""
        return self._track.question

    async def run(self, user_input: str | None = None) -> AsyncGenerator[EngineEvent, None]:
        """Carry a goal out and tell every step; without one, go on with what is left of the run that stands.

        The run takes no step while nobody asks for the next event. Closed in the middle it comes to a boundary, and
        can go on from there.

        Raises:
            EngineBusy: another run is under way or stands; nothing was changed.
        """
        self._check(user_input)
        self._live, self._wake = True, asyncio.Event()
        try:
            given = await self._begin(user_input)
            if given is not None:
                async with aclosing(self._events(given)) as events:
                    async for event in events:
                        yield event
        finally:
            self._leave()

    def _check(self, user_input: str | None) -> None:
        if self._live:
            raise EngineBusy(self._state, "a run is under way, wait for it or close it with aclose()")
        if user_input is None and self._state is _S.IDLE and not self._track.place:
            raise EngineBusy(self._state, "there is nothing to go on with, give run() a text")
        if user_input is not None and self._state not in (_S.IDLE, *_ENDED):
            raise EngineBusy(self._state, "an unfinished run stands, go on with run(None) or give it up with reset()")

    async def _begin(self, user_input: str | None) -> Given | None:
        """What to run; None where nothing is left to do."""
        self._ended, self._failure = False, None
        if user_input is not None:
            self._clear()
            self._mirror.input = user_input
            return Begin(user_input)
        if known := await self._track.recall():
            self._mirror, self._state = known
            self._stand_where(self._state)
            if self._state is _S.ERROR and not self._track.standing:
                raise EngineBusy(self._state, "the run failed for good, give run() a new goal")
        if self._state is _S.COMPLETED and not (self._track.standing or self._untold):
            return None
        given = self._what_is_left()
        if self._state is _S.PAUSED:
            self._go_on()
        return given

    def _what_is_left(self) -> Given:
        if self._track.standing and self._state is not _S.ERROR:
            return GoOn()
        phase = self._paused_from if self._state is _S.PAUSED else self._state
        if phase in PAUSABLE:
            return Restore(self._mirror, phase)
        self._track.forget()
        self._state = _S.IDLE
        return Restore(self._mirror, _S.IDLE)

    def _stand_where(self, phase: EngineState) -> None:
        if phase in PAUSABLE:
            self._state, self._paused_from = _S.PAUSED, phase

    def pause(self) -> bool:
        """Pause the run; False unless it is scheduling or executing.

        Between two events nothing more begins. What is under way comes to its boundary first.
        """
        if self._state not in PAUSABLE:
            return False
        self._stopping = True
        self._pause({})
        self._track.drain()
        return True

    def resume(self, answer: Any = None) -> bool:
        """Go on where the run was paused; False unless it is paused, or where a question has no answer.

        `answer` is a person's to the `question`: {"verdicts": [{"index", "verdict"}]}, "approve" or "reject".
        """
        if self._state is not _S.PAUSED or (self._track.question and answer is None and self._answer is None):
            return False
        self._answer = answer if answer is not None else self._answer
        self._go_on()
        return True

    def create_snapshot(self) -> dict[str, Any]:
        """The run as JSON values, from which an engine of another process goes on with what is left."""
        where = {"paused_from": self._paused_from.value} if self._state is _S.PAUSED else {}
        return {"state": self._state.value, **where, **self._mirror.snapshot(), **self._track.place}

    def restore_from_snapshot(self, snapshot: dict[str, Any]) -> bool:
        """Take over the run that a snapshot tells of; `run(None)` goes on with it.

        False where it cannot be read or a run is under way: `refused` says why, and nothing was changed.
        """
        self.refused = ""
        try:
            if self._live:
                raise InvalidSnapshot("A run is under way: wait for it, or close it first.")
            mirror = read_snapshot(snapshot)
            state = _state_of(snapshot, "state", tuple(_S))
            paused_from = _state_of({"paused_from": _S.EXECUTING, **snapshot}, "paused_from", PAUSABLE)
        except InvalidSnapshot as error:
            self.refused = str(error)
            return False
        self._clear()
        self._mirror, self._state, self._paused_from = mirror, state, paused_from
        self._track.attach(snapshot)
        return True

    def reset(self) -> None:
        """Give the run up and be as new.

        Raises:
            EngineBusy: it is under way; close its generator first.
        """
        if self._live:
            raise EngineBusy(self._state, "a run is under way, close it with aclose() before reset()")
        self._clear()

    async def close(self) -> None:
        """Let go of what the engine's tools hold open: the sessions of its agent's MCP servers."""
        await self._track.close()

    def _clear(self) -> None:
        self._mirror = Mirror()
        self._state = _S.IDLE
        self._stopping, self._failure, self._answer = False, None, None
        self._own.clear()
        self._untold.clear()
        self._track.forget()


def _state_of(snapshot: Mapping[str, Any], name: str, allowed: tuple[EngineState, ...]) -> EngineState:
    found = snapshot.get(name)
    if found not in [state.value for state in allowed]:
        raise InvalidSnapshot(f"The snapshot's {name} is {found!r}, which is none of an engine's.")
    return EngineState(found)
