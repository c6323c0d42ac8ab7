"""What one process of a run does: go on with the recorded session from wherever its database stands."""

import asyncio
import contextvars
import gc
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...app import App
from ...core.actor import SEGUE, acting
from ...core.agents import Agent, load_agents, load_modes
from ...core.calls import CallKey, CallResult, Claim, Execution, Executor, Ledger, Tool
from ...core.context import Services
from ...core.errors import SegueError
from ...core.flows import load_flows
from ...core.models import Model
from ...core.records import Json
from ...core.task import TaskStatus
from ...entry import open_app
from ...registry import Registry
from ...runtime.reply import project
from ...runtime.start import Request
from ...tools.bound_tool import BoundTool, Marked, current_call
from ...tools.calls import TOOLS, json_value, unknown_outcome
from ..cassette import RecordedModel, read_cassette
from ..cassette.cassette import Tape, asked_of
from . import processes
from .processes import refuse
from .traps import (
    AFTER_CALL,
    HOURS,
    REPEAT_SECONDS,
    REPEATS,
    FaultyCheck,
    Files,
    Journal,
    Lines,
    Network,
    fail,
    has_check,
    kill,
    move,
    said,
    stop,
)

OUT = "out.json"
JOURNAL = "journal.jsonl"
DATABASE = "segue.db"
BESIDE = 2.0
"""Seconds that a call waits for the same call of another worker."""


@dataclass(frozen=True)
class Orders:
    """What a child is told.

    `fault` befalls the call `label`: see `faults`. `steps`: it stops before and after each call, `lines`: before each
    of so many lines of a call. `undo`: at the end it undoes what can be undone, and stops around each. `unknown`: the
    call counts as interrupted. `again`: an interrupted call is made again, whatever its marks. The hosts `refused` are
    never reached.
    """

    folder: str
    cassette: str
    agents: str
    environment: Mapping[str, str]
    label: str = ""
    fault: str = ""
    at: int = 0
    host: str = ""
    steps: bool = False
    lines: int = 0
    undo: bool = False
    again: bool = False
    refused: Sequence[str] = ()


def main() -> None:
    """Fork children until the standard input ends."""
    processes.serve(carry_on)


def carry_on(given: Mapping[str, Any]) -> None:
    """Play the session to its end; `out.json` says how each of its tasks ended."""
    orders = Orders(**given)
    os.environ.update(orders.environment)
    sys.path.insert(0, os.getcwd())
    write = Path(orders.folder, OUT).write_text
    write(json.dumps(asyncio.run(_Talk(orders).go_on())), encoding="utf-8")
    for kept in gc.get_objects():  # a process that is not killed writes what its open files still hold
        if issubclass(type(kept), io.IOBase):
            with suppress(OSError, ValueError):
                kept.flush()


class ChaosRegistry(Registry):
    """Agents with their real tools, whose model replies what was recorded."""

    def __init__(self, tape: Tape, executor: "FaultyExecutor", undone: "Journal | None") -> None:
        super().__init__()
        self._tape = tape
        self._executor = executor
        self._undone = undone

    def model_for(self, agent: Agent, override: str = "") -> Model:
        return RecordedModel(self._tape, agent, self._tape.model)

    def tools_for(self, agent: Agent) -> Mapping[str, Tool]:
        tools = super().tools_for(agent)
        return {name: _stopping(tool, self._undone) for name, tool in tools.items()} if self._undone else tools

    def for_run(self, services: Services) -> Services:
        executor = replace(self._executor, real=services.executor or TOOLS)
        ledger = FaultyLedger(services.ledger, executor) if services.ledger else None
        return replace(services, executor=executor, ledger=ledger)


def _stopping(tool: Tool, journal: Journal) -> Tool:
    if not isinstance(tool, BoundTool) or tool.undo is None:
        return tool
    undo = StoppingUndo(**{name: getattr(tool.undo, name) for name in BoundTool.__dataclass_fields__})
    object.__setattr__(undo, "journal", journal)
    return replace(tool, undo=undo)


class StoppingUndo(BoundTool):
    """An undo before and after which the process stops."""

    journal: Journal

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        self.journal.write("undo", name=self.name)
        stop()
        try:
            return await super().call(arguments)
        finally:
            self.journal.write("undone", name=self.name)
            stop()


@dataclass(frozen=True)
class FaultyLedger:
    """A ledger around whose intents and outcomes faults befall a call."""

    real: Ledger
    executor: "FaultyExecutor"

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        return await self.real.read(key)

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        label = self.executor.label(key, name)
        self.executor.reach(label, "kill-before-intent")
        claim = await self.real.claim(key, name, arguments, synced=synced)
        self.executor.reach(label, "kill-before-call")
        return claim

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        known = [line for line in self.executor.journal.lines if line.get("key") == _text(key)]
        if known:
            self.executor.reach(self.executor.label(key, known[0]["name"]), *AFTER_CALL)
        await self.real.settle(key, outcome, synced=synced)
        self.executor.journal.write("outcome", key=_text(key), outcome=dict(outcome))
        if known:
            self.executor.reach(self.executor.label(key, known[0]["name"]), "kill-after-outcome")

    async def keep(self, key: CallKey, job: Mapping[str, Any]) -> None:
        await self.real.keep(key, job)

    async def withdraw(self, key: CallKey) -> None:
        await self.real.withdraw(key)

    async def unknown(self, task_id: str) -> Any:
        return await self.real.unknown(task_id)

    async def finished(self) -> Any:
        return await self.real.finished()


def _text(key: CallKey) -> str:
    return f"{key.task_id}/{key.scope}/{key.index}"


@dataclass(frozen=True)
class FaultyExecutor:
    """Carries calls out with their real tools, of which one has a fault."""

    orders: Orders
    journal: Journal
    network: Network
    files: Files
    real: Executor = TOOLS

    def needs_approval(self, tool: Tool) -> bool:
        return self.real.needs_approval(tool)

    def parallel(self, tool: Tool) -> bool:
        return False

    def label(self, key: CallKey, name: str) -> str:
        return self.journal.label(_text(key), name)

    def is_faulty(self, label: str, fault: str) -> bool:
        """Whether the fault befalls the call now: once a run."""
        if self.orders.label != label or self.orders.fault != fault:
            return False
        return not any(line["moment"] == "fault" for line in self.journal.lines)

    def befallen(self, label: str) -> str:
        """The fault that has befallen the call in another process; empty where none has."""
        has = self.orders.label == label and any(line["moment"] == "fault" for line in self.journal.lines)
        return self.orders.fault if has else ""

    def reach(self, label: str, *faults: str) -> None:
        """Kill the process where one of these is the fault."""
        if self.befalls(label, *faults):
            kill()

    def befalls(self, label: str, *faults: str) -> str:
        """The one of the faults that befalls the call now, noted; empty where none does."""
        found = next((fault for fault in faults if self.is_faulty(label, fault)), "")
        if found:
            self.journal.write("fault", fault=found)
        return found

    async def execute(self, execution: Execution) -> CallResult:
        label, tool = self.label(execution.key, execution.name), execution.tool
        if tool is None:
            return await self.real.execute(execution)
        if self.orders.label == label and self.orders.fault == "unknown":
            return unknown_outcome("call_interrupted", execution.language, tool=execution.name)
        self.journal.write("start", label=label, name=tool.name, arguments=dict(execution.arguments))
        if self.orders.steps:
            stop()
        faulty = FaultyTool(tool, self, label)
        faulted = replace(execution, tools={**execution.tools, tool.name: faulty})
        result = await self.real.execute(faulted)
        if self.orders.again and self.orders.label == label:
            repeated = await self.real.execute(replace(faulted, claim=Claim("fresh")))
            self.journal.write("again", label=label, result=repeated.json())
        self.journal.write("end", label=label, result=result.json(), hosts=self.network.seen, hung=self.network.hung)
        if self.orders.steps:
            stop()
        return result


class FaultyTool(Marked):
    """The user's tool with what befalls its call."""

    def __init__(self, tool: Tool, executor: FaultyExecutor, label: str) -> None:
        self._tool = tool
        self._executor = executor
        self._label = label
        self._beside: threading.Thread | None = None
        self._check = FaultyCheck(tool, executor.befallen(label), label)
        self.name, self.spec = tool.name, tool.spec
        if isinstance(tool, Marked):
            self.marks = tool.marks

    @property
    def timeout(self) -> float | None:
        for fault, seconds in (("timeout", 0.3), ("slow", 4.0)):
            if self._executor.is_faulty(self._label, fault):
                return seconds
        return self._check.timeout or self._tool.timeout

    async def check_effect(self, arguments: Mapping[str, Any]) -> Any:
        if not has_check(self._tool):
            return None
        executor = self._executor
        answer = await self._check.ask(arguments, executor.journal, executor.network, executor.files)
        executor.journal.write("check", label=self._label, answer=said(answer))
        if executor.orders.fault == "check-landing":
            stop()
        return answer

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Run the real tool, and note what it returned."""
        journal, network, files = self._executor.journal, self._executor.network, self._executor.files
        value: Any = None
        if self._executor.is_faulty(self._label, "check-stale"):
            await self._check.keep(arguments, journal)
        journal.write("run", label=self._label)
        for number in range(self._times()):
            if number > 1 and self._took_long():  # one repetition there is, however long it takes
                break
            lines = self._lines(arguments)
            self._disturb(network)
            try:
                with lines.watched(), files.watched():
                    value = await self._tool.call(arguments)
            finally:
                if self._beside is not None:  # it may have waited for what this call held
                    await asyncio.to_thread(self._beside.join, BESIDE)
                network.refused, network.silent, network.reset = "", False, False
                about = {"hosts": network.seen, "hung": network.hung, "writes": files.written}
                journal.write("ran", label=self._label, lines=lines.count, calling=lines.calling, **about)
            plain, key = json_value(value), current_call.get().idempotency_key
            shown = json.dumps(plain, ensure_ascii=False)
            left = [path for path in files.left() if Path(path).name not in shown]  # what is handed over stays
            journal.write("value", label=self._label, value=plain, key=key, left=left)
        return value

    def _times(self) -> int:
        executor = self._executor
        if not executor.is_faulty(self._label, "duplicate"):
            return 1
        executor.journal.write("fault", fault="duplicate")
        return 2 if self._tool.read_only or self._tool.idempotent else 1 + REPEATS

    def _took_long(self) -> bool:
        lines = [line for line in self._executor.journal.lines if line.get("label") == self._label]
        return bool(lines[-1]["at"] - lines[0]["at"] > REPEAT_SECONDS)

    def _lines(self, arguments: Mapping[str, Any]) -> Lines:
        """What befalls the lines of this call."""
        orders = self._executor.orders
        acts: dict[str, Callable[[str], None]] = {
            "kill-line": lambda _: kill(),
            "timeout": lambda _: time.sleep(0.6),  # the call goes on only once it has timed out
            "disk": lambda _: self._executor.files.fill(),
            "workers": lambda _: self._call_beside(arguments),
            "exception": fail,
        }
        if fault := self._executor.befalls(self._label, *acts):
            return Lines((orders.at,), acts[fault])
        return Lines(range(1, orders.lines + 1), lambda _: stop())

    def _disturb(self, network: Network) -> None:
        """What befalls the network of this call."""
        fault = self._executor.befalls(self._label, "refuse", "hang", "slow", "reset")
        network.watch()
        network.refused = self._executor.orders.host if fault == "refuse" else ""
        network.silent, network.reset = fault in ("hang", "slow"), fault == "reset"

    def _call_beside(self, arguments: Mapping[str, Any]) -> None:
        """Make the same call in another thread, as another worker would; what it waits for, this one may hold."""

        def call() -> None:
            with suppress(Exception):  # that of a worker whose outcome nobody takes
                asyncio.run(self._tool.call(arguments))

        self._beside = threading.Thread(target=contextvars.copy_context().run, args=(call,), daemon=True)
        self._beside.start()
        self._beside.join(BESIDE)


class _Talk:
    """One process's part of the session."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._folder = Path(orders.folder)
        self._tape = Tape(read_cassette(orders.cassette), compare=False)
        self._journal = Journal(self._folder / JOURNAL)

    async def go_on(self) -> Json:
        """Carry the session to its end; returns {"statuses": […]}."""
        if self._orders.fault in HOURS and self._journal.lines:  # another process was killed
            move(HOURS[self._orders.fault])
        refuse(self._orders.refused, self._journal)
        network = Network()
        network.install()
        files = Files()
        files.install()
        executor = FaultyExecutor(self._orders, self._journal, network, files)
        registry = ChaosRegistry(self._tape, executor, self._journal if self._orders.undo else None)
        modes = {**load_modes(self._orders.agents), **load_flows(self._orders.agents)}
        agents = load_agents(self._orders.agents)
        app = await open_app(self._folder / DATABASE, agents, modes, memory=self._folder / "memory", registry=registry)
        try:
            for number in range(1, len(self._tape.cassette.turns) + 1):
                await self._turn(app, number)
            tasks = list(reversed(await app.tasks.list(session_id="chaos", limit=-1)))
            if self._orders.undo:
                await app.rewind.undo("chaos", (await app.rewind.timeline("chaos"))[0].checkpoint_id)
            return {"statuses": [str(task.status) for task in tasks], "errors": [task.error for task in tasks]}
        finally:
            await app.close()

    async def _turn(self, app: App, number: int) -> None:
        turn = self._tape.begin(number)
        tasks = list(reversed(await app.tasks.list(session_id="chaos", limit=-1)))
        task = tasks[number - 1] if len(tasks) >= number else None
        if task and task.is_over:
            return
        if task is None:
            request = Request(
                turn.message,
                session_id="chaos",
                agent=turn.agent,
                mode=turn.mode,
                user_id=turn.user,
                language=turn.language,
            )
            task, run = await app.tasks.start(request)
            await _ended(run)
        else:
            for call in project(await app.tasks.events(task.task_id)).model_calls:
                self._tape.skip(call.request)  # the task has that reply
        while not (task := await app.task(task.task_id)).is_over:
            if task.status == TaskStatus.ERROR:
                await app.cancel(task.task_id)
                return
            answer = self._answer(await app.question(task.task_id)) if task.status == TaskStatus.WAITING else None
            with acting(SEGUE, None):  # for everybody who decided then
                _, run = await app.tasks.resume(task.task_id, answer=answer)
            await _ended(run)

    def _answer(self, question: Json) -> Json:
        """What a person answered then; a call that was not asked about is approved."""
        if question["kind"] != "approval":
            asked = asked_of(question)
            answers = [answer for answer in self._tape.turn.answers if "verdicts" not in answer.value]
            return next((a.value for a in answers if a.asked == asked), answers[0].value if answers else {"answer": ""})
        known = {
            line: verdict
            for answer in self._tape.turn.answers
            for line, verdict in zip(answer.asked.split("\n"), answer.value.get("verdicts", ()), strict=False)
        }
        verdicts = [
            {**known.get(asked_of({"calls": [call]}), {"verdict": "approve"}), "index": call["index"]}
            for call in question["calls"]
        ]
        return {"verdicts": verdicts}


async def _ended(run: "asyncio.Task[Json] | None") -> None:
    """Wait for a run, whose failure its task has."""
    if run is not None:
        try:
            await run
        except SegueError:
            return
