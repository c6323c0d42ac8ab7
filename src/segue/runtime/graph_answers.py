"""The answers of the tools that run at once in one ToolNode: each call gets its own.

LangGraph keeps the answers of a task in the order of its questions. A finished call is not run again and asks nothing,
so the order changes. Here a mark before each answer names the call that asked, by its place in the model's message:

    [{"segue_call": 1}, "yes", {"segue_call": 0}]      call 1 has its answer, call 0 has asked
"""

import asyncio
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode

from ..tools.calls import SCRATCHPAD, SEND

PLACE = "segue_place"
"""Where the config of a call has its place among those of its ToolNode, if there are several."""
_ANSWERS = "segue_answers"
_CALL, _INSIDE = "segue_call", "segue_inside"
_RESUME = "__resume__"
_SPACE = 1_000_000
"""Numbers that LangGraph gives to the graphs and tasks in one call: another call has others."""


def keep_answers_apart(node: ToolNode) -> None:
    """Have each call of a ToolNode get its own answers from `interrupt`; several that ask do so one after the other."""
    apart = _Apart(node)
    node.func, node.afunc = apart.run, apart.arun
    node._run_one, node._arun_one = apart.run_call, apart.arun_call  # type: ignore[method-assign, assignment]


class _Apart:
    """The methods of a ToolNode, around its own; LangGraph looks for graphs in what a function encloses."""

    def __init__(self, node: ToolNode) -> None:
        self._node = node
        self._run, self._arun = node._func, node._afunc
        self._run_one, self._arun_one = node._run_one, node._arun_one

    def run(self, input: Any, config: RunnableConfig, runtime: Any) -> Any:
        answers, config = _begin(self._node, input, config)
        try:
            return self._run(input, config, runtime)
        except GraphInterrupt:
            if answers and answers.first:
                raise answers.first from None
            raise

    async def arun(self, input: Any, config: RunnableConfig, runtime: Any) -> Any:
        answers, config = _begin(self._node, input, config)
        try:
            return await self._arun(input, config, runtime)
        except GraphInterrupt:
            if answers and answers.asker is not None:
                await answers.wait()
                if answers.first:
                    raise answers.first from None
            raise

    def run_call(self, call: Any, kind: Any, runtime: Any) -> Any:
        answers: _Answers | None = (runtime.config.get("configurable") or {}).get(_ANSWERS)
        if answers is None:
            return self._run_one(call, kind, runtime)
        with answers.asking(call, runtime.config) as config:
            return self._run_one(call, kind, dataclasses.replace(runtime, config=config))

    async def arun_call(self, call: Any, kind: Any, runtime: Any) -> Any:
        answers: _Answers | None = (runtime.config.get("configurable") or {}).get(_ANSWERS)
        if answers is None:
            return await self._arun_one(call, kind, runtime)
        with answers.asking(call, runtime.config) as config:
            return await self._arun_one(call, kind, dataclasses.replace(runtime, config=config))


def _begin(node: ToolNode, input: Any, config: RunnableConfig) -> "tuple[_Answers | None, RunnableConfig]":
    calls, _ = node._parse_input(input)
    places = {**config.get("configurable", {})}
    places.pop(_ANSWERS, None)  # of a ToolNode around this one
    places.pop(PLACE, None)
    answers = None
    if len(calls) > 1 and SCRATCHPAD in places and SEND in places:
        answers = places[_ANSWERS] = _Answers(calls, places[SCRATCHPAD], places[SEND])
    return answers, {**config, "configurable": places}


class _Answers:
    """The answers of one task, while it runs. A call that asks while another's question is open asks again later."""

    def __init__(self, calls: Sequence[Any], pad: Any, send: Any) -> None:
        self.first: GraphInterrupt | None = None
        """What goes to the graph: the question of the call that asked first."""
        self.asker: int | None = None
        self._calls, self._pad, self._send = calls, pad, send
        self._given: list[Any] = pad.resume
        self._inside: tuple[int, Any] | None = None
        """An answer for a graph in a tool."""
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._take_new()

    def _take_new(self) -> None:
        """Give the answer that came now to the call that asked last."""
        mark = self._given[-1] if self._given else None
        if not (isinstance(mark, dict) and _CALL in mark):
            return
        answer = self._pad.get_null_resume(True)
        if answer is None:
            self._given.pop()
        elif _INSIDE in mark:
            self._given.pop()
            self._inside = mark[_CALL], answer
        else:
            self._given.append(answer)

    @contextmanager
    def asking(self, call: Any, config: RunnableConfig) -> Iterator[RunnableConfig]:
        """Note what a call asks, itself or in a graph that its tool runs; it asks in the given config."""
        place = next(i for i, each in enumerate(self._calls) if each is call)
        own = self._config_of(place, config)
        var_child_runnable_config.set(own)  # for what is around the tool; ToolNode gives each call its own context
        try:
            yield own
        except GraphInterrupt as question:
            with self._lock:
                if self.asker is None and question.args[0]:
                    self._ask(place, {_CALL: place, _INSIDE: True})
                if self.asker == place:
                    self.first = question
            raise
        finally:
            if self.asker == place:
                self._left.set()

    def _config_of(self, place: int, config: RunnableConfig) -> RunnableConfig:
        asked = count()

        def next_place() -> int:
            return self._find(place, next(asked))

        def inner_answer(consume: bool = False) -> Any:
            return self._inner_answer(place, consume)

        def send(writes: Any) -> None:
            self._send([(name, [*self._given] if name == _RESUME else value) for name, value in writes])

        pad = dataclasses.replace(
            self._pad,
            interrupt_counter=next_place,
            get_null_resume=inner_answer,
            call_counter=count(place * _SPACE).__next__,
            subgraph_counter=count(place * _SPACE).__next__,
        )
        places = {**config["configurable"], SCRATCHPAD: pad, SEND: send, PLACE: place}
        return {**config, "configurable": places}

    def _find(self, place: int, asked: int) -> int:
        """Where the answers have that of a call's next question; their end where it is not there yet."""
        with self._lock:
            marks = [i for i, each in enumerate(self._given) if each == {_CALL: place}]
            if asked < len(marks):
                return marks[asked] + 1
            if self.asker is None:
                self._ask(place, {_CALL: place})
            elif self.asker != place:
                raise GraphInterrupt(())
            return len(self._given)

    def _ask(self, place: int, mark: dict[str, Any]) -> None:
        self.asker, self._inside = place, None
        self._given.append(mark)
        self._send([(_RESUME, [*self._given])])

    def _inner_answer(self, place: int, consume: bool) -> Any:
        with self._lock:
            if self._inside is None or self._inside[0] != place:
                return None
            answer = self._inside[1]
            if consume:
                self._inside = None
            return answer

    async def wait(self) -> None:
        """Wait for the call that asked first, which may still clean up."""
        await asyncio.to_thread(self._left.wait)
