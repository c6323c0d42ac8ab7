"""The recorded replies of a real model: what decoded then decodes to the same now, what was unreadable then still is.

`tests/recorded/sessions.py` rebuilds the replies.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from segue.core.decision import SYNONYMS, ActionType, decode
from segue.core.errors import UnreadableReply
from tests.fakes import envelope
from tests.recorded.sessions import PREFIX, Recorded, nested, output_of, recursions


def readable(recorded: Recorded) -> list[dict[str, Any]]:
    return [recursion for recursion in recursions(recorded) if recursion["action_type"]]


def flat(recursion: dict[str, Any]) -> str:
    action = {"action_type": recursion["action_type"], "output": output_of(recursion)}
    known = {name: recursion[name] for name in ("trace_id", "observe", "thought", "abstract")}
    return json.dumps(known | {"action": action, "short_term_memory_append": recursion["short_term_memory"]}, indent=2)


def fenced(recursion: dict[str, Any]) -> str:
    return f"```json\n{nested(recursion)}\n```\n"


def arguments_as_text(recursion: dict[str, Any]) -> str:
    output = output_of(recursion)
    for call in output.get("tool_calls", ()):
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return envelope(recursion["action_type"], output, recursion["thought"], recursion["observe"])


def output_as_text(recursion: dict[str, Any]) -> str:
    text = json.dumps(output_of(recursion), ensure_ascii=False)
    return envelope(recursion["action_type"], text, recursion["thought"], recursion["observe"])


@pytest.mark.parametrize("form", [nested, flat, fenced, arguments_as_text, output_as_text])
def test_what_was_readable_decodes_to_the_same_decision(
    recorded: Recorded, form: Callable[[dict[str, Any]], str]
) -> None:
    found = readable(recorded)
    assert len(found) == 71
    for recursion in found:
        decision = decode(form(recursion))
        named = recursion["action_type"]
        assert decision.action_type == SYNONYMS.get(named, named)
        assert (decision.thought, decision.observe) == (recursion["thought"] or "", recursion["observe"] or "")
        same = output_of(recursion)
        if decision.action_type is ActionType.PLAN:
            same = {"notes": ""} | same
        assert decision.output == same


def test_the_kinds_are_those_that_were_counted(recorded: Recorded) -> None:
    kinds = Counter(decode(nested(recursion)).action_type.value for recursion in readable(recorded))
    assert kinds == {"CALL_TOOL": 26, "ANSWER": 17, "PLAN": 14, "REFLECT": 14}


def test_four_calls_are_known_only_from_their_results(recorded: Recorded) -> None:
    bare = [r for r in readable(recorded) if r["action_type"] == "CALL_TOOL" and json.loads(r["action_output"]) == {}]
    assert len(bare) == 4
    for recursion in bare:
        ran = json.loads(recursion["tool_call_results"])
        called = decode(nested(recursion)).tool_calls
        assert [(call.name, call.arguments) for call in called] == [(r["name"], r["arguments"]) for r in ran]
        with pytest.raises(UnreadableReply, match="tool_calls"):
            decode(envelope("CALL_TOOL", {}))


def test_what_was_unreadable_still_is_and_says_why(recorded: Recorded) -> None:
    failed = [recursion["error_log"] for recursion in recursions(recorded) if not recursion["action_type"]]
    assert len(failed) == 7
    for error_log in failed:
        for text in (error_log, error_log.removeprefix(PREFIX)):
            with pytest.raises(UnreadableReply, match=r"cannot be read|goes on after its last brace"):
                decode(text)


def test_a_readable_reply_that_is_cut_is_unreadable(recorded: Recorded) -> None:
    for recursion in readable(recorded):
        whole = nested(recursion)
        for kept in (0.25, 0.5, 0.75, 0.99):
            with pytest.raises(UnreadableReply):
                decode(whole[: int(len(whole) * kept)])
