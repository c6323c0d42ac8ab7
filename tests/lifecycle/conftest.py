"""Engines whose tasks are given, with a model that carries each of them out and tools that can be watched."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from segue.core.agents import Agent
from segue.lifecycle import ConversationEngine, EngineEvent
from segue.tools.registry import tool
from tests.fakes import ScriptedChatModel, answer, call_tool

GOAL = "the goal"
PATIENCE = 60
"""Seconds after which what does not come will not come."""

Tasks = Sequence[dict[str, Any]]


def task(name: str, *needs: str, priority: int = 0, **more: Any) -> dict[str, Any]:
    """A task whose description is 'do' and its name."""
    return {"id": name, "description": f"do {name}", "priority": priority, "dependencies": list(needs), **more}


def chain(count: int) -> list[dict[str, Any]]:
    """Tasks of which each needs the one before it: t1, t2, …"""
    return [task(f"t{n}", *([f"t{n - 1}"] if n > 1 else []), priority=n) for n in range(1, count + 1)]


@dataclass
class Planner:
    """Breaks every goal down into the next of these lists, the last one over and over."""

    given: list[Any]
    asked: list[str] = field(default_factory=list)

    async def decompose_goal(self, text: str) -> Any:
        self.asked.append(text)
        found = self.given[min(len(self.asked), len(self.given)) - 1]
        if isinstance(found, Exception):
            raise found
        return found


@dataclass
class Workshop:
    """What the tasks do: each calls the tool `work` with its name and answers with what that gave.

    `done` are the names in the order of the calls; `holding` a task until `release` is called for it; `broken` fail.
    """

    done: list[str] = field(default_factory=list)
    holding: dict[str, asyncio.Event] = field(default_factory=dict)
    begun: dict[str, asyncio.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    seen: list[Sequence[BaseMessage]] = field(default_factory=list)

    def hold(self, name: str) -> None:
        self.holding[name], self.begun[name] = asyncio.Event(), asyncio.Event()

    def release(self, name: str) -> None:
        self.holding[name].set()

    def reply(self, messages: Sequence[BaseMessage]) -> str:
        """The model: a call of `work`, then an answer; a broken task raises."""
        self.seen.append(messages)
        name = str(messages[0].content).removeprefix("do ")
        if name in self.broken:
            raise RuntimeError(f"{name} is broken")
        if any(message.type == "ai" for message in messages):
            return answer(f"made {name}")
        return call_tool(("work", {"name": name}))

    def tool(self) -> Any:
        @tool
        async def work(name: str) -> str:
            """Do the work of a task."""
            if name in self.holding:
                self.begun[name].set()
                await self.holding[name].wait()
            self.done.append(name)
            return f"worked on {name}"

        return work

    def engine(self, tasks: Tasks | Planner, **options: Any) -> ConversationEngine:
        """An engine in memory over these tasks."""
        planner = tasks if isinstance(tasks, Planner) else Planner([list(tasks)])
        agent = Agent(agent_id="worker", model=ScriptedChatModel(self.reply), tools=(self.tool(),))
        return ConversationEngine(options.pop("coordinator", None), planner, agent=agent, **options)


def agent_of(shop: Workshop, tasks: list[dict[str, Any]], agent_id: str = "worker", **fields: Any) -> Agent:
    """An agent whose model writes these tasks down and then carries each of them out."""

    def reply(messages: Any) -> str:
        if messages[-1].content == GOAL:
            return json.dumps({"tasks": tasks})
        return shop.reply(messages)

    return Agent(agent_id=agent_id, model=ScriptedChatModel(reply), tools=(shop.tool(),), **fields)


class Library:
    """A coordinator with something to say."""

    async def get_context_async(self, text: str) -> Any:
        rules = [{"name": "tone", "text": "be kind"}, "no lies"]
        return SimpleNamespace(rules=rules, knowledge=[f"about {text}"], tools=[{"name": "w", "description": "works"}])


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


Run = AsyncGenerator[EngineEvent, None]


async def until(run: Run, kind: str, task_id: str = "") -> list[EngineEvent]:
    """The run's events up to the first of that type, for that task if one is named."""
    found = []
    async for event in run:
        found.append(event)
        if event.event_type == kind and task_id in ("", event.data.get("task_id")):
            return found
    raise AssertionError(f"the run ended without {kind} {task_id}: {told(found)}")


async def rest(run: Run) -> list[EngineEvent]:
    """All that is left of a run, which must come to its end."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in run]


def told(events: Sequence[EngineEvent]) -> list[str]:
    """Events in short: 'task_started a', 'executing → paused'."""
    return [_short(event) for event in events]


def _short(event: EngineEvent) -> str:
    if event.event_type == "state_changed":
        return f"{event.data['from']} → {event.data['to']}"
    return " ".join([event.event_type, *([event.data["task_id"]] if "task_id" in event.data else [])])


async def soon(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is no event that can be waited for
            await asyncio.sleep(0.01)
