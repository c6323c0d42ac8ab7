"""The embedded default: a deterministic planner in the place of a chat model, which no key is needed for.

It is no language model, and every answer of it says so. It goes by what is bound to the call (purpose, tools, view),
never by the wording of a prompt.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from . import offline_writing as writing
from .offline_cards import Card, read_card
from .offline_matching import Call, Intent, Turn, intend, told_in
from .offline_phrases import PHRASES, Language
from .offline_reading import CJK
from .offline_writing import Outcome

_READ = 2_000
"""Characters of a message that are searched for keywords and values."""
_PIECES = re.compile(rf"\s*[^\s{CJK}]{{1,16}}|\s*[{CJK}]{{1,3}}|\s+")


class OfflinePlanner(BaseChatModel):
    """Decide, plan and answer by rules, from bound `purpose`, `tools` and `view` (see `ModelRequest`).

    Without them it answers the last human message in prose. `delay` is in seconds a streamed piece.
    """

    delay: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "segue-offline-planner"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = AIMessage(reply(messages, kwargs), response_metadata={"finish_reason": "stop"})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(reply(messages, kwargs)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
            if self.delay:
                time.sleep(self.delay)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(reply(messages, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
            await asyncio.sleep(self.delay)


def _chunks(text: str) -> Iterator[ChatGenerationChunk]:
    pieces = _PIECES.findall(text)
    for place, piece in enumerate(pieces, start=1):
        if place < len(pieces):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        else:
            ended = {"finish_reason": "stop"}
            yield ChatGenerationChunk(
                message=AIMessageChunk(content=piece, response_metadata=ended, chunk_position="last")
            )


def reply(messages: Sequence[BaseMessage], bound: Mapping[str, Any]) -> str:
    """The whole reply to one call."""
    task = Task.of(messages, bound)
    match bound.get("purpose"):
        case "decide":
            return json.dumps(_decision(task), ensure_ascii=False)
        case "plan":
            return json.dumps(_plan(task), ensure_ascii=False)
        case _:
            return _answer(task)


@dataclass(frozen=True)
class Task:
    """What a call is about."""

    cards: tuple[Card, ...]
    language: Language
    objective: str
    turns: tuple[Turn, ...]
    outcomes: tuple[Outcome, ...]
    plan: tuple[Mapping[str, Any], ...]
    error: str

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], bound: Mapping[str, Any]) -> "Task":
        view = bound.get("view") or _view_of(messages)
        objective = _readable(view.get("objective"))
        chinese = view.get("language") == "zh" or ("language" not in view and re.search(f"[{CJK}]", objective))
        return cls(
            cards=tuple(read_card(spec) for spec in bound.get("tools") or ()),
            language="zh" if chinese else "en",
            objective=objective,
            turns=_turns(view.get("conversation") or ()),
            outcomes=_outcomes(view.get("results") or ()),
            plan=tuple(view.get("plan") or ()),
            error=str(view.get("error") or ""),
        )

    @cached_property
    def intent(self) -> Intent:
        wanted = Intent() if self.small_talk else intend(self.cards, self.objective, self.turns)
        return told_in(wanted, self.language)

    @cached_property
    def small_talk(self) -> str:
        return writing.greeting_or_thanks(self.objective, self.cards, self.language)

    def outcome_of(self, call: Call) -> Outcome | None:
        return next((o for o in self.outcomes if call.matches(o.name, o.asked)), None)


def _readable(text: object) -> str:
    """The part of a message that is read, with one kind of apostrophe."""
    return str(text or "")[:_READ].replace("’", "'")


def _view_of(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    roles = {"human": "user", "ai": "assistant"}
    last = max((place for place, message in enumerate(messages) if message.type == "human"), default=-1)
    if last < 0:
        return {}
    past = [
        {"role": roles.get(m.type, m.type), "content": m.text, "tool_calls": getattr(m, "tool_calls", [])}
        for m in messages[:last]
    ]
    return {"objective": messages[last].text, "conversation": past}


def _turns(conversation: Sequence[Mapping[str, Any]]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for message in conversation:
        content = str(message.get("content") or "")
        if message.get("role") == "user":
            turns.append(Turn(_readable(content)))
        elif turns:
            calls = tuple((call["name"], _arguments(call.get("args"))) for call in message.get("tool_calls") or ())
            results = (content,) if message.get("role") == "tool" else ()
            turns[-1] = Turn(turns[-1].text, turns[-1].calls + calls, turns[-1].results + results)
    return tuple(turns)


def _outcomes(results: Sequence[Mapping[str, Any]]) -> tuple[Outcome, ...]:
    """One outcome a call: of one that was made more than once, the last."""
    last: dict[str, Outcome] = {}
    for made in results:
        result, arguments = made.get("result") or {}, _arguments(made.get("arguments"))
        error = str(result["error"] or "?") if "error" in result else ""
        key = json.dumps([made["name"], arguments], sort_keys=True, default=str)
        asked = _arguments(made.get("original") or arguments)
        last[key] = Outcome(made["name"], arguments, result.get("success"), error, asked)
    return tuple(last.values())


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            return {}
    return dict(given) if isinstance(given, Mapping) else {}


def _decision(task: Task) -> dict[str, Any]:
    """The envelope: calls that were not made yet, first all those that only read; else the answer."""
    waiting = [call for call in task.intent.calls if task.outcome_of(call) is None]
    pending = [call for call in waiting if call.card.read_only] or waiting[:1]
    calls = [{"function": {"name": call.card.name, "arguments": call.arguments}} for call in pending]
    result: dict[str, Any] = {
        "action_type": "CALL_TOOL" if calls else "ANSWER",
        "output": {"tool_calls": calls} if calls else {"answer": _answer(task)},
    }
    if done := _steps_done(task):
        result["step_status_update"] = done
    return {
        "observe": writing.observed(task.outcomes, task.cards, task.language),
        "thought": writing.thought(task.intent, pending, task.language),
        "action": {"result": result},
    }


def _steps_done(task: Task) -> list[dict[str, str]]:
    """The open steps of a given plan whose call was made."""
    made = {json.dumps([o.name, o.asked], sort_keys=True, default=str) for o in task.outcomes if not o.error}
    return [
        {"step_id": str(step["step_id"]), "status": "done"}
        for step in task.plan
        if step.get("status") in ("pending", "running")
        and json.dumps([step.get("action"), step.get("params") or {}], sort_keys=True, default=str) in made
    ]


def _plan(task: Task) -> dict[str, Any]:
    """A step for each call and one that writes the answer; numbers stay the same when a plan is made again."""
    steps: list[dict[str, Any]] = []
    for number, call in enumerate(task.intent.calls, start=1):
        outcome = task.outcome_of(call)
        if outcome is not None and outcome.error:
            continue
        steps.append(
            {
                "step": number,
                "action": call.card.name,
                "params": call.arguments,
                "description": writing.call_text(call.card, call.arguments, task.language),
                "phase": "execution",
                "depends_on": [] if call.card.read_only else [step["step"] for step in steps],
            }
        )
    steps.append(
        {
            "step": len(task.intent.calls) + 1,
            "action": "none",
            "params": {},
            "description": _last_step(task),
            "phase": "generation",
            "depends_on": [step["step"] for step in steps],
        }
    )
    return {"goal": PHRASES[task.language].goal.format(task.objective), "steps": steps}


def _last_step(task: Task) -> str:
    if task.intent.calls or task.small_talk:
        return PHRASES[task.language].write_answer
    if task.intent.asks:
        return " ".join(writing.ask_text(task.intent.asks, task.language).split())
    return PHRASES[task.language].no_fit


def _answer(task: Task) -> str:
    """The answer in Markdown, with the notice that no language model wrote it."""
    parts = [_results(task) if task.outcomes else _without_results(task)]
    if task.error and not any(outcome.error and outcome.error in task.error for outcome in task.outcomes):
        parts.append(writing.error_text(task.error, task.language))
    return "\n\n".join([*parts, PHRASES[task.language].notice])


def _results(task: Task) -> str:
    parts = [writing.results_text(task.outcomes, task.cards, task.language)]
    if task.intent.asks:
        parts.append(writing.ask_text(task.intent.asks, task.language))
    return "\n\n".join(parts)


def _without_results(task: Task) -> str:
    if task.small_talk:
        return task.small_talk
    if task.intent.calls:
        return writing.not_run(task.intent.calls, task.language)
    if task.intent.asks:
        return writing.ask_text(task.intent.asks, task.language)
    earlier = next((turn.results for turn in reversed(task.turns) if turn.results), ())
    return writing.recap(earlier, task.objective, task.language) or writing.no_fit(task.cards, task.language)
