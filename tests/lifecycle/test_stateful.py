"""Any sequence of run, step, pause, resume, snapshot, restore, close and reset, against a simple model."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from langchain_core.messages import BaseMessage

from segue.core.agents import Agent
from segue.core.lifecycle import next_state
from segue.core.plan import Status
from segue.lifecycle import ConversationEngine, EngineBusy, EngineEvent, EngineState
from tests.fakes import ScriptedChatModel, answer
from tests.lifecycle.conftest import Planner, task

PAUSABLE = (EngineState.SCHEDULING, EngineState.EXECUTING)
OVER = (EngineState.IDLE, EngineState.COMPLETED, EngineState.ERROR)
ENDED = (EngineState.COMPLETED, EngineState.ERROR)


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A few tasks, each of which may need some of those before it."""
    count = draw(st.integers(1, 4))
    return [
        task(f"t{n}", *(f"t{m}" for m in range(n) if draw(st.booleans())), priority=draw(st.integers(-2, 2)))
        for n in range(count)
    ]


class Engines(RuleBasedStateMachine):
    """One goal at a time; a task is carried out when its model is called."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.tasks: list[dict[str, Any]] = []
        self.broken: set[str] = set()
        self.carried: list[str] = []
        self.run: AsyncGenerator[EngineEvent, None] | None = None
        self.told = EngineState.IDLE
        self.own = 0
        self.moved = False
        """Whether the engine was restored and has not run since."""
        self.paused_from = EngineState.EXECUTING
        self.engine = self.new_engine()

    def new_engine(self) -> ConversationEngine:
        async def decompose(text: str) -> Any:
            return self.tasks

        planner = Planner([])
        planner.decompose_goal = decompose  # type: ignore[method-assign]
        agent = Agent(agent_id="a", model=ScriptedChatModel(self.reply))
        return ConversationEngine(llm=planner, agent=agent)

    def reply(self, messages: Sequence[BaseMessage]) -> str:
        name = str(messages[0].content).removeprefix("do ")
        self.carried.append(name)
        if name in self.broken:
            raise RuntimeError("broken")
        return answer(f"made {name}")

    def do(self, doing: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(doing, 60))

    @property
    def idle(self) -> bool:
        return self.run is None

    def where_the_next_run_begins(self) -> EngineState:
        """The state from which its first event leads; that of an ended run leads to IDLE, also after a reset."""
        if self.engine.state in ENDED:
            return self.engine.state
        return self.told if self.engine.state is EngineState.IDLE and self.told in ENDED else EngineState.IDLE

    @precondition(lambda self: self.idle and self.engine.state in OVER)
    @rule(tasks=graphs(), data=st.data())
    def begin(self, tasks: list[dict[str, Any]], data: st.DataObject) -> None:
        self.tasks, self.carried, self.own, self.moved = tasks, [], 0, False
        self.broken = set(data.draw(st.lists(st.sampled_from([t["id"] for t in tasks]), max_size=1)))
        self.told = self.where_the_next_run_begins()
        self.run = self.engine.run("goal")
        self.one_step()

    @precondition(lambda self: self.idle and self.engine.state not in OVER)
    @rule()
    def go_on(self) -> None:
        if self.engine.state is EngineState.PAUSED:
            self.own += 2
        elif self.engine.state not in PAUSABLE and self.moved:
            self.told = EngineState.IDLE
        self.moved = False
        self.run = self.engine.run(None)
        self.one_step()

    @precondition(lambda self: not self.idle and not (self.engine.state is EngineState.PAUSED and self.own == 0))
    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            if self.run is None or (self.engine.state is EngineState.PAUSED and self.own == 0):
                return
            self.one_step()

    def one_step(self) -> None:
        assert self.run is not None
        event = self.do(anext(self.run, None))
        if event is None:
            self.run = None
            assert self.engine.state in (EngineState.COMPLETED, EngineState.ERROR)
        else:
            self.take(event)

    def take(self, event: EngineEvent) -> None:
        self.own -= self.own > 0
        if event.event_type == "state_changed":
            assert event.data["from"] == self.told
            self.told = next_state(event.data["from"], event.data["to"])
        if event.event_type in ("engine_paused", "engine_resumed", "task_completed"):
            assert 0 <= event.data["progress"] <= 1

    @rule()
    def pause(self) -> None:
        before = self.engine.state
        progress = self.engine.current_progress
        assert self.engine.pause() is (before in PAUSABLE)
        if before in PAUSABLE:
            assert self.engine.state is EngineState.PAUSED
            self.paused_from = before
            self.own += 2
        assert self.engine.current_progress == progress

    @rule()
    def resume(self) -> None:
        before = self.engine.state
        assert self.engine.resume() is (before is EngineState.PAUSED)
        if before is EngineState.PAUSED:
            assert self.engine.state is self.paused_from
            self.own += 2

    @precondition(lambda self: not self.idle)
    @rule()
    def close(self) -> None:
        before = self.engine.state
        assert self.run is not None
        self.do(self.run.aclose())
        self.run = None
        if before in PAUSABLE:
            self.paused_from, self.own = before, self.own + 2
        assert self.engine.state is (EngineState.PAUSED if before in PAUSABLE else before)

    @precondition(lambda self: not self.idle)
    @rule()
    def a_second_run_is_refused(self) -> None:
        before = self.engine.create_snapshot()
        with pytest.raises(EngineBusy):
            self.do(anext(self.engine.run("another")))
        assert self.engine.create_snapshot() == before

    @rule()
    def move_to_another_engine(self) -> None:
        if self.run is not None:
            self.close()
        snapshot = json.loads(json.dumps(self.engine.create_snapshot()))
        self.engine = self.new_engine()
        assert self.engine.restore_from_snapshot(snapshot) is True
        assert self.engine.create_snapshot() == snapshot
        self.told, self.own, self.moved = self.engine.state, 0, True
        self.paused_from = EngineState(snapshot.get("paused_from", EngineState.EXECUTING))

    @rule()
    def reset(self) -> None:
        if self.run is not None:
            with pytest.raises(EngineBusy):
                self.engine.reset()
            return
        self.told = self.where_the_next_run_begins()
        self.engine.reset()
        self.run, self.carried, self.own, self.moved = None, [], 0, False
        assert self.engine.state is EngineState.IDLE and self.engine.total_tasks == 0

    @invariant()
    def no_task_is_carried_out_twice_or_before_what_it_needs(self) -> None:
        assert not [name for name, count in Counter(self.carried).items() if count > 1]
        needs = {t["id"]: t["dependencies"] for t in self.tasks}
        for place, name in enumerate(self.carried):
            assert set(needs[name]) <= set(self.carried[:place]) - self.broken

    @invariant()
    def the_snapshot_is_true(self) -> None:
        snapshot = self.engine.create_snapshot()
        done = [t["id"] for t in snapshot["tasks"] if t["status"] == Status.DONE]
        assert snapshot["completed_tasks"] == len(done) == self.engine.completed_tasks
        assert snapshot["progress"] == (len(done) / len(snapshot["tasks"]) if snapshot["tasks"] else 0)
        assert set(done) == set(self.carried) - self.broken
        assert snapshot == json.loads(json.dumps(snapshot))

    @invariant()
    def a_completed_run_left_nothing_undone(self) -> None:
        if self.engine.state is EngineState.COMPLETED:
            assert all(t.status in (Status.DONE, Status.ERROR, Status.SKIPPED) for t in self.engine.tasks)

    def teardown(self) -> None:
        if self.run is not None:
            self.do(self.run.aclose())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


Engines.TestCase.settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestEngines = Engines.TestCase
