"""How a model's reply is read."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.decision import (
    MARKS,
    SYNONYMS,
    ActionType,
    Decision,
    RequestedCall,
    StepStatusUpdate,
    decode,
    read_object,
    read_steps,
)
from segue.core.errors import UnreadableReply
from segue.core.plan import Status
from tests import fakes
from tests.cases import cases
from tests.fakes import envelope
from tests.recorded.sessions import PREFIX, Recorded, output_of, recursions
from tests.recorded.sessions import nested as recorded_nested

ANSWER = fakes.answer("42", thought="easy", observe="the first round")
POWER: dict[str, Any] = {"name": "power", "arguments": {"base": 12, "exponent": 5}}

INTEGERS = st.integers(-(2**63), 2**63 - 1)


def nested(action_type: Any, output: Any, **beside: Any) -> str:
    return fakes.envelope(action_type, output, "a thought", "an observation", **beside)


def flat(action_type: Any, output: Any, **beside: Any) -> str:
    action = {"action_type": action_type, "output": output, **beside}
    return json.dumps({"observe": "an observation", "thought": "a thought", "action": action}, ensure_ascii=False)


either_form = pytest.mark.parametrize("form", [nested, flat])


def steps_of(given: Any) -> list[tuple[str, str]]:
    return [(step.step_id, step.description) for step in read_steps(given)]


@either_form
def test_both_envelopes_read_alike(form: Any) -> None:
    decision = decode(form("CALL_TOOL", {"tool_calls": [{"function": POWER}]}))
    assert decision == Decision(
        observe="an observation",
        thought="a thought",
        action_type=ActionType.CALL_TOOL,
        tool_calls=(RequestedCall(name="power", arguments={"base": 12, "exponent": 5}),),
    )


@either_form
def test_step_id_and_status_updates_are_read(form: Any) -> None:
    updates = [{"step_id": 1, "status": "done"}, {"step_id": "2", "status": "running", "why": "extra"}]
    decision = decode(form("ANSWER", {"answer": "42"}, step_id=2, step_status_update=updates))
    assert decision.step_id == "2"
    assert decision.step_status_update == (
        StepStatusUpdate(step_id="1", status=Status.DONE),
        StepStatusUpdate(step_id="2", status=Status.RUNNING),
    )


def test_status_updates_beside_the_result_are_read() -> None:
    action = {"result": {"action_type": "ANSWER", "output": {"answer": "42"}}}
    decision = decode(json.dumps({"action": action | {"step_status_update": [{"step_id": "1", "status": "done"}]}}))
    assert [update.step_id for update in decision.step_status_update] == ["1"]


@cases("said, meant", [("DONE", "done"), ("completed", "done"), ("in_progress", "running"), ("failed", "error")])
def test_a_status_update_may_use_the_words_that_a_plan_may(said: str, meant: str) -> None:
    decision = decode(nested("ANSWER", {"answer": "42"}, step_status_update=[{"step_id": "1", "status": said}]))
    assert decision.step_status_update[0].status == meant


@cases("given", [5, True, "done", {"step_id": "1"}, ["1"], [{"step_id": "1", "status": "gone"}]])
def test_a_status_update_that_is_none_is_named(given: Any) -> None:
    with pytest.raises(UnreadableReply, match="step_status_update"):
        decode(nested("ANSWER", {"answer": "42"}, step_status_update=given))


@cases("fence", ["```json\n{}\n```", "```\n{}\n```", "  ```JSON {}```  ", "\ufeff{}", "\n\n{}\n"])
def test_fences_are_passed_over(fence: str) -> None:
    assert decode(fence.replace("{}", ANSWER)).answer == "42"


def test_a_fence_inside_the_answer_stays() -> None:
    code = "```python\nprint('{')\n```"
    assert decode(f"```json\n{fakes.answer(code)}\n```").answer == code


def test_extra_fields_are_passed_over_everywhere() -> None:
    call = {"id": "c1", "type": "function", "function": POWER | {"strict": True}}
    action = {"result": {"action_type": "CALL_TOOL", "output": {"tool_calls": [call], "why": 1}, "confidence": 0.5}}
    reply = {"trace_id": "x", "abstract": "y", "action": action | {"note": "z"}, "short_term_memory_append": []}
    assert decode(json.dumps(reply)).tool_calls == (RequestedCall(**POWER),)


@cases(
    "after",
    [
        " and so on",
        "\n\nThe end.",
        "\n{}",
        ANSWER,
        "```\nI hope this helps {}!",
        "}",
        ' "quoted"',
        ", as you see",
        "。以上",
    ],
)
def test_text_after_a_complete_object_is_ignored(after: str) -> None:
    assert decode(ANSWER + after).answer == "42"


def test_an_object_that_goes_on_after_its_end_is_unreadable() -> None:
    with pytest.raises(UnreadableReply, match="goes on after"):
        decode(ANSWER + ', "abstract": "one brace too many before this"}')


@cases(
    "before",
    [
        "Thinking about {this} first.\n",
        "A set {1, 2}: ",
        'The set {"a", "b"} is small. ',
        "An empty {} here: ",
        "an open { brace: ",
    ],
)
def test_braces_before_the_object_are_passed_over(before: str) -> None:
    assert decode(before + ANSWER).answer == "42"


DRAFT = fakes.call_tool(("refund", {"order_id": 99}))
MARKED = {
    **{opening: (opening, closings[-1]) for opening, closings in MARKS.items()},
    "in capitals": ("<THINK>", "</THINK>"),
    "channels": (
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "channels without tokens": ("analysis", "assistantfinal"),
    "a lone closing mark": ("", "[/THINK]"),
}


@cases("opening, closing", MARKED.values())
def test_what_is_inside_thoughts_is_never_the_decision(opening: str, closing: str) -> None:
    thought = f"{opening}I could {DRAFT} but no.{closing}"
    assert decode(f"{thought}{ANSWER}").answer == "42"
    if opening not in ("", "analysis"):
        assert decode(f"Well. {thought}\n{ANSWER}").answer == decode(f"{ANSWER}\n{thought}").answer == "42"
    for only in (thought, thought.removesuffix(closing) if opening else thought):
        with pytest.raises(UnreadableReply):
            decode(only)


def test_a_mark_inside_the_json_is_text() -> None:
    assert decode(fakes.answer("write <think> and </think>", thought="[THINK]")).answer == "write <think> and </think>"


@cases("between", ["\nNo, better:\n", "", "\n```json\n"])
def test_of_two_different_decisions_none_is_taken(between: str) -> None:
    for text in (DRAFT + between + ANSWER, ANSWER + between + DRAFT, DRAFT + between + ANSWER[:-3]):
        with pytest.raises(UnreadableReply, match="two different"):
            decode(text)


def test_a_repeated_decision_counts_once() -> None:
    again = fakes.call_tool(("refund", {"order_id": 99}), thought="in other words")
    assert len(decode(f"{DRAFT}\n{DRAFT} {again}").tool_calls) == 1
    assert len(decode(f"{DRAFT}\n{DRAFT[:-9]}").tool_calls) == 1


@cases("name", ["", "  ", "a\x00b", "a\nb", "x" * 300])
def test_a_call_whose_name_no_tool_can_have_is_unreadable(name: str) -> None:
    for kind in ("CALL_TOOL", "REMEND"):
        with pytest.raises(UnreadableReply, match="nothing was run"):
            decode(nested(kind, {"diagnosis": "d", "tool_calls": [{"name": name, "arguments": {}}]}))


@given(st.integers(min_value=1, max_value=len(ANSWER) - 1))
def test_a_cut_object_is_unreadable_wherever_it_is_cut(length: int) -> None:
    with pytest.raises(UnreadableReply):
        decode(ANSWER[:length])


def test_a_cut_object_says_how_it_began() -> None:
    with pytest.raises(UnreadableReply, match=r"cannot be read.*observe"):
        decode(ANSWER[:-2])


def test_an_inner_object_does_not_stand_for_a_broken_outer_one() -> None:
    broken = '{"observe": "he said "no"", "action": {"action": {"action_type": "ANSWER", "output": {"answer": "42"}}}}'
    with pytest.raises(UnreadableReply, match="cannot be read"):
        decode(broken)


@cases("text", ["", "   ", "I would answer 42.", "[1, 2]", "null", '"text"', "```json\n```"])
def test_no_object_at_all_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableReply, match="no JSON object"):
        decode(text)


@cases("text", ["{}", '{"action": null}', '{"action": "ANSWER"}', '{"answer": "42"}', '{"action": []}'])
def test_no_action_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableReply, match='no "action" object'):
        decode(text)


@cases(
    "text",
    [
        '{"a":' * 100_000,
        f'{{"action": {"9" * 5_000}}}',
        '{"thought": NaN, "action": {"action_type": "REFLECT", "output": {}}}',
        '{"thought": "\\ud800", "action": {"action_type": "REFLECT", "output": {}}}',
        flat("CALL_TOOL", {"tool_calls": [{"function": {"name": "add", "arguments": '{"a": Infinity}'}}]}),
        flat("CALL_TOOL", {"tool_calls": [{"function": {"name": "add", "arguments": '{"a":' * 100_000}}]}),
        flat("CALL_TOOL", '{"a":' * 100_000),
        flat("CALL_TOOL", {"tool_calls": [{"name": "add", "arguments": {"a": json.loads("[" * 300 + "]" * 300)}}]}),
        flat("CALL_TOOL", {"tool_calls": [{"name": "add", "arguments": '{"a":' * 300 + "1" + "}" * 300}]}),
    ],
)
def test_what_no_store_could_keep_is_unreadable_and_no_crash(text: str) -> None:
    with pytest.raises(UnreadableReply):
        decode(text)


KEYS = (
    "action result action_type output tool_calls function name arguments plan step_id status description answer "
    "diagnosis notes step_status_update thought summary"
)
any_json = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.text() | st.sampled_from(["PLAN", "ANSWER", "CALL_TOOL", "done"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS.split()) | st.text(max_size=3), inner),
)


@given(any_json, st.sampled_from(ActionType))
def test_any_json_is_read_or_unreadable(value: Any, kind: ActionType) -> None:
    for text in (
        json.dumps(value),
        json.dumps({"action": {"action_type": kind, "output": value, "step_status_update": value}}),
    ):
        try:
            assert isinstance(decode(text), Decision)
        except UnreadableReply as error:
            assert str(error)


@given(st.text())
def test_any_text_is_read_or_unreadable(text: str) -> None:
    for reply in (text, "{" + text, ANSWER[:60] + text):
        try:
            decode(reply)
        except UnreadableReply as error:
            assert str(error)


# Action types.


@either_form
@cases("given", ["", None, "DANCE", "call tool", 7, {}, [], "REMEND | PLAN"])
def test_another_action_type_lists_the_allowed_ones(form: Any, given: Any) -> None:
    with pytest.raises(UnreadableReply, match="use one of: CALL_TOOL, PLAN, REMEND, ANSWER"):
        decode(form(given, {}))


def test_a_missing_action_type_lists_the_allowed_ones() -> None:
    with pytest.raises(UnreadableReply, match="use one of: CALL_TOOL, PLAN, REMEND, ANSWER"):
        decode('{"action": {"result": {"output": {"answer": "42"}}}}')


@cases("given", ["RE_PLAN", "REPLAN", "plan", " Plan "])
def test_re_plan_is_plan(given: str) -> None:
    decision = decode(nested(given, {"plan": [{"step_id": "1", "description": "look"}], "notes": "again"}))
    assert decision.action_type is ActionType.PLAN
    assert decision.notes == "again"
    assert decision.output == {"plan": [{"step_id": "1", "description": "look", "status": "pending"}], "notes": "again"}


def test_reflect_only_thinks_and_keeps_what_it_thought() -> None:
    decision = decode(nested("REFLECT", {"summary": "tools fall into three groups"}))
    assert decision.action_type is ActionType.REFLECT
    assert decision.output == {"summary": "tools fall into three groups"}
    assert (decision.tool_calls, decision.plan, decision.answer) == ((), (), "")


@pytest.mark.parametrize("output", [{}, None, []])
def test_reflect_needs_no_output(output: Any) -> None:
    assert decode(nested("REFLECT", output)).output == {}


def test_reflect_in_a_sentence_keeps_it() -> None:
    assert decode(nested("REFLECT", "nothing to do yet")).output == {"summary": "nothing to do yet"}


# CALL_TOOL.


@pytest.mark.parametrize(
    "arguments",
    [
        {"base": 12, "exponent": 5},
        '{"base": 12, "exponent": 5}',
        ' {"base":12,"exponent":5}\n',
        '{"base": 12, "exponent": 5}""',
        '{"base": 12, "exponent": 5}{"exponent": 5, "base": 12}',
        '{}{"base": 12, "exponent": 5}',
        '{"base": 12, "exponent": 5}{"base": 12, "expo',
        '```json\n{"base": 12, "exponent": 5}\n```',
        '"{\\"base\\": 12, \\"exponent\\": 5}"',
        [{"base": 12, "exponent": 5}],
    ],
)
def test_arguments_are_an_object_or_its_text(arguments: Any) -> None:
    decision = decode(nested("CALL_TOOL", {"tool_calls": [{"function": {"name": "power", "arguments": arguments}}]}))
    assert decision.tool_calls == (RequestedCall(**POWER),)


@cases("arguments", ["", "{}", {}, None, "null", [], "[]", "```json\n{}\n```", '"{}"'])
def test_no_arguments_are_none(arguments: Any) -> None:
    decision = decode(nested("CALL_TOOL", {"tool_calls": [{"function": {"name": "now", "arguments": arguments}}]}))
    assert decision.tool_calls == (RequestedCall(name="now", arguments={}),)


@cases("arguments", ['{"amount": 10', "[1, 2]", "12", [1], 12, '"text"', "amount=10", '{"a": 1} {"b": 2}', False, 0])
def test_arguments_that_are_no_object_are_never_mended(arguments: Any) -> None:
    with pytest.raises(UnreadableReply, match="arguments of refund"):
        decode(nested("CALL_TOOL", {"tool_calls": [{"function": {"name": "refund", "arguments": arguments}}]}))


def test_a_call_may_stand_without_its_function_key() -> None:
    assert decode(nested("CALL_TOOL", {"tool_calls": [POWER]})).tool_calls == (RequestedCall(**POWER),)


@cases(
    "calls",
    [
        None,
        [],
        {},
        "power(12, 5)",
        ["power"],
        [{}],
        [{"function": {"arguments": {}}}],
        [{"function": {"name": 3}}],
        [{"function": "f"}],
    ],
)
def test_calls_that_are_none_say_what_is_needed(calls: Any) -> None:
    with pytest.raises(UnreadableReply, match=r"tool.call"):
        decode(nested("CALL_TOOL", {"tool_calls": calls}))


# Outputs that are no object.


def test_an_output_may_be_json_in_a_string() -> None:
    assert decode(nested("CALL_TOOL", json.dumps({"tool_calls": [{"function": POWER}]}))).tool_calls == (
        RequestedCall(**POWER),
    )
    assert decode(nested("ANSWER", json.dumps({"answer": "42"}))).answer == "42"
    assert decode(nested("ANSWER", '```json\n{"answer": "42"}\n```')).answer == "42"
    assert decode(nested("ANSWER", '{"answer": "one\ntwo"}')).answer == "one\ntwo"


def test_a_list_in_a_string_is_a_list() -> None:
    steps = [{"step_id": "a", "description": "look"}]
    assert [step.step_id for step in decode(nested("PLAN", json.dumps(steps))).plan] == ["a"]
    assert [step.step_id for step in decode(nested("PLAN", {"plan": json.dumps(steps)})).plan] == ["a"]
    assert decode(nested("CALL_TOOL", json.dumps([{"function": POWER}]))).tool_calls == (RequestedCall(**POWER),)


def test_an_output_may_be_the_thing_itself() -> None:
    assert decode(nested("ANSWER", "42 it is")).answer == "42 it is"
    assert decode(nested("CALL_TOOL", [{"function": POWER}])).tool_calls == (RequestedCall(**POWER),)
    assert [step.description for step in decode(nested("PLAN", ["look", "tell"])).plan] == ["look", "tell"]
    assert [step.description for step in decode(nested("PLAN", "1. look\n2. tell")).plan] == ["look", "tell"]


@cases(
    "output", [{}, None, {"answer": ""}, {"answer": "  \n"}, {"answer": None}, {"answer": ["x"]}, "", {"text": "42"}]
)
def test_an_answer_says_something(output: Any) -> None:
    with pytest.raises(UnreadableReply, match='non-empty "answer"'):
        decode(nested("ANSWER", output))


@cases("answer", ["{not json", "{}", "null", "42", '["a", "b"]', "{'answer': 1}"])
def test_an_answer_in_a_string_stays_as_it_is_written(answer: str) -> None:
    assert decode(nested("ANSWER", {"answer": answer})).answer == answer


# REMEND.


def test_remend_by_calls_or_plan_or_only_a_diagnosis() -> None:
    by_call = decode(nested("REMEND", {"diagnosis": "a typo", "tool_calls": [{"function": POWER}]}))
    by_plan = decode(nested("REMEND", {"diagnosis": "a dead end", "plan": "1. turn back"}))
    neither = decode(nested("REMEND", {"diagnosis": "no idea"}))
    assert (by_call.diagnosis, by_call.tool_calls, by_call.plan) == ("a typo", (RequestedCall(**POWER),), ())
    assert (by_plan.diagnosis, by_plan.tool_calls, [s.description for s in by_plan.plan]) == (
        "a dead end",
        (),
        ["turn back"],
    )
    assert (neither.diagnosis, neither.tool_calls, neither.plan) == ("no idea", (), ())
    assert neither.output == {"diagnosis": "no idea", "plan": []}


# PLAN.


@cases("plan", [None, [], "", "  \n ", {}, 5, [5], [None], [["look"]]])
def test_a_plan_that_is_none_is_unreadable(plan: Any) -> None:
    with pytest.raises(UnreadableReply, match="plan"):
        decode(nested("PLAN", {"plan": plan}))


@cases(
    "text, steps",
    [
        ("1. look.\n2. tell.\n3. rest.\n", [("1", "look."), ("2", "tell."), ("3", "rest.")]),
        ("1) look\n2) tell", [("1", "look"), ("2", "tell")]),
        ("(1) look\n(2) tell", [("1", "look"), ("2", "tell")]),
        ("Step 1: look\nStep 2: tell", [("1", "look"), ("2", "tell")]),
        ("1. look\n\n10. tell", [("1", "look"), ("10", "tell")]),
        ("1. look\n1.1 closely\n1.2. again", [("1", "look"), ("1.1", "closely"), ("1.2", "again")]),
        ("  - 1. look\n  - 2. tell", [("1", "look"), ("2", "tell")]),
        ("**1. look**\n**2. tell**", [("1", "look"), ("2", "tell")]),
        ("### Step 1: look\n### Step 2: tell", [("1", "look"), ("2", "tell")]),
        ("1、查询景点\n2、计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("1.查询景点\n2.计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("1．查询景点\n2．计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("1：查询景点\n2：计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("1）查询景点\n2）计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("（1）查询景点\n（2）计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("步骤1：查询景点\n步骤 2：计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("第1步：查询景点\n第2步：计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("第一步：查询景点\n第二步，计算预算\n第十一步：总结", [("1", "查询景点"), ("2", "计算预算"), ("11", "总结")]),
        ("一、查询景点\n二、计算预算", [("1", "查询景点"), ("2", "计算预算")]),
        ("- look\n* tell\n• rest", [("1", "look"), ("2", "tell"), ("3", "rest")]),
        ("look\ntell", [("1", "look"), ("2", "tell")]),
        ("3天行程\n2 cities", [("1", "3天行程"), ("2", "2 cities")]),
        ("1.5倍预算", [("1", "1.5倍预算")]),
        ("一起去北京", [("1", "一起去北京")]),
    ],
)
def test_a_plan_in_text_is_read_line_by_line(text: str, steps: list[tuple[str, str]]) -> None:
    assert steps_of(text) == steps


def test_a_heading_above_numbered_steps_is_no_step() -> None:
    assert steps_of("Here is the plan:\n1. look\n2. tell") == [("1", "look"), ("2", "tell")]
    assert steps_of("计划如下：\n1、查询\n2、总结") == [("1", "查询"), ("2", "总结")]


def test_lines_below_a_numbered_step_belong_to_it() -> None:
    assert steps_of("1. look\n   - at the sky\n2. tell") == [("1", "look at the sky"), ("2", "tell")]


def test_a_plan_in_a_list_takes_many_shapes() -> None:
    given = [
        {"step_id": 1, "description": "look", "status": "DONE", "owner": "me"},
        {"step": 2, "general_goal": "tell"},
        {"id": "x", "title": "rest", "status": "in_progress"},
        {"step_id": None, "description": "sleep", "status": "whatever"},
        {"step_id": "", "description": "wake"},
        "rise",
    ]
    assert [(step.step_id, step.description, step.status.value) for step in read_steps(given)] == [
        ("1", "look", "done"),
        ("2", "tell", "pending"),
        ("x", "rest", "running"),
        ("4", "sleep", "pending"),
        ("5", "wake", "pending"),
        ("6", "rise", "pending"),
    ]


def test_a_numbered_sentence_in_a_list_loses_its_number() -> None:
    assert steps_of(["1. look", "2. tell"]) == [("1", "look"), ("2", "tell")]


def test_read_object_takes_control_characters_in_strings() -> None:
    assert read_object('{"a": "one\ntwo\t"}') == {"a": "one\ntwo\t"}


# Round trip.

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
call_names = names.filter(lambda name: name.isprintable() and name == name.strip())
values = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@either_form
@given(
    thought=names,
    calls=st.lists(st.tuples(call_names, st.dictionaries(names, values, max_size=3)), min_size=1, max_size=4),
)
def test_calls_survive_being_written_and_read(form: Any, thought: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    wanted = tuple(RequestedCall(name=name, arguments=arguments) for name, arguments in calls)
    decision = Decision(thought=thought, action_type=ActionType.CALL_TOOL, tool_calls=wanted)
    assert decode(form("CALL_TOOL", decision.output)).tool_calls == wanted


# The recorded replies of a real model: what decoded then decodes to the same now, what was unreadable then still is.


def readable(recorded: Recorded) -> list[dict[str, Any]]:
    return [recursion for recursion in recursions(recorded) if recursion["action_type"]]


def recorded_flat(recursion: dict[str, Any]) -> str:
    action = {"action_type": recursion["action_type"], "output": output_of(recursion)}
    known = {name: recursion[name] for name in ("trace_id", "observe", "thought", "abstract")}
    return json.dumps(known | {"action": action, "short_term_memory_append": recursion["short_term_memory"]}, indent=2)


def fenced(recursion: dict[str, Any]) -> str:
    return f"```json\n{recorded_nested(recursion)}\n```\n"


def arguments_as_text(recursion: dict[str, Any]) -> str:
    output = output_of(recursion)
    for call in output.get("tool_calls", ()):
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return envelope(recursion["action_type"], output, recursion["thought"], recursion["observe"])


def output_as_text(recursion: dict[str, Any]) -> str:
    text = json.dumps(output_of(recursion), ensure_ascii=False)
    return envelope(recursion["action_type"], text, recursion["thought"], recursion["observe"])


@pytest.mark.parametrize("form", [recorded_nested, recorded_flat, fenced, arguments_as_text, output_as_text])
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
    kinds = Counter(decode(recorded_nested(recursion)).action_type.value for recursion in readable(recorded))
    assert kinds == {"CALL_TOOL": 26, "ANSWER": 17, "PLAN": 14, "REFLECT": 14}


def test_four_calls_are_known_only_from_their_results(recorded: Recorded) -> None:
    bare = [r for r in readable(recorded) if r["action_type"] == "CALL_TOOL" and json.loads(r["action_output"]) == {}]
    assert len(bare) == 4
    for recursion in bare:
        ran = json.loads(recursion["tool_call_results"])
        called = decode(recorded_nested(recursion)).tool_calls
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
        whole = recorded_nested(recursion)
        for kept in (0.25, 0.5, 0.75, 0.99):
            with pytest.raises(UnreadableReply):
                decode(whole[: int(len(whole) * kept)])
