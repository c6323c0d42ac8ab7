"""The offline planner's contract: envelope, plan, prose, stream, and the notice in every answer."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

import segue.models.offline as offline
from segue.core.decision import ActionType, decode
from segue.core.plan import Plan, Step, validate
from segue.models.offline import OfflinePlanner
from segue.tools.builtin import BUILTIN
from segue.tools.registry import as_tool

from .offline_tools import LIBRARY, MACHINES, Talk, said

NOTICES = ("「离线规划器」按规则拼成：它不是语言模型", "offline planner, which is not a language model")


def labelled(text: str) -> bool:
    last = text.splitlines()[-1]
    return last.startswith("*") and last.endswith("*") and any(notice in last for notice in NOTICES)


def failed(name: str, arguments: dict[str, Any], error: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "result": {"error": error}}


def done(name: str, arguments: dict[str, Any], value: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "result": {"success": value}}


@pytest.mark.parametrize(
    "text",
    [
        "你好",
        "Hello!",
        "谢谢",
        "thank you",
        "Explain the metro",
        "几点开门？",
        "河西馆几点开门？",
        "renew L-404 for 1 week",
        "What are late fees?",
        "",
    ],
)
async def test_every_answer_says_that_no_language_model_wrote_it(text: str) -> None:
    assert labelled(await Talk(LIBRARY).say(text))
    assert labelled(await said("answer", text, LIBRARY))
    assert labelled(await said("answer", text))


async def test_a_failed_call_is_told_and_never_made_again() -> None:
    talk = Talk(LIBRARY)
    answer = await talk.say("renew L-404 for 1 week, and the late fee of L-404")
    assert [name for name, _ in talk.calls] == ["late_fee", "renew_loan"]
    assert "no such loan" in answer
    assert "did not succeed" in answer
    assert "**fee**: 2" in answer


async def test_a_call_counts_as_made_if_the_record_holds_defaults_besides() -> None:
    made = done("alarms", {"machine": "M-02", "severities": None}, {"alarms": []})
    reply = decode(await said("decide", "M-02 报警", MACHINES, results=[made]))
    assert reply.action_type is ActionType.ANSWER


async def test_the_envelope_observes_thinks_and_acts_in_the_persons_language() -> None:
    chinese = decode(await said("decide", "M-02有报警吗", MACHINES))
    assert (chinese.observe, chinese.action_type) == ("我观察到这是第一轮执行。", ActionType.CALL_TOOL)
    assert "报警" in chinese.thought
    english = decode(await said("decide", "alarms of M-02", MACHINES))
    assert "first round" in english.observe
    later = decode(
        await said("decide", "alarms of M-02", MACHINES, results=[failed("alarms", {"machine": "M-02"}, "x")])
    )
    assert "failed" in later.observe


async def test_steps_of_a_given_plan_are_ticked_off_when_their_call_was_made() -> None:
    plan = [
        {"step_id": "1", "action": "alarms", "params": {"machine": "M-02"}, "status": "pending"},
        {"step_id": "2", "action": "none", "params": {}, "status": "pending"},
    ]
    made = done("alarms", {"machine": "M-02"}, {"alarms": []})
    reply = decode(await said("decide", "alarms of M-02", MACHINES, results=[made], plan=plan))
    assert [update.step_id for update in reply.step_status_update] == ["1"]


def checked(text: str, tools: tuple) -> list[dict[str, Any]]:
    plan = json.loads(text)
    steps = tuple(Step(**{**step, "step_id": step["step"]}) for step in plan["steps"])
    validate(Plan(goal=plan["goal"], steps=steps), [source.__name__ for source in tools])
    return plan["steps"]


async def test_a_plan_names_the_calls_in_the_tools_order_and_ends_with_the_answer() -> None:
    text = "renew L-017 for 2 weeks, then the late fee and the Northgate opening hours"
    steps = checked(await said("plan", text, LIBRARY), LIBRARY)
    assert [step["action"] for step in steps] == ["opening_hours", "renew_loan", "late_fee", "none"]
    assert [step["depends_on"] for step in steps] == [[], [1], [], [1, 2, 3]]
    assert steps[1]["params"] == {"loan_id": "L-017", "weeks": 2}
    assert steps[-1]["phase"] == "generation"


@pytest.mark.parametrize(
    ("text", "said_so"), [("Explain the metro", "No tool fits"), ("几点开门", "分馆"), ("你好", "回答")]
)
async def test_a_plan_without_calls_says_why(text: str, said_so: str) -> None:
    steps = checked(await said("plan", text, LIBRARY), LIBRARY)
    assert [step["action"] for step in steps] == ["none"]
    assert said_so in steps[0]["description"]


@pytest.mark.parametrize(("text", "told"), [("alarms of M-02", "may or may not"), ("M-02 的报警", "是否已经生效")])
async def test_a_call_of_unknown_outcome_is_not_told_as_failed(text: str, told: str) -> None:
    cut_off = [failed("alarms", {"machine": "M-02"}, "unknown_outcome: it was cut off: check what it did.")]
    said_of_it = await said("answer", text, MACHINES, results=cut_off)
    assert told in said_of_it and "did not succeed" not in said_of_it and "没有成功" not in said_of_it


async def test_a_plan_made_again_leaves_out_what_failed_and_keeps_the_numbers() -> None:
    text = "Northgate opening hours, and the late fee of L-020 after 3 weeks"
    results = [failed("opening_hours", {"branch": "Northgate"}, "closed")]
    steps = checked(await said("plan", text, LIBRARY, results=results, error="step 1 failed: closed"), LIBRARY)
    assert [(step["step"], step["action"]) for step in steps] == [(2, "late_fee"), (3, "none")]


async def test_results_become_prose_with_their_summary_or_their_values() -> None:
    results = [
        done("opening_hours", {"branch": "Northgate"}, {"summary": "Open till five", "x": 1}),
        done("find_books", {"subject": "seas"}, [{"title": "A|B", "copies": 2}, {"title": "C", "copies": None}]),
        done("late_fee", {"loan_id": "L-020"}, {"fee": 4, "paid": False, "parts": {"a": [1, 2]}}),
        done("renew_loan", {}, "fine"),
    ]
    answer = await said("answer", "tell me", LIBRARY, results=results)
    assert "Open till five" in answer
    assert "| title | copies |" in answer
    assert "| A\\|B | 2 |" in answer
    assert "- **paid**: no" in answer
    assert "  - **a**: 1, 2" in answer


async def test_an_error_that_no_result_tells_of_is_told() -> None:
    stack = "Traceback (most recent call last):\n  File x\nTimeoutError: too slow"
    answer = await said("answer", "你好", LIBRARY, results=[failed("late_fee", {}, stack)], error="计划无法读取")
    assert "TimeoutError: too slow" in answer
    assert "File x" not in answer
    assert "计划无法读取" in answer


async def test_an_answer_without_results_does_not_pretend() -> None:
    answer = await said("answer", "Is Northgate open?", LIBRARY)
    assert "no tool was run" in answer
    assert "9–17" not in answer


async def test_a_greeting_is_answered_with_what_the_tools_can_do() -> None:
    answer = await said("answer", "你好！", LIBRARY)
    assert answer.startswith("你好")
    assert "- 查书\n- 开放时间" in answer
    assert "- Find books\n" in await said("answer", "hi there", LIBRARY)


@pytest.mark.parametrize("text", ["河西馆几点开门？ Now, please!", "  spaces \n\n kept "])
async def test_a_reply_is_streamed_in_pieces_that_make_up_the_whole(text: str) -> None:
    planner = OfflinePlanner()
    specs = [as_tool(source).spec for source in LIBRARY]
    for purpose in ("decide", "plan", "answer"):
        bound = planner.bind(purpose=purpose, tools=specs, view={"language": "zh", "objective": text})
        messages = [HumanMessage("never read")]
        pieces = [chunk.text async for chunk in bound.astream(messages)]
        whole = (await bound.ainvoke(messages)).text
        assert len([piece for piece in pieces if piece]) > 5
        assert "".join(pieces) == whole == bound.invoke(messages).text
        assert "".join(chunk.text for chunk in bound.stream(messages)) == whole


async def test_the_stream_ends_with_a_finish_reason() -> None:
    chunks = [chunk async for chunk in OfflinePlanner().astream("你好")]
    assert chunks[-1].response_metadata["finish_reason"] == "stop"


def test_unbound_it_answers_the_last_human_message() -> None:
    answer = OfflinePlanner().invoke([("system", "be kind"), ("user", "你好")]).text
    assert answer.startswith("你好")
    assert labelled(answer)
    assert "no tools here" in OfflinePlanner().invoke("What is love?").text


async def test_the_same_call_gives_the_same_reply() -> None:
    text = "renew L-017 and L-018 for 2 weeks, late fee, Northgate open"
    assert len({await said("decide", text, LIBRARY) for _ in range(5)}) == 1


async def test_a_very_long_message_is_read_in_part() -> None:
    assert labelled(await said("answer", "1" * 32_000, MACHINES))


def test_its_source_names_none_of_the_shipped_tools_and_none_of_their_data() -> None:
    specs = [bound.spec for bound in BUILTIN.resolve(BUILTIN.names).values()]
    names = {spec["function"]["name"] for spec in specs} | {spec["segue"]["title"] for spec in specs}
    schemas = [schema for spec in specs for schema in spec["function"]["parameters"]["properties"].values()]
    samples = {str(value) for schema in schemas for value in schema.get("examples", ()) if len(str(value)) > 1}
    facts = Path(offline.__file__).parents[3] / "tools" / "travel" / "travel.json"
    cities = {
        name for city in json.loads(facts.read_text(encoding="utf-8"))["cities"] for name in city["name"].values()
    }
    source = "".join(file.read_text(encoding="utf-8") for file in Path(offline.__file__).parent.glob("offline*.py"))
    assert len(names | samples | cities) > 50
    found = [
        name for name in names | samples | cities if re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", source)
    ]
    assert found == []
