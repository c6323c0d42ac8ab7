"""A chat model that decides from its messages alone: the process that goes on knows what the dead one knew."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import PrivateAttr

from tests.fakes import ScriptedChatModel, answer, call_tool, choose, envelope, plan, plan_json, remend

from .scenarios import ANSWER, Call, Round, Turn

Result = Mapping[str, Any]
Settled = tuple[Mapping[str, Any], Result]
"""A call's arguments and its result."""

TurnOf = Callable[[str], Turn | None]
_STATE = '{"conversation": [], "round"'
_RESULTS = re.compile(r'\[\{"step":')
_BUILT_ON = re.compile(r'that this one builds on\\n((?:[^"\\]|\\.)+)"')
_FILE = re.compile(r'<file name="([^"]*)">\n(.*?)\n</file>')
_FAILED_STEP = re.compile(r"step (\w+) \(")


class Deciding(ScriptedChatModel):
    """Finds the turn by the user's message and the round by what the prompt says was done; `before` each reply."""

    _turn_of: TurnOf = PrivateAttr()
    _before: Callable[[], None] = PrivateAttr()

    def __init__(self, turn_of: TurnOf, before: Callable[[], None]) -> None:
        super().__init__()
        self._turn_of = turn_of
        self._before = before

    def _next(self, messages: list[BaseMessage], kwargs: Mapping[str, Any]) -> AIMessage:
        self._before()
        reply = self._reply(messages, kwargs)
        read, written = sum(len(message.text) for message in messages), len(reply.text)
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        return reply.model_copy(update={"usage_metadata": usage})

    def _reply(self, messages: Sequence[BaseMessage], kwargs: Mapping[str, Any]) -> AIMessage:
        turn, place = self._turn(messages)
        if "tools" in kwargs:
            return _native(turn, messages[place + 1 :])
        system = next(str(message.content) for message in messages if message.type == "system")
        if '"command_args"' in system:
            return AIMessage(_branch(turn, system))
        if "CALL_TOOL" in system:
            return AIMessage(_envelope(turn, messages))
        if '"dependencies"' in system:
            return AIMessage(_parts(turn))
        if "depends_on" in system:
            return AIMessage(_plan(turn, system))
        return AIMessage(_prose(turn, system))

    def _turn(self, messages: Sequence[BaseMessage]) -> tuple[Turn, int]:
        """The turn that is asked for and the place of its message."""
        for place in range(len(messages) - 1, -1, -1):
            text = str(messages[place].content)
            turn = self._turn_of(text)
            if messages[place].type == "human" and turn is not None:
                read = "".join(f" [{name}: {content}]" for name, content in _FILE.findall(text))
                return replace(turn, message=turn.message + read), place
        raise AssertionError(f"no message of the scenario in {[str(m.content)[:80] for m in messages]}")


def told(turn: Turn, settled: Sequence[Settled]) -> str:
    """An answer that says what the prompt said of every call, so that a result which got lost on the way shows."""
    lines = [f"{arguments.get('label')}: {_word(result)}" for arguments, result in settled]
    return f"{turn.message} — " + "; ".join(lines)


def _word(result: Result) -> str:
    if "success" in result:
        value = result["success"]
        return value if isinstance(value, str) else json.dumps(value)
    return "unknown" if str(result["error"]).startswith("unknown_outcome") else "failed"


def _decided(turn: Turn, rounds: int) -> Round:
    return turn.rounds[rounds] if rounds < len(turn.rounds) else ANSWER


def _envelope(turn: Turn, messages: Sequence[BaseMessage]) -> str:
    records = [json.loads(str(message.content)) for message in messages if message.type == "ai"]
    results = [record["result"] for record in records if "result" in record]
    calls = [item["function"] for result in results if isinstance(result, list) for item in result]
    replies = [f" ({result['answer']})" for result in results if isinstance(result, dict)]
    decided = _decided(turn, len(records))
    beside = {"step_id": decided.step} if decided.step else {}
    thought = f"round {len(records) + 1}"
    if decided.diagnosis:
        return remend(decided.diagnosis, *decided.calls, thought=thought)
    if decided.calls:
        return call_tool(*decided.calls, thought=thought, **beside)
    if decided.plan:
        return plan(decided.plan, thought=thought)
    if decided.question:
        return envelope("CLARIFY", {"question": decided.question}, thought)
    said = told(turn, [(call["arguments"], call["result"]) for call in calls])
    return answer("".join([said, *replies, _built_on(messages)]), thought=thought)


def _branch(turn: Turn, system: str) -> str:
    """A controller's decision: each round is one call, and then the answer."""
    state = json.JSONDecoder().raw_decode(system, system.index(_STATE))[0]
    decided = _decided(turn, len(state["results"]))
    if decided.calls:
        ((name, arguments),) = decided.calls
        return choose(name, f"round {state['round']}", **arguments)
    return choose("final_answer", answer=told(turn, [(made["arguments"], made["result"]) for made in state["results"]]))


def _built_on(messages: Sequence[BaseMessage]) -> str:
    """What a part of a goal was told of the parts that it needs."""
    system = next(str(message.content) for message in messages if message.type == "system")
    found = _BUILT_ON.search(system)
    text = json.loads(f'"{found[1]}"') if found else "(none)"
    return "" if text == "(none)" else f" ({text})"


def _native(turn: Turn, since: Sequence[BaseMessage]) -> AIMessage:
    rounds = [message for message in since if isinstance(message, AIMessage)]
    results = {m.tool_call_id: m for m in since if isinstance(m, ToolMessage)}
    decided = _decided(turn, len(rounds))
    if decided.calls:
        return AIMessage(f"round {len(rounds) + 1}", tool_calls=[_native_call(call) for call in decided.calls])
    made = [call for message in rounds for call in message.tool_calls]
    return AIMessage(told(turn, [(call["args"], _result(results[call["id"] or ""])) for call in made]))


def _native_call(call: Call) -> dict[str, Any]:
    name, arguments = call
    return {"id": f"call-{arguments['label']}", "name": name, "args": arguments, "type": "tool_call"}


def _result(message: ToolMessage) -> Result:
    return {"error" if message.status == "error" else "success": message.text}


def _plan(turn: Turn, system: str) -> str:
    """The plan; after a failure, without the steps that failed and with what waited for them set free."""
    known = system.rpartition('"problem": "')[2] if '"problem": "' in system else ""
    failed = {int(number) for number in _FAILED_STEP.findall(known)}
    steps = [
        {**step, "depends_on": [need for need in step["depends_on"] if need not in failed]}
        for step in turn.steps
        if step["step"] not in failed
    ]
    return plan_json(turn.message, steps)


def _parts(turn: Turn) -> str:
    """The tasks that a goal is broken down into."""
    parts = [
        {
            "id": str(place),
            "description": part.message,
            "priority": 1,
            "dependencies": [str(need) for need in part.needs],
        }
        for place, part in enumerate(turn.parts, start=1)
    ]
    return json.dumps({"tasks": parts})


def _prose(turn: Turn, system: str) -> str:
    found = _RESULTS.search(system)
    ran = json.JSONDecoder().raw_decode(system, found.start())[0] if found else []
    return told(turn, [({"label": entry["step"]}, entry["result"]) for entry in ran])
