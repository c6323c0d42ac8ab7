"""Tool calls of LangGraph graphs that Segue did not write, through the ledger: finished ones are not run again.

the process dies here                        the next process does with the call
before the intent is stored                  it runs
intent ── tool ── outcome                    `check` decides; a repeatable one runs; else its outcome is unknown
outcome stored, not yet in a checkpoint      it gets the stored result
"""

import asyncio
import json
import logging
import os
import threading
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import (
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    run_in_executor,
)
from langchain_core.tools import BaseTool
from langgraph._internal._runnable import RunnableSeq
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest, msg_content_output
from langgraph.pregel import Pregel
from langgraph.types import Command

from ..checkpoints.graphs import LEDGER
from ..checkpoints.ledger import ToolLedger, canonical
from ..checkpoints.storage import Storage, open_storage
from ..core.calls import CallKey, CallResult, Claim
from ..core.environment import is_server
from ..core.errors import ConfigurationError, LedgerClosed, SegueError, StaleOwner, StorageError, listed
from ..core.sync import run_sync
from ..prompts.catalogue import error_text, task_text
from ..tools.adapters.functions import bind_check, context_parameter, defaults_of, is_synchronous, marks_of
from ..tools.bound_tool import NOT_DONE, CallContext, UnknownOutcome, current_call, idempotency_key
from ..tools.calls import unknown_outcome
from .graph_answers import PLACE, keep_answers_apart
from .relay import Notices
from .runner import LeaseHolder

logger = logging.getLogger(__name__)

T = TypeVar("T")
_Response = Any
"""What a ToolNode gets of a call: a ToolMessage, a Command, or a list of both."""
_Execute = Callable[[ToolCallRequest], Any]
Check = Callable[..., Any]

DATABASE = "effects.db"
_BUSY_SECONDS = 600.0
"""Seconds that a call waits for those that another process runs in its thread."""
_STORED = "response"
_SHOWN_ID = 40
"""Characters of a call's id in the ledger: some models put a signature into it."""

# A call in a graph's state.


@dataclass(frozen=True)
class _Call:
    """A call as the ledger knows it; `origin` is what it has in common with no other call."""

    request: ToolCallRequest
    thread_id: str
    key: CallKey
    arguments: Mapping[str, Any]
    serde: SerializerProtocol
    language: str

    @property
    def tool(self) -> BaseTool:
        return self.request.tool  # type: ignore[return-value]  # a call without a tool does not get here

    @property
    def origin(self) -> tuple[str, CallKey]:
        return self.thread_id, self.key

    def context(self, attempt: int) -> CallContext:
        where = f"{self.thread_id}/{self.key.task_id}/{self.key.scope}/{self.key.index}"
        return CallContext(
            idempotency_key=idempotency_key(where, self.tool.name, self.arguments),
            tool=self.tool.name,
            session_id=self.thread_id.removeprefix(LEDGER),
            attempt=attempt,
        )

    def unknown(self, sentence: str, why: str = "") -> "_Outcome":
        result = unknown_outcome(sentence, self.language, tool=self.tool.name, why=why)
        return _Outcome(self._message(result.error, "error"), result.json())

    def stopped_unknown(self, error: Exception) -> "_Outcome":
        why = error_text(error, self.language) if isinstance(error, SegueError) else str(error)
        return self.unknown("call_stopped_unknown", why=why.rstrip(".。"))

    def checked(self, value: Any) -> "_Outcome":
        """The outcome that a check gives as a value."""
        return self.done(value if isinstance(value, ToolMessage | Command) else self._message(value, "success"))

    def done(self, response: _Response) -> "_Outcome":
        status = "error" if isinstance(response, ToolMessage) and response.status == "error" else "success"
        try:
            kind, stored = self.serde.dumps_typed(response)
            return _Outcome(response, {status: None, _STORED: [kind, b64encode(stored).decode()]})
        except Exception as error:  # noqa: BLE001 - a serializer may raise anything, and the tool has run
            logger.warning("The result of the tool %s is stored as a text only: %s", self.tool.name, error)
            return _Outcome(response, {status: getattr(response, "text", None)})

    def finished(self, stored: Mapping[str, Any]) -> "_Outcome":
        """The outcome of a call that ended before."""
        if _STORED in stored:
            kind, encoded = stored[_STORED]
            try:
                return _Outcome(self.serde.loads_typed((kind, b64decode(encoded))), None)
            except Exception as error:  # noqa: BLE001 - a serializer may raise anything
                sentence = task_text("call_unreadable", self.language, tool=self.tool.name)
                return _Outcome(self._message(f"{sentence} {type(error).__name__}", "error"), None)
        result = CallResult.of(stored)
        return _Outcome(self._message(result.content, "success" if result.success else "error"), None)

    def report(self, response: _Response) -> None:
        """Tell the callbacks of the run, such as its stream, of a call that is not run again."""
        manager = get_callback_manager_for_config(self.request.runtime.config or {})
        manager.on_tool_start(**self._started()).on_tool_end(response, name=self.tool.name)

    async def areport(self, response: _Response) -> None:
        """As `report`."""
        manager = get_async_callback_manager_for_config(self.request.runtime.config or {})
        await (await manager.on_tool_start(**self._started())).on_tool_end(response, name=self.tool.name)

    def _started(self) -> dict[str, Any]:
        return {
            "serialized": {"name": self.tool.name, "description": self.tool.description},
            "input_str": str(self.arguments),
            "inputs": dict(self.arguments),
            "name": self.tool.name,
            "tool_call_id": self.request.tool_call["id"],
        }

    def _message(self, value: Any, status: Any) -> ToolMessage:
        content: Any = msg_content_output(value)
        call_id = self.request.tool_call["id"]
        return ToolMessage(content, name=self.tool.name, tool_call_id=call_id, status=status)


@dataclass(frozen=True)
class _Outcome:
    """What the graph gets, and what is stored; None where that is stored already."""

    response: _Response
    stored: Mapping[str, Any] | None


def _read_call(request: ToolCallRequest, language: str) -> _Call:
    """Identify a call by the model's message, which a resumption and a fork have in common.

    A message that a fork lets the model write anew has another id, and so have its calls. A call that the graph makes
    once more has its earlier answers in the state. Where no message has an id, the checkpoint's task identifies it.
    """
    call, runtime = request.tool_call, request.runtime
    config: RunnableConfig = runtime.config or {}
    info = runtime.execution_info
    arguments: dict[str, Any] = json.loads(json.dumps(call["args"], default=str))
    messages = _messages_in(request.state)
    at = None
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage) and any(each["id"] == call["id"] for each in message.tool_calls):
            at = index
    made: Any = messages[at] if at is not None else None
    if made is not None and made.id:
        origin, earlier, later = made.id, messages[:at], messages[at:]
        turn = next((each.id for each in reversed(earlier) if isinstance(each, HumanMessage) and each.id), origin)
        twins = [each for each in made.tool_calls if each["id"] == call["id"]]
        attempt = sum(isinstance(each, ToolMessage) and each.tool_call_id == call["id"] for each in later)
    else:
        origin = turn = info.task_id if info else str(uuid4())
        twins, attempt = [], 0
    names = [part.partition(":")[0] for part in (info.checkpoint_ns if info else "").split("|")]
    identity = [origin, call["id"], call["name"], canonical(arguments)]
    place = (config.get("configurable") or {}).get(PLACE)
    if not twins and place is not None:  # one of several that a node sends without a message
        identity.append(str(place))
    if len(twins) > 1:  # a model that gives two calls one id
        own = next((i for i, each in enumerate(twins) if each is call), place or 0)
        identity += [str((config.get("metadata") or {}).get("langgraph_path")), str(own)]
    digest = sha256(json.dumps(identity).encode()).hexdigest()[:32]
    scope = f"{'/'.join(names)}/{str(call['id'])[:_SHOWN_ID]}/{digest}"
    thread_id = (config.get("configurable") or {}).get("thread_id") or (info.thread_id if info else "") or origin
    saver = (config.get("configurable") or {}).get("__pregel_checkpointer")
    serde = getattr(saver, "serde", None) or JsonPlusSerializer()
    return _Call(request, f"{LEDGER}{thread_id}", CallKey(turn, scope, attempt), arguments, serde, language)


def _messages_in(state: Any) -> list[BaseMessage]:
    """The messages of a graph's state, under whatever key it has them."""
    if isinstance(state, list):
        return [each for each in state if isinstance(each, BaseMessage)]
    values = state.values() if isinstance(state, Mapping) else getattr(state, "__dict__", {}).values()
    found = [[each for each in value if isinstance(each, BaseMessage)] for value in values if isinstance(value, list)]
    return max(found, key=len, default=[])


# The ledger's database in this process.


@dataclass
class _Thread:
    """A thread whose calls this process runs: its lease is held for as long as there are any."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fence: int = 0
    users: int = 0
    running: dict[CallKey, asyncio.Event] = field(default_factory=dict)


class _OpenLedger:
    """An open database, on an event loop in a thread of its own; every graph of the process shares it.

    So a graph that runs inside a tool of another one finds its thread's lease held by its own process.
    """

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._threads: dict[str, _Thread] = {}
        self._left: set[Future[None]] = set()
        self.users = 0
        self.calls = 0
        """Calls under way, which keep the database open."""
        self.closing = False
        self._thread = threading.Thread(target=self._run, name="segue-ledger", daemon=True)
        self._thread.start()
        try:
            self._storage, self._notices, self._leases = self.wait(self._open(url))
        except BaseException:
            self._stop()
            raise

    @property
    def ends_with_call(self) -> bool:
        """Whether the call that ends next is the last one before the database is closed."""
        return self.calls == 1 and self.users <= 0 and self.closing

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _open(self, url: str) -> tuple[Storage, Notices, LeaseHolder]:
        storage = await open_storage(url)
        await storage.check_writable()
        notices = Notices(storage.workers)
        leases = LeaseHolder(storage, notices, _log_lost, lambda thread_id, why: _log_lost(thread_id))
        return storage, notices, leases

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work, self._loop)

    async def reach(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work from another loop; it goes on to its end if the caller is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop)))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that nobody waits for before the end."""
        begun = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._left.add(begun)
        begun.add_done_callback(self._left.discard)

    async def reach_claim(self, call: _Call, *, synced: bool) -> Claim:
        """Claim a call from another loop; of a caller that is cancelled meanwhile it is taken back."""
        claiming = asyncio.run_coroutine_threadsafe(self.claim(call, synced=synced), self._loop)
        try:
            return await asyncio.shield(asyncio.wrap_future(claiming))
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda claimed: self.begin(self._take_back(call, claimed)))
            raise

    async def _take_back(self, call: _Call, claimed: "Future[Claim]") -> None:
        if claimed.exception() is not None:
            return
        try:
            if claimed.result().state in ("fresh", "doubtful"):
                await self.withdraw(call)
        finally:
            await self.leave(call)

    async def claim(self, call: _Call, *, synced: bool) -> Claim:
        """Store the intent to run a call, once no other process and no other task of this one runs it."""
        thread = self._threads.setdefault(call.thread_id, _Thread())
        thread.users += 1
        try:
            while call.key in thread.running:
                await thread.running[call.key].wait()
            thread.running[call.key] = asyncio.Event()
            try:
                async with thread.lock:
                    if not thread.fence:
                        thread.fence = await self._leases.take(call.thread_id, wait=_BUSY_SECONDS)
                return await self._of(call).claim(call.key, call.tool.name, call.arguments, synced=synced)
            except BaseException:
                thread.running.pop(call.key).set()
                raise
        except BaseException:
            await self._leave_thread(call.thread_id, thread)
            raise

    async def settle(self, call: _Call, outcome: Mapping[str, Any], *, synced: bool) -> None:
        try:
            await self._of(call).settle(call.key, outcome, synced=synced)
        except StaleOwner:
            raise
        except StorageError as error:  # it stays under way, so whoever comes next does not repeat it
            logger.warning("The result of the tool %s was not stored in the ledger: %s", call.tool.name, error)

    async def withdraw(self, call: _Call) -> None:
        """Take back the intent of a call that raised, which says that it had no effect, or that asks a person."""
        try:
            await self._of(call).withdraw(call.key)
        except StorageError as error:
            logger.warning("The intent of the tool %s stays in the ledger: %s", call.tool.name, error)

    async def end(self, call: _Call, ended: "Future[Any]", *, synced: bool) -> None:
        """End a call whose caller was cancelled while its tool ran in a thread."""
        try:
            error = None if ended.cancelled() else ended.exception()
            if ended.cancelled() or (isinstance(error, Exception) and not isinstance(error, UnknownOutcome)):
                await self.withdraw(call)
            elif error is None or isinstance(error, UnknownOutcome):
                outcome = call.stopped_unknown(error) if error else call.done(ended.result())
                await self.settle(call, outcome.stored or {}, synced=synced)
        except StaleOwner as error:
            logger.warning("The result of the tool %s was not stored in the ledger: %s", call.tool.name, error)
        finally:
            await self.leave(call)

    async def leave(self, call: _Call) -> None:
        """Let a call go that ended here, in whatever way."""
        thread = self._threads[call.thread_id]
        thread.running.pop(call.key).set()
        await self._leave_thread(call.thread_id, thread)

    async def _leave_thread(self, thread_id: str, thread: _Thread) -> None:
        thread.users -= 1
        async with thread.lock:
            if thread.users:
                return
            if thread.fence:
                fence, thread.fence = thread.fence, 0
                try:
                    await self._leases.release(thread_id, fence)
                except StorageError as error:  # it expires
                    logger.warning("The lease of %s was not released: %s", thread_id, error)
            if not thread.users:
                self._threads.pop(thread_id, None)

    def _of(self, call: _Call) -> ToolLedger:
        return self._storage.ledger(call.thread_id, self._threads[call.thread_id].fence)

    def close(self) -> None:
        """Wait for what is being stored, then close the database."""
        for begun in [*self._left]:
            begun.exception()
        self.wait(self._close())
        self._stop()

    async def _close(self) -> None:
        await self._leases.close()
        await self._notices.close()
        await self._storage.close()


def _log_lost(thread_id: str) -> None:
    logger.warning("The lease of %s was lost while its calls ran", thread_id)


_opened: dict[tuple[int, str], _OpenLedger] = {}
_opening = threading.RLock()


def _open_once(url: str, *, users: int = 0, calls: int = 1) -> _OpenLedger:
    """The open database of this process, for a call or for a ledger; a process that was forked opens its own."""
    place = (os.getpid(), url)
    with _opening:
        if place not in _opened:
            _opened[place] = _OpenLedger(url)
        opened = _opened[place]
        opened.users += users
        opened.calls += calls
        return opened


def _release(opened: _OpenLedger) -> None:
    """End a call; the last one closes a database whose ledgers were closed."""
    with _opening:
        is_last = opened.ends_with_call
        opened.calls -= 1
        if not is_last:
            return
        for place in [place for place, each in _opened.items() if each is opened]:
            del _opened[place]
        opened.close()


def _do_beside(work: Callable[[], T], is_brief: Callable[[], bool]) -> "Future[T]":
    """Do work that needs `_opening`: here where it is brief and no other has the lock, else in a thread.

    The thread is one of its own: those of the event loop may all be taken by tools. It cannot be cancelled.
    """
    begun = Future[T]()
    begun.set_running_or_notify_cancel()

    def do() -> None:
        try:
            begun.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            begun.set_exception(error)

    if _opening.acquire(blocking=False):
        try:
            if is_brief():
                do()
                return begun
        finally:
            _opening.release()
    threading.Thread(target=do, name="segue-ledger-open").start()
    return begun


# A graph's calls.

_inside: ContextVar[frozenset[tuple[str, tuple[str, CallKey]]]] = ContextVar("_inside", default=frozenset())
"""The calls that this one is made for: two ledgers around one tool are one."""


class CallLedger:
    """The calls of a graph's tools, as a wrapper of them; `segue.Ledger` is one as a middleware of LangChain.

    Raises:
        DatabaseUnavailable: the database cannot be written.
    """

    def __init__(
        self,
        database: str | Path = DATABASE,
        *,
        check: Mapping[str, Check] | None = None,
        idempotent: Iterable[str] = (),
        language: str = "en",
    ) -> None:
        name = str(database)
        is_file = not is_server(name) and not name.startswith((":", "file:")) and "://" not in name
        self._url = os.path.abspath(name) if is_file else name
        self._checks = dict(check or {})
        self._idempotent = (idempotent,) if isinstance(idempotent, str) else tuple(idempotent)
        self._language = language
        self._known: set[frozenset[str]] = set()
        self._closed = False
        _open_once(self._url, users=1, calls=0)

    def close(self) -> None:
        """Take no more calls, and close the database once no call is under way and no other ledger uses it."""
        place = (os.getpid(), self._url)
        with _opening:
            opened = _opened.get(place)
            if self._closed or opened is None:
                self._closed = True
                return
            self._closed = True
            opened.users -= 1
            if opened.users > 0:
                return
            opened.closing = True
            if not opened.calls:
                del _opened[place]
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_tools(self, tools: Iterable[BaseTool]) -> None:
        """Make sure that what was said of tools fits them.

        Raises:
            ConfigurationError: a tool of that name is not there, or does not have what its check asks for.
        """
        by_name = {tool.name: tool for tool in tools}
        if frozenset(by_name) in self._known:
            return
        for name in (*self._checks, *self._idempotent):
            if name not in by_name:
                raise ConfigurationError(
                    "The ledger's `check` or `idempotent` names a tool {tool} that the graph does not have; use one "
                    "of: {known}. Graphs with other tools have a ledger of their own, on the same database.",
                    tool=name,
                    known=listed(by_name),
                )
        for tool in by_name.values():
            bind_check(tool, self._checks.get(tool.name))
        self._known.add(frozenset(by_name))

    def run(self, request: ToolCallRequest, execute: _Execute) -> _Response:
        """Run a call, unless it ran before; `execute` is the tool."""
        if (call := self._entered(request)) is None:
            return execute(request)
        synced = not marks_of(call.tool).read_only
        with self._opened() as opened:
            claim = opened.wait(opened.claim(call, synced=synced))
            try:
                outcome = self._known_outcome(call, claim)
                if claim.state == "interrupted":
                    outcome = self._after_crash(call, run_sync(self._ask_check(call)))
                if outcome is not None:
                    call.report(outcome.response)
                else:
                    tool = _RunningTool(call, claim)
                    try:
                        with _marked(self._url, call):
                            response = execute(request.override(tool=tool))  # type: ignore[arg-type]
                    except UnknownOutcome as error:
                        outcome = call.stopped_unknown(error)
                    except Exception:
                        opened.wait(opened.withdraw(call))
                        raise
                    else:
                        outcome = tool.outcome(response)
                if outcome.stored is not None:
                    try:
                        opened.wait(opened.settle(call, outcome.stored, synced=synced))
                    except StaleOwner as error:
                        return call.stopped_unknown(error).response
            finally:
                opened.begin(opened.leave(call))
            return outcome.response

    async def arun(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]) -> _Response:
        """As `run`, for a graph that runs asynchronously.

        A coroutine that is cancelled stays under way. A thread goes on, and so its call ends later.
        """
        if (call := self._entered(request)) is None:
            return await execute(request)
        synced = not marks_of(call.tool).read_only
        async with self._opened_beside() as opened:
            claim = await opened.reach_claim(call, synced=synced)
            tool = _RunningTool(call, claim)
            try:
                outcome = self._known_outcome(call, claim)
                if claim.state == "interrupted":
                    outcome = self._after_crash(call, await self._ask_check(call))
                if outcome is not None:
                    await call.areport(outcome.response)
                else:
                    try:
                        with _marked(self._url, call):
                            response = await execute(request.override(tool=tool))  # type: ignore[arg-type]
                    except UnknownOutcome as error:
                        outcome = call.stopped_unknown(error)
                    except Exception:
                        await opened.reach(opened.withdraw(call))
                        raise
                    else:
                        outcome = tool.outcome(response)
                if outcome.stored is not None:
                    try:
                        await opened.reach(opened.settle(call, outcome.stored, synced=synced))
                    except StaleOwner as error:
                        return call.stopped_unknown(error).response
            except asyncio.CancelledError:
                self._end_with_thread(opened, tool, synced=synced)
                raise
            finally:
                if not tool.goes_on:
                    opened.begin(opened.leave(call))
            return outcome.response

    def _end_with_thread(self, opened: _OpenLedger, tool: "_RunningTool", *, synced: bool) -> None:
        """Leave the call of a cancelled caller once the thread of its tool has ended."""
        if (thread := tool.thread) is None or tool.outcome_taken:
            return
        tool.goes_on = True
        with _opening:
            opened.calls += 1

        def end(ended: "Future[Any]") -> None:
            opened.begin(opened.end(tool.call, ended, synced=synced))
            _release(opened)

        thread.cancel()  # has an effect only where it did not begin
        thread.add_done_callback(end)

    @contextmanager
    def _opened(self) -> Iterator[_OpenLedger]:
        """The open database, which is not closed meanwhile."""
        opened = self._take()
        try:
            yield opened
        finally:
            _release(opened)

    @asynccontextmanager
    async def _opened_beside(self) -> AsyncIterator[_OpenLedger]:
        """As `_opened`; while a database is opened or closed, the caller's event loop goes on."""

        def release(taken: "Future[_OpenLedger]") -> None:
            if taken.exception() is None:
                _release(taken.result())

        taking = _do_beside(self._take, lambda: (os.getpid(), self._url) in _opened)
        try:
            opened = await asyncio.wrap_future(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(release)
            raise
        try:
            yield opened
        finally:
            await asyncio.wrap_future(_do_beside(partial(_release, opened), lambda: not opened.ends_with_call))

    def _take(self) -> _OpenLedger:
        with _opening:
            if self._closed:
                raise LedgerClosed
            return _open_once(self._url)

    def _known_outcome(self, call: _Call, claim: Claim) -> _Outcome | None:
        if claim.state == "finished":
            return call.finished(claim.outcome or {})
        if claim.state == "doubtful" and not self._is_repeatable(call.tool):
            return call.unknown("call_doubtful")
        return None

    def _entered(self, request: ToolCallRequest) -> _Call | None:
        """The call, if this is its only ledger and there is a tool to run."""
        if request.tool is None:
            return None
        if not any(request.tool.name in names for names in self._known):
            self.check_tools([*request.runtime.tools, request.tool])
        call = _read_call(request, self._language)
        return None if (self._url, call.origin) in _inside.get() else call

    def _is_repeatable(self, tool: BaseTool) -> bool:
        marks = marks_of(tool)
        return marks.idempotent or marks.read_only or tool.name in self._idempotent

    async def _ask_check(self, call: _Call) -> Any:
        """What the tool's check says of an interrupted call: its result, `NOT_DONE`, or None if nothing can tell."""
        check = bind_check(call.tool, self._checks.get(call.tool.name))
        if check is None:
            return None
        current_call.set(call.context(attempt=2))
        try:
            return await check.call(check.known({**defaults_of(call.tool), **call.arguments}))
        except Exception as error:  # noqa: BLE001 - a check may raise anything: then nothing is known
            logger.warning("The check of the tool %s failed: %s", call.tool.name, error)
            return None

    def _after_crash(self, call: _Call, answer: Any) -> _Outcome | None:
        """The outcome of an interrupted call; None where it is run."""
        if answer is NOT_DONE or (answer is None and self._is_repeatable(call.tool)):
            return None
        return call.unknown("call_interrupted") if answer is None else call.checked(answer)


@contextmanager
def _marked(url: str, call: _Call) -> Iterator[None]:
    token = _inside.set(_inside.get() | {(url, call.origin)})
    try:
        yield
    finally:
        _inside.reset(token)


class _RunningTool:
    """A tool as a call runs it: it gets its `CallContext`, and an unknown outcome and its thread are noted.

    A ToolNode that handles errors shows the ledger a message in place of what the tool raised.
    """

    def __init__(self, call: _Call, claim: Claim) -> None:
        self.call = call
        self.thread: Future[Any] | None = None
        """What the tool gives in a thread, which a cancelled caller does not end."""
        self.goes_on = False
        self.outcome_taken = False
        self._tool = call.tool
        self._error: UnknownOutcome | None = None
        self._context = call.context(attempt=2 if claim.state == "interrupted" else 1)
        self._parameter = context_parameter(call.tool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.call.tool, name)

    def invoke(self, call: dict[str, Any], config: RunnableConfig) -> Any:
        self._error = None
        try:
            return self._tool.invoke(self._given(call), config)
        except UnknownOutcome as error:
            self._error = error
            raise

    async def ainvoke(self, call: dict[str, Any], config: RunnableConfig) -> Any:
        if is_synchronous(self._tool):
            self.thread = Future()
            return await run_in_executor(config, self._invoke_in_thread, self.thread, call, config)
        self._error = None
        try:
            return await self._tool.ainvoke(self._given(call), config)
        except UnknownOutcome as error:
            self._error = error
            raise

    def outcome(self, response: _Response) -> _Outcome:
        """The outcome of the call, of which the graph gets this response."""
        self.outcome_taken = True
        return self.call.done(response) if self._error is None else self.call.stopped_unknown(self._error)

    def _invoke_in_thread(self, ended: "Future[Any]", call: dict[str, Any], config: RunnableConfig) -> Any:
        if not ended.set_running_or_notify_cancel():
            return None
        try:
            response = self.invoke(call, config)
        except BaseException as error:
            ended.set_exception(error)
            raise
        ended.set_result(response)
        return response

    def _given(self, call: dict[str, Any]) -> dict[str, Any]:
        return {**call, "args": {**call["args"], self._parameter: self._context}} if self._parameter else call


# A compiled graph whose ToolNodes go through a ledger.

_Graph = TypeVar("_Graph", bound=Pregel[Any, Any, Any, Any])


def with_ledger(
    graph: _Graph,
    ledger: str | Path | CallLedger = DATABASE,
    *,
    check: Mapping[str, Check] | None = None,
    idempotent: Iterable[str] = (),
    language: str = "en",
) -> _Graph:
    """Copy a compiled graph so that the calls of its ToolNodes, also in its subgraphs, go through a ledger.

    `ledger` is a SQLite file, a `postgresql://` URL or a `segue.Ledger`; the other options are those of that class. The
    given graph is not changed. A graph that a node calls in its own code needs a ledger itself.

    Raises:
        ConfigurationError: it is not a compiled graph, has no ToolNode, or not the tools that the ledger names.
        DatabaseUnavailable: the database cannot be written.
    """
    if not isinstance(graph, Pregel):
        raise ConfigurationError(
            "with_ledger takes a compiled graph and got {given}: call its compile() first.", given=type(graph).__name__
        )
    own = ledger if isinstance(ledger, CallLedger) else None
    if own and (check or idempotent):
        raise ConfigurationError("Say `check` and `idempotent` of the Ledger, or give with_ledger a database.")
    calls = own or CallLedger(str(ledger), check=check, idempotent=idempotent, language=language)
    found: list[ToolNode] = []
    try:
        wrapped: _Graph = _wrapped(graph, calls, found)
        if not found:
            raise ConfigurationError(
                "The graph {name} has no ToolNode: make one of its tools, or give the graph that a node calls in its "
                "own code a ledger.",
                name=graph.get_name(),
            )
        calls.check_tools(tool for node in found for tool in node.tools_by_name.values())
    except ConfigurationError:
        if own is None:
            calls.close()
        raise
    return wrapped


def with_ledger_where_needed(graph: _Graph, ledger: CallLedger) -> _Graph:
    """As `with_ledger`; a graph without a ToolNode stays as it is."""
    wrapped: _Graph = _wrapped(graph, ledger, [])
    return wrapped


def _wrapped(runnable: Any, ledger: CallLedger, found: list[ToolNode]) -> Any:
    """The runnable, or a copy of it where there is a ToolNode in it."""
    if isinstance(runnable, ToolNode):
        found.append(runnable)
        return _with_wrapper(runnable, ledger)
    if isinstance(runnable, RunnableSeq):
        steps = [_wrapped(step, ledger, found) for step in runnable.steps]
        if all(new is old for new, old in zip(steps, runnable.steps, strict=True)):
            return runnable
        new_sequence = copy(runnable)
        new_sequence.steps = steps
        return new_sequence
    if isinstance(runnable, RunnableSerializable) and not isinstance(runnable, BaseTool | BaseLanguageModel):
        given = {name: getattr(runnable, name) for name in type(runnable).model_fields}
        changed = {name: new for name, old in given.items() if (new := _wrapped_field(old, ledger, found)) is not old}
        return runnable.model_copy(update=changed) if changed else runnable
    if not isinstance(runnable, Pregel):
        return runnable
    nodes = {}
    for name, node in runnable.nodes.items():
        bound = _wrapped(node.bound, ledger, found)
        nodes[name] = node if bound is node.bound else node.copy({"bound": bound, "subgraphs": None})
    return runnable.copy({"nodes": nodes})


def _wrapped_field(value: Any, ledger: CallLedger, found: list[ToolNode]) -> Any:
    """What a runnable is made of: bindings, retries and fallbacks have others in them, alone or as a collection."""
    if isinstance(value, Runnable):
        return _wrapped(value, ledger, found)
    if isinstance(value, Mapping):
        new_values = {key: _wrapped_field(each, ledger, found) for key, each in value.items()}
        return new_values if any(new_values[key] is not value[key] for key in value) else value
    if isinstance(value, list | tuple):
        new_items = [_wrapped_field(each, ledger, found) for each in value]
        return (
            type(value)(new_items) if any(new is not old for new, old in zip(new_items, value, strict=True)) else value
        )
    return value


def _with_wrapper(node: ToolNode, ledger: CallLedger) -> ToolNode:
    """A copy of a ToolNode whose calls go through its own wrapper first, then through the ledger."""
    own, own_async = node._wrap_tool_call, node._awrap_tool_call
    new = copy(node)
    keep_answers_apart(new)
    new._wrap_tool_call, new._awrap_tool_call = ledger.run, ledger.arun
    if own is not None:
        new._wrap_tool_call = lambda request, execute: own(request, lambda given: ledger.run(given, execute))
        new._awrap_tool_call = None
    if own_async is not None:
        new._awrap_tool_call = lambda request, execute: own_async(request, lambda given: ledger.arun(given, execute))
    return new
