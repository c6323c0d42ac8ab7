"""One call, one outcome: what a tool may do wrong, what it returns as JSON, and the threads of synchronous tools."""

import array
import asyncio
import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import signal
import subprocess
import sys
import threading
import types
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import CancelledError as PoolCancelled
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Command
from pydantic import AfterValidator, BaseModel, RootModel, SecretStr

from segue.checkpoints.leases import Lease
from segue.checkpoints.ledger import ToolLedger
from segue.checkpoints.sqlite.database import open_database
from segue.core.calls import CallKey
from segue.core.errors import UnknownAgent
from segue.tools import calls as calls_run
from segue.tools.bound_tool import CallContext, abandoned, has_running_thread, run_in_thread
from segue.tools.calls import DEPTH, STACK_CHARS, NoResult, argument_error, json_value
from segue.tools.registry import as_tool, tool
from tests.cases import cases
from tests.fakes import MemoryLedger
from tests.polling import SECONDS, until
from tests.tool_calls import Outcome, run_call

KEY = CallKey("t", "s", 0)
BRIEF = 0.05
"""Seconds: a timeout that is over soon."""


class CountingLedger(MemoryLedger):
    """The ledger in memory, with a count of what was settled."""

    settled = 0

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        await super().settle(key, json.loads(json.dumps(outcome)))
        self.settled += 1

    async def is_running(self) -> bool:
        return ((await self.read(KEY)) or {})["outcome"] is None


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_run, "GRACE_SECONDS", 0.1)


async def run(source: Any, ledger: Any = None, seconds: float = 10, **arguments: Any) -> Outcome:
    bound = as_tool(source)
    return await run_call({bound.name: bound}, bound.name, arguments, KEY, ledger, seconds)


async def result_of(source: Any, **arguments: Any) -> dict[str, Any]:
    """The result, checked to be the one that the ledger has."""
    ledger = CountingLedger()
    outcome = await run(source, ledger, **arguments)
    assert ledger.settled == 1
    assert ((await ledger.read(KEY)) or {})["outcome"] == outcome.result
    return outcome.result


def gives(value: Any) -> Callable[[], Any]:
    def give() -> Any:
        return value

    return give


def raises(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


# What a tool returns


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("I say nothing")

    __repr__ = __str__


async def test_the_value_is_the_outcome_and_takes_time() -> None:
    outcome = await run(gives({"a": [1, 2.5, None, True, "是"]}))
    assert outcome.result == {"success": {"a": [1, 2.5, None, True, "是"]}}
    assert "error" not in outcome.result
    assert outcome.seconds > 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ToolMessage("it broke", tool_call_id="1", status="error"), {"error": "it broke"}),
        (ToolMessage([{"type": "text", "text": "a"}], tool_call_id="1"), {"success": [{"type": "text", "text": "a"}]}),
        (Command(update={"n": 1}), {"success": {"graph": None, "update": {"n": 1}, "resume": None, "goto": []}}),
    ],
)
async def test_langchains_own_forms(value: Any, expected: dict[str, Any]) -> None:
    assert await result_of(gives(value)) == expected


async def test_of_content_and_artifact_the_content_is_the_value() -> None:
    source = StructuredTool.from_function(
        gives(("seen", object())), name="look", description="Look.", response_format="content_and_artifact"
    )
    assert await result_of(source) == {"success": "seen"}
    wrong = StructuredTool.from_function(
        gives("seen"), name="look", description="Look.", response_format="content_and_artifact"
    )
    assert "two-tuple" in (await result_of(wrong))["error"]


@pytest.mark.parametrize("value", [Mute(), {"a": [Mute()]}, {Mute(): 1}])
async def test_a_value_that_cannot_be_read_says_that_the_tool_ran(value: Any) -> None:
    error = (await result_of(gives(value)))["error"]
    assert error == "give ran, but its result cannot be read: RuntimeError: I say nothing"


async def test_a_generator_is_no_value() -> None:
    error = (await result_of(gives(n for n in range(3))))["error"]
    assert error.endswith("NoResult: the tool returned a generator, which is no value: return a list")


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    async def later() -> int:
        return 7

    def soon() -> Any:
        return later()

    assert await result_of(soon) == {"success": 7}


# What a tool raises


class Shy(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


class Stop(BaseException):
    pass


@cases(
    "error, said",
    [
        (RuntimeError("broken"), "RuntimeError: broken"),
        (RuntimeError(), "RuntimeError"),
        (KeyError("name"), "KeyError: 'name'"),
        (Shy(), "Shy: <exception str() failed>"),
        (ValueError("half \ud800 a pair"), "ValueError: half \ufffd a pair"),
        (TimeoutError("the server is slow"), "TimeoutError: the server is slow"),
        (StopIteration(3), "RuntimeError: coroutine raised StopIteration"),
        (SystemExit(2), "SystemExit: 2"),
        (KeyboardInterrupt("stop"), "KeyboardInterrupt: stop"),
        (GeneratorExit("x"), "GeneratorExit: x"),
        (Stop("now"), "Stop: now"),
        (PoolCancelled(), "CancelledError"),
        (UnknownAgent("x", ["y"]), "UnknownAgent: There is no agent 'x'; use one of: y."),
        (ExceptionGroup("a", [ExceptionGroup("b", [ValueError("c")])]), "ValueError: c"),
        (ExceptionGroup("two", [ValueError("a"), OSError("b")]), "ValueError: a; OSError: b"),
        (BaseExceptionGroup("one", [SystemExit(1)]), "SystemExit: 1"),
    ],
)
async def test_an_error_is_told_with_its_stack(error: BaseException, said: str) -> None:
    result = await result_of(raises(error))
    assert set(result) == {"error", "stack"}
    assert result["error"] == said
    assert "in fail" in result["stack"]
    assert len(result["stack"]) <= STACK_CHARS


STOPS = [
    StopIteration(3), SystemExit(2), KeyboardInterrupt(), GeneratorExit(), Stop("now"), asyncio.CancelledError("mine"),
]  # fmt: skip


@cases("error", STOPS)
@cases("where", ["tool", "task", "group", "executor"])
async def test_an_asynchronous_tool_and_its_tasks_may_raise_anything_too(error: BaseException, where: str) -> None:
    async def stop() -> None:
        raise type(error)(*error.args)

    async def fail() -> None:
        if where == "task":
            await asyncio.create_task(stop())
        if where == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(stop())
        if where == "executor" and not isinstance(error, StopIteration):
            await asyncio.get_running_loop().run_in_executor(None, raises(error))
        await stop()

    result = await result_of(fail)
    names = ("RuntimeError: ", "Stop: now", "fail cancelled itself.")
    assert result["error"].startswith((f"{type(error).__name__}: ", *names))


async def test_a_task_that_a_tool_leaves_behind_does_not_end_the_process() -> None:
    left: list[asyncio.Task[None]] = []

    async def stop() -> None:
        sys.exit(3)

    async def leave() -> str:
        left.append(asyncio.create_task(stop()))
        return "left"

    assert await result_of(leave) == {"success": "left"}
    with pytest.raises(RuntimeError, match=r"sys\.exit\(3\)"):
        await left[0]


@pytest.mark.parametrize("schedule", ["call_soon", "call_later", "call_at", "threadsafe", "done callback"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_a_callback_that_a_tool_schedules_does_not_end_the_process(schedule: str, error: BaseException) -> None:
    loop, logged = asyncio.get_running_loop(), asyncio.Queue[BaseException]()
    loop.set_exception_handler(lambda _, about: logged.put_nowait(about["exception"]))

    def stop(*_: object) -> None:
        raise error

    async def leave() -> str:
        match schedule:
            case "call_soon":
                loop.call_soon(stop)
            case "call_later":
                loop.call_later(0.001, stop, "an argument")
            case "call_at":
                loop.call_at(loop.time(), stop)
            case "threadsafe":
                await asyncio.to_thread(loop.call_soon_threadsafe, stop)
            case _:
                asyncio.create_task(asyncio.sleep(0)).add_done_callback(stop)
        return "left"

    assert await result_of(leave) == {"success": "left"}
    assert isinstance(await logged.get(), RuntimeError)


async def test_a_synchronous_tool_that_raises_cancellation_is_no_stop() -> None:
    assert await result_of(raises(asyncio.CancelledError())) == {"error": "fail cancelled itself."}


@pytest.mark.parametrize("error", [GraphInterrupt(), GraphBubbleUp()])
async def test_langgraphs_signals_pass_and_leave_the_call_under_way(error: Exception) -> None:
    for raised in (error, ExceptionGroup("group", [ValueError(), error])):
        ledger = CountingLedger()
        with pytest.raises(type(error)):
            await run(raises(raised), ledger)
        assert await ledger.is_running()


def test_a_persons_ctrl_c_during_a_tool_passes() -> None:
    """Where asyncio does not listen to it, Python raises it in whatever runs."""

    async def press() -> None:
        signal.raise_signal(signal.SIGINT)

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(run(press))
    finally:
        loop.close()


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    innermost()


def innermost() -> None:
    raise RuntimeError("at the bottom " * 1000)


async def test_the_stack_begins_at_the_tool_and_keeps_its_innermost_frames() -> None:
    async def later() -> None:
        innermost()

    for source in (later, gives_way, StructuredTool.from_function(gives_way, description="Fail.")):
        stack = (await result_of(source))["stack"]
        first, *others = [line for line in stack.splitlines() if line.lstrip().startswith("File")]
        assert first.endswith(("in later", "in gives_way"))
        assert others[-1].endswith("in innermost")
        assert "langchain" not in stack


def gives_way() -> None:
    innermost()


async def test_a_long_stack_keeps_its_end() -> None:
    def dive(levels: int) -> None:
        deep(levels)

    stack = (await result_of(dive, levels=900))["stack"]
    assert len(stack) <= STACK_CHARS
    assert "in innermost" in stack
    assert "RuntimeError: at the bottom" in stack


async def test_the_cause_is_told_too() -> None:
    def chain() -> None:
        try:
            innermost()
        except RuntimeError as error:
            raise ValueError("above") from error

    result = await result_of(chain)
    assert result["error"] == "ValueError: above"
    assert "direct cause" in result["stack"]
    assert result["stack"].index("in innermost") < result["stack"].index("ValueError: above")


async def test_a_very_long_error_is_cut() -> None:
    assert len((await result_of(raises(ValueError("x" * 1_000_000))))["error"]) == 10_000


# What takes too long


class Switch:
    """Tools that wait to be let go; `ended` counts those that came to their end."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.ended = 0

    def block(self) -> str:
        self.begun.set()
        self.go.wait(SECONDS)
        self.ended += 1
        return "done"

    async def stubborn(self) -> str:
        self.begun.set()
        while not self.go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.ended += 1
        return "done"


@pytest.fixture
async def switch() -> AsyncIterator[Switch]:
    made = Switch()
    yield made
    made.go.set()


async def test_an_asynchronous_tool_that_is_late_is_given_up() -> None:
    tidied = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            tidied.append("up")

    assert await result_of(tool(timeout=BRIEF)(slow)) == {"error": "slow took longer than 0.05 s and was cancelled."}
    assert tidied == ["up"]


async def test_a_synchronous_tool_that_is_late_has_an_unknown_outcome(switch: Switch) -> None:
    result = await result_of(tool(timeout=BRIEF)(switch.block))
    assert result["unknown_outcome"] is True
    assert result["error"] == (
        "unknown_outcome: block took longer than 0.05 s and cannot be stopped, so it may still be running and take "
        "effect later: check what it did before calling it again."
    )
    assert abandoned() == {"block": 1}
    switch.go.set()
    await until(lambda: not abandoned())
    assert switch.ended == 1


@pytest.mark.parametrize("marks", [{"read_only": True}, {"idempotent": True}])
async def test_one_that_may_run_twice_is_only_late(switch: Switch, marks: dict[str, bool]) -> None:
    result = await result_of(tool(timeout=BRIEF, **marks)(switch.block))  # type: ignore[call-overload]
    assert result == {"error": "block took longer than 0.05 s and was cancelled."}


async def test_a_tool_that_will_not_be_cancelled_has_an_unknown_outcome(switch: Switch) -> None:
    result = await result_of(tool(timeout=BRIEF)(switch.stubborn))
    assert result["unknown_outcome"] is True
    assert switch.ended == 1


async def test_a_tool_that_ends_when_it_is_told_to_has_its_result() -> None:
    @tool(timeout=BRIEF)
    async def polite() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "half of it"
        return "all of it"

    assert await result_of(polite) == {"success": "half of it"}


async def test_a_tool_that_fails_when_it_is_told_to_end_was_late() -> None:
    @tool(timeout=BRIEF)
    async def rude() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("no")

    assert await result_of(rude) == {"error": "rude took longer than 0.05 s and was cancelled."}


async def test_without_a_timeout_of_its_own_the_agents_holds() -> None:
    async def slow() -> None:
        await asyncio.sleep(60)

    assert (await run(slow, seconds=BRIEF)).result == {"error": "slow took longer than 0.05 s and was cancelled."}


# Stops, resumes and the ledger


async def stopped(source: Any, ledger: Any, switch: Switch) -> None:
    """Stop a call once its tool has begun."""
    switch.begun.clear()
    task = asyncio.create_task(run(source, ledger))
    await until(switch.begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stop_leaves_the_call_under_way_and_a_resume_says_so(switch: Switch) -> None:
    ledger = CountingLedger()
    await stopped(switch.block, ledger, switch)
    assert await ledger.is_running()
    resumed = await run(switch.block, ledger)
    assert resumed.result["unknown_outcome"] is True
    assert resumed.result["error"].startswith("unknown_outcome: block was under way when its process stopped")
    switch.go.set()
    again = await run(switch.block, ledger)
    assert (again.result, again.seconds, ledger.settled) == (resumed.result, 0.0, 1)


async def test_a_stop_waits_for_a_tool_to_tidy_up_but_not_for_ever(switch: Switch) -> None:
    tidied = []

    async def slow() -> None:
        switch.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            tidied.append("up")

    await stopped(slow, CountingLedger(), switch)
    assert tidied == ["up"]
    await stopped(switch.stubborn, CountingLedger(), switch)


async def test_an_idempotent_call_is_run_again_after_a_stop(switch: Switch) -> None:
    ledger = CountingLedger()
    again = tool(idempotent=True)(switch.block)
    await stopped(again, ledger, switch)
    switch.go.set()
    assert (await run(again, ledger)).result == {"success": "done"}
    assert ledger.settled == 1


async def test_an_unknown_tool_that_was_under_way_has_an_unknown_outcome() -> None:
    ledger = CountingLedger()
    await ledger.claim(KEY, "gone", {})
    assert (await run_call({}, "gone", {}, KEY, ledger, 1)).result["unknown_outcome"] is True


async def test_without_a_ledger_a_call_is_run_each_time() -> None:
    ran: list[int] = []

    def count() -> int:
        ran.append(1)
        return len(ran)

    assert [(await run(count)).result for _ in range(2)] == [{"success": 1}, {"success": 2}]


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "source",
    [
        gives({"n": 2**70, "f": float("nan"), "b": b"\xff", "s": {1, 2}, "t": "\ud83d", 1: CIRCLE}),
        raises(ValueError("\ud800")),
        raises(BaseExceptionGroup("all", [Stop(), ValueError()])),
    ],
)
async def test_the_real_ledger_takes_every_outcome_once(tmp_path: Path, source: Any) -> None:
    async with await open_database(str(tmp_path / "segue.db")) as database:
        ledger = ToolLedger(database, "s", await Lease(database).acquire("s", "me"))
        first = await run(source, ledger)
        assert json.loads(json.dumps(first.result, allow_nan=False, ensure_ascii=False).encode()) == first.result
        assert await run(source, ledger) == Outcome(first.result, 0.0)


# Approval, and calls that may have taken effect already


async def test_a_tool_that_needs_approval_runs_only_with_it() -> None:
    ran: list[int] = []

    @tool(needs_approval=True)
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    bound = {"pay": as_tool(pay)}
    for ledger in (None, CountingLedger()):
        refused = await run_call(bound, "pay", {"amount": 1}, KEY, ledger, 1)
        assert refused.result == {"error": "pay requires approval and was not approved, so it was not run."}
    assert ran == []
    assert (await run_call(bound, "pay", {"amount": 1}, KEY, None, 1, approved=True)).result == {"success": "paid"}
    assert ran == [1]


async def test_a_call_that_ran_before_its_tool_needed_approval_keeps_its_result() -> None:
    ledger = CountingLedger()
    await run(gives(1), ledger)
    marked = {"give": as_tool(tool(needs_approval=True)(gives(2)))}
    assert (await run_call(marked, "give", {}, KEY, ledger, 1)).result == {"success": 1}


def next_key(index: int) -> CallKey:
    return CallKey("t", "s", index)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[ToolLedger]:
    async with await open_database(str(tmp_path / "segue.db")) as database:
        yield ToolLedger(database, "s", await Lease(database).acquire("s", "me"))


async def test_a_call_like_one_of_unknown_outcome_is_not_run_again(real: ToolLedger, switch: Switch) -> None:
    bound = {"block": as_tool(tool(timeout=BRIEF)(switch.block))}
    assert (await run_call(bound, "block", {}, next_key(0), real, 1)).result["unknown_outcome"] is True
    switch.go.set()
    for index in (1, 2):
        again = await run_call(bound, "block", {}, next_key(index), real, 10)
        assert again.result["unknown_outcome"] is True
        assert "an earlier call of block with the same arguments" in again.result["error"]
        assert "check what the earlier one did" in again.result["error"]
    assert switch.ended <= 1
    elsewhere = await run_call(bound, "block", {}, CallKey("another task", "s", 0), real, 10)
    assert elsewhere.result == {"success": "done"}
    approved = await run_call(bound, "block", {}, next_key(3), real, 10, approved=True)
    assert approved.result == {"success": "done"}


@pytest.mark.parametrize("marks", [{"read_only": True}, {"idempotent": True}])
async def test_what_may_run_twice_runs_though_its_like_is_in_doubt(real: ToolLedger, marks: dict[str, bool]) -> None:
    await real.claim(next_key(0), "give", {})
    await real.settle(next_key(0), {"error": "unknown_outcome: …", "unknown_outcome": True})
    bound = {"give": as_tool(tool(**marks)(gives(1)))}  # type: ignore[call-overload]
    assert (await run_call(bound, "give", {}, next_key(1), real, 1)).result == {"success": 1}


def test_arguments_are_checked_without_a_call() -> None:
    def double(number: int) -> int:
        raise AssertionError("it ran")

    def picky(value: int) -> int:
        raise RuntimeError("never")

    assert argument_error(as_tool(double), {"number": 1}) == ""
    assert argument_error(as_tool(double), {"number": "x"}).startswith("number: Input should be a valid integer")
    assert argument_error(as_tool(double), {"number": 1, "unit": "kg"}) == "unknown: unit; the arguments are: number"
    assert argument_error(None, {"number": "x"}) == ""

    def weigh(load: Annotated[int, AfterValidator(picky)]) -> int:
        return load

    assert argument_error(as_tool(weigh), {"load": 1}) == "RuntimeError: never"


async def test_a_call_is_not_abandoned_that_is_made_again_since_its_check_took_too_long() -> None:
    async def hangs() -> None:
        await asyncio.sleep(SECONDS)

    @tool(idempotent=True, timeout=BRIEF, check=hangs)
    def look(call: CallContext) -> bool:
        """Whether the call is abandoned."""
        return call.abandoned.is_set()

    ledger = MemoryLedger()
    await ledger.claim(KEY, "look", {})
    assert (await run(look, ledger)).result == {"success": False}


# Whatever a tool returns becomes JSON that a checkpoint takes.


class Colour(enum.Enum):
    RED = "red"
    BOTH = ("red", "blue")


class Size(enum.IntEnum):
    BIG = 3


class Pair(NamedTuple):
    a: int
    b: Any


class Point(BaseModel):
    x: int
    when: datetime.date
    token: SecretStr = SecretStr("s3cret")


@dataclasses.dataclass
class Room:
    number: int
    next: "Room | None" = None


class Numbers:
    """As NumPy's arrays are."""

    def tolist(self) -> list[float]:
        return [1.0, math.nan]

    def __len__(self) -> int:
        raise TypeError


class Thing:
    def __str__(self) -> str:
        return "a thing"


class Loud(str):
    def __str__(self) -> str:
        return self.upper()


class Half(float):
    pass


LOOP: dict[str, Any] = {"n": 1}
LOOP["again"] = [LOOP]
ROOM = Room(1)
ROOM.next = ROOM
SHARED = [1]
MIXED = {"1": "a", "1 (str)": "b", "null": "c", "false": "d", "2.5": "e"}


@cases(
    "value, expected",
    [
        (None, None),
        (True, True),
        ("", ""),
        (-0.0, -0.0),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63, str(2**63)),
        (-(2**63) - 1, str(-(2**63) - 1)),
        ([1 << 20_000], [hex(1 << 20_000)]),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("nul \0", "nul \0"),
        (b"text \xe6\x98\xaf", "text 是"),
        (bytearray(b"\xff\x00"), {"bytes": 2, "base64": "/wA="}),
        (memoryview(b"ok"), "ok"),
        ((1, (2, 3)), [1, [2, 3]]),
        (Pair(1, b"x"), [1, "x"]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"a"}), ["a"]),
        (range(3), [0, 1, 2]),
        (collections.deque([1]), [1]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.items(), [["a", 1]]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.UserDict({"a": 1}), {"a": 1}),
        (collections.UserString("text"), "text"),
        ({1: "a", "1": "b", None: "c", False: "d", 2.5: "e"}, MIXED),
        ({Colour.RED: 1, (1, 2): 2, "\ud800": 3, math.nan: 4}, {"red": 1, "(1, 2)": 2, "\ufffd": 3, "NaN": 4}),
        ([Colour.RED, Colour.BOTH, Size.BIG], ["red", ["red", "blue"], 3]),
        (Loud("soft"), "soft"),
        (Half(0.5), 0.5),
        (datetime.date(2026, 5, 1), "2026-05-01"),
        (datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC), "2026-05-01T12:00:00+00:00"),
        (datetime.timedelta(hours=1), "1:00:00"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (1 + 2j, "(1+2j)"),
        (ValueError("x"), "x"),
        (Thing(), "a thing"),
        (array.array("i", [1, 2]), [1, 2]),
        (Numbers(), [1.0, "NaN"]),
        (Room, str(Room)),
        (Point(x=1, when=datetime.date(2026, 5, 1)), {"x": 1, "when": "2026-05-01", "token": "**********"}),
        (RootModel[bytes](b"raw"), "raw"),
        (RootModel[list[int]]([1]), [1]),
        (Room(1, Room(2)), {"number": 1, "next": {"number": 2, "next": None}}),
        (AIMessage("hello"), "hello"),
        (Document("page"), {"id": None, "metadata": {}, "page_content": "page", "type": "Document"}),
        (LOOP, {"n": 1, "again": ["[circular]"]}),
        (ROOM, {"number": 1, "next": "[circular]"}),
        ([SHARED, SHARED], [[1], [1]]),
    ],
)
def test_value(value: Any, expected: Any) -> None:
    found = json_value(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    json.dumps(found, ensure_ascii=False).encode()
    serializer = JsonPlusSerializer(allowed_msgpack_modules=[])
    assert serializer.loads_typed(serializer.dumps_typed(found)) == found


def nested(levels: int, inner: Any = "core") -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def test_what_is_nested_too_deep_is_left_out() -> None:
    assert json_value(nested(DEPTH)) == nested(DEPTH)
    assert "core" not in str(json_value(nested(DEPTH + 1)))
    found = json_value(nested(100_000))
    assert "deeper than 100 levels" in str(found)
    serializer = JsonPlusSerializer(allowed_msgpack_modules=[])
    assert serializer.loads_typed(serializer.dumps_typed(found)) == found


@cases("value", [iter([1]), (n for n in "ab"), map(str, [1]), [zip([1], [2], strict=True)]])
def test_what_can_be_read_once_only_is_refused(value: Any) -> None:
    with pytest.raises(NoResult, match="return a list"):
        json_value(value)


def test_lists_that_stand_for_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.tools.calls.VALUES", 10_000)
    many: Any = "x"
    for _ in range(60):
        many = [many, many]
    with pytest.raises(NoResult, match="more than 10,000 values"):
        json_value(many)
    with pytest.raises(NoResult):
        json_value(range(10**12))


# The threads of synchronous tools: what they see, what comes back, and what happens when nobody waits.

SEEN = contextvars.ContextVar("SEEN", default="nothing")

HANGS = """
import asyncio, time
from segue.core.calls import CallKey
from segue.tools.registry import as_tool, tool
from tests.tool_calls import run_call

@tool(timeout=0.05)
def hang(seconds: int) -> None:
    time.sleep(seconds)

print(asyncio.run(run_call({"hang": as_tool(hang)}, "hang", {"seconds": 60}, CallKey("t", "s", 0), None, 1)).result)
"""


async def test_the_result_of_a_daemon_that_sees_the_context() -> None:
    SEEN.set("this")
    found = await run_in_thread("look", lambda: (SEEN.get(), threading.current_thread()))
    assert found[0] == "this"
    assert (found[1].name, found[1].daemon) == ("tool look", True)
    assert not has_running_thread(asyncio.current_task() or pytest.fail("no task"))


async def test_what_the_thread_sets_stays_in_it() -> None:
    await run_in_thread("set", lambda: SEEN.set("that"))
    assert SEEN.get() == "nothing"


async def test_many_run_side_by_side() -> None:
    together = threading.Barrier(40, timeout=SECONDS)
    await asyncio.gather(*(run_in_thread("meet", together.wait) for _ in range(40)))


async def test_a_thread_that_was_given_up_counts_until_it_ends() -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        begun.release()
        go.wait()

    waiting = [asyncio.create_task(run_in_thread(name, wait)) for name in ("slow", "slow", "late")]
    for _ in waiting:
        await asyncio.to_thread(begun.acquire)
    assert abandoned() == {}
    for task in waiting:
        task.cancel("stop")
    await asyncio.wait(waiting)
    assert all(task.cancelled() and has_running_thread(task) for task in waiting)
    assert abandoned() == {"slow": 2, "late": 1}
    go.set()
    await until(lambda: abandoned() == {})


def test_a_thread_that_outlives_its_loop_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    go = threading.Event()

    async def leave() -> None:
        async with asyncio.timeout(0.01):
            await run_in_thread("outlive", go.wait)

    with pytest.raises(TimeoutError):
        asyncio.run(leave())
    go.set()
    asyncio.run(until(lambda: abandoned() == {}))
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_hanging_tool_does_not_keep_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert "unknown_outcome" in done.stdout
