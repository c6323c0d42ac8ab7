"""The node of a mode that is a graph of one's own: its tokens, calls, store, cache and limit of steps."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from inspect import get_annotations
from itertools import accumulate
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolMessage
from langgraph.errors import GraphRecursionError
from langgraph.graph.state import CompiledStateGraph

from segue.core.calls import CallResult
from segue.core.context import AppContext, RunContext, surrounding
from segue.core.errors import ConfigurationError
from segue.core.events import Answer, AttemptRestarted, Durable, Phase, RestartReason, Token, ToolCall, ToolResult
from segue.core.models import add_usages
from segue.prompts.catalogue import task_text

from .context import NodeContext, NodeRuntime, announce, is_steering, ref_of
from .model_call import CALL_MARK, LiveCalls, LiveReply
from .task import TaskState, compose_result, nested_services

Graph = CompiledStateGraph[Any, Any, Any, Any]
_RUNTIME, _CACHE = "__pregel_runtime", "__pregel_cache"
"""Where LangGraph's config has the runtime and the cache of a node, which a graph below it takes."""


class _Live:
    """Streams what the models of a graph write: the last reply is the answer."""

    def __init__(self, work: NodeContext, task_id: str, language: str, own_nodes: Collection[str]) -> None:
        self._work = work
        self._own_nodes = own_nodes
        self._task_id = task_id
        self._language = language
        self._message_id: str | None = None
        self._reply = LiveReply(work, {"task_id": task_id}, language)
        self._listener = LiveCalls(self._reply)

    def read(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """A piece of a reply, a whole one, or the result of a call; Segue's graphs stream their own."""
        places = accumulate(str(metadata.get("langgraph_checkpoint_ns", "")).split("|"), "{}|{}".format)
        if metadata.get(CALL_MARK) or any(place in self._own_nodes for place in places):
            return
        if isinstance(message, ToolMessage):
            name = "call_failed" if message.status == "error" else "call_done"
            content = task_text(name, self._language, tool=message.name or "", result=message.text[:300])
            self._work.emit(Phase(task_id=self._task_id, content=content, call=True))
        elif isinstance(message, AIMessage):
            if message.id != self._message_id:
                self._begin(message.id)
            if message.tool_calls or (isinstance(message, AIMessageChunk) and message.tool_call_chunks):
                self._listener.call()
            if message.text:
                self._listener.text(message.text)
            if not isinstance(message, AIMessageChunk):
                self._listener.end()

    def _begin(self, message_id: str | None) -> None:
        self.end()
        if self._reply.streamed:
            reason = RestartReason.CONTINUED.value
            self._work.emit(AttemptRestarted(task_id=self._task_id, attempt=1, reason=reason))
        self._message_id = message_id
        self._reply = LiveReply(self._work, {"task_id": self._task_id}, self._language)
        self._listener = LiveCalls(self._reply)

    def end(self) -> None:
        self._listener.end()
        self._reply.end()

    def finish(self, answer: str) -> None:
        """Stream what is missing of the answer."""
        self.end()
        if not answer.startswith(self._reply.streamed):
            self._begin(None)
        if rest := answer.removeprefix(self._reply.streamed):
            self._work.emit(Token(task_id=self._task_id, content=rest))


def own_context(graph: Graph, context: RunContext) -> Any:
    """What the graph's nodes have as their context: of a schema of their own, the fields that Segue's has, too."""
    schema: Any = graph.context_schema
    if schema is None or (isinstance(schema, type) and issubclass(schema, RunContext)):
        return context
    fields = {name for part in schema.__mro__ for name in get_annotations(part)}
    return {name: getattr(context, name) for name in RunContext.model_fields if name in fields}


async def run_graph(
    name: str,
    graph: Graph,
    given: Mapping[str, Any],
    state: TaskState,
    runtime: NodeRuntime,
    work: NodeContext,
) -> TaskState:
    """Run a graph of one's own, stream what it writes, and return what it added to the history.

    Segue's graphs in it work on the task: their events are those of parts of it.
    """
    services = nested_services(work.services, work.services.ledger, state)
    live = _Live(work, state["task_id"], state["language"], services.own_nodes)
    checkpoint = runtime.execution_info.checkpoint_id if runtime.execution_info else ""
    recorded = _Recorded(work, state["task_id"], checkpoint)
    counted, before = len(services.used), await services.used_before() or state["usage"]
    context = AppContext.carrying(services, **{**work.context.model_dump(), "mode": ""})
    given_context = own_context(graph, context)
    surroundings = runtime.override(context=given_context, store=graph.store or runtime.store)
    places: dict[str, Any] = {_RUNTIME: surroundings}  # LangGraph takes from there what is empty, such as a context
    if graph.cache:
        places[_CACHE] = graph.cache
    own: Any = None
    out: Any = {}
    try:
        with surrounding(context, work.services):
            async for inside, kind, data in graph.astream(
                given,
                {"configurable": places},
                context=given_context,
                stream_mode=["values", "messages"],
                subgraphs=True,
            ):
                own = inside if own is None else own
                if kind == "messages":
                    live.read(*data)
                elif inside == own:
                    out = data
                    await recorded.read(_added(out["messages"], given["messages"], state["messages"]))
    except GraphRecursionError as error:
        raise _endless(name, graph) from error
    finally:
        live.end()
    fresh = _added(out["messages"], given["messages"], state["messages"])
    answers = [m.text for m in fresh if m.type == "ai" and m.text]
    answer = answers[-1] if answers else ""
    live.finish(answer)
    calls = [call for call in _calls_in(fresh) if call["result"]]
    history = [
        {"step": step, "phase": "execution", "action": call["name"], "result": call["result"], "description": ""}
        for step, call in enumerate(calls, start=1)
    ]
    why = "" if answer else task_text("no_answer", state["language"], mode=name)
    usage = add_usages([before, *services.used[counted:]])
    result = compose_result(name, answer, history=history, usage=usage, error=why)
    return {
        "messages": fresh,
        "result": result,
        "events": announce(Answer(task_id=state["task_id"], answer=answer)),
    }


def _calls_in(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """The calls with their results where there are any, which may be in another order than the calls.

    A graph of Segue has told those that it made.
    """
    results, counts, found = defaultdict[str, list[ToolMessage]](list), Counter[str](), []
    for message in messages:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id].append(message)
    for call in (call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls):
        given, result, told = call["id"] or "", None, False
        if results[given]:  # models may use an id again
            answer = results[given].pop(0)
            failed, told = answer.status == "error", bool(ref_of(answer))
            result = (CallResult.failed(answer.text) if failed else CallResult.done(answer.text)).json()
        key, counts[given] = f"{given}/{counts[given]}", counts[given] + 1
        about = {"key": key, "name": call["name"], "arguments": call["args"]}
        found.append({**about, "result": result, "told": told})
    return found


class _Recorded:
    """Stores an event when a call is decided, and when its result is there.

    The tools are the graph's own: their calls have no place in the ledger.
    """

    def __init__(self, work: NodeContext, task_id: str, checkpoint_id: str) -> None:
        self._work = work
        self._task_id = task_id
        self._checkpoint_id = checkpoint_id
        self._places: dict[str, int] = {}
        self._ended: set[str] = set()

    async def read(self, messages: Sequence[AnyMessage]) -> None:
        """Store what is new of the calls in these messages."""
        for call in _calls_in(messages):
            if call["told"]:
                continue
            name = call["key"]
            index = self._places.get(name, len(self._places))
            about = {"task_id": self._task_id, "index": index, "name": call["name"], "arguments": call["arguments"]}
            if name not in self._places:
                self._places[name] = index
                await self._store(f"{name}/call", ToolCall(**about))
            if call["result"] and name not in self._ended:
                self._ended.add(name)
                await self._store(f"{name}/result", ToolResult(result=call["result"], **about))

    async def _store(self, name: str, event: Durable) -> None:
        services = self._work.services
        await services.record(f"{self._checkpoint_id}/{self._task_id}/{name}", services.announced(announce(event)))


def _endless(name: str, graph: Graph) -> ConfigurationError:
    limit = (graph.config or {}).get("recursion_limit", 0)
    return ConfigurationError(
        "The mode {mode} took {limit} steps without an end. If it needs more, give its graph a higher limit: "
        "builder.compile().with_config(recursion_limit={more}).",
        mode=name,
        limit=limit,
        more=limit * 10,
    )


def _added(
    messages: Sequence[AnyMessage], given: Sequence[AnyMessage], known: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """What a graph added behind the messages that it was given, whichever of them it replaced or removed.

    An id that the history has already is another message's there: a graph may count its messages in each task. What it
    asks its own models as a person is not the person's.
    """
    ids, taken = {message.id for message in given}, {message.id for message in known}
    left = [place for place, message in enumerate(messages) if message.id in ids]
    behind = messages[left[-1] + 1 :] if left else messages
    added = [message for message in behind if message.type != "human" or is_steering(message)]
    return [message.model_copy(update={"id": None}) if message.id in taken else message for message in added]
