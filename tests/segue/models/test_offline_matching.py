"""Which tools a message calls for, and how a talk goes on."""

import pytest

from .offline_tools import LIBRARY, MACHINES, Talk


@pytest.mark.parametrize(
    ("tools", "text", "calls"),
    [
        (LIBRARY, "When is Northgate open?", [("opening_hours", {"branch": "Northgate"})]),
        (LIBRARY, "河西馆几点开门？", [("opening_hours", {"branch": "河西馆"})]),
        (LIBRARY, "renew L-017 for 2 weeks", [("renew_loan", {"loan_id": "L-017", "weeks": 2})]),
        (LIBRARY, "Find books about “The Open Fine”", [("find_books", {"subject": "The Open Fine"})]),
        (
            LIBRARY,
            "河西馆和东门馆的开放时间",
            [("opening_hours", {"branch": "河西馆"}), ("opening_hours", {"branch": "东门馆"})],
        ),
        (
            LIBRARY,
            "Northgate opening hours, and the late fee of L-020 after 3 weeks",
            [("opening_hours", {"branch": "Northgate"}), ("late_fee", {"loan_id": "L-020", "weeks": 3})],
        ),
        (MACHINES, "M-02有报警吗", [("alarms", {"machine": "M-02"})]),
        (MACHINES, "M-02 温度读数", [("read_sensor", {"machine": "M-02", "sensor": "温度"})]),
        (MACHINES, "Which machines are above 80?", [("machines_by_temperature", {"temp_min": 80})]),
        (MACHINES, "6*7", [("compute", {"formula": "6*7"})]),
        (MACHINES, "When was the pump history of M-05 written?", [("pump_history", {"machine": "M-05"})]),
        (MACHINES, "alarms of M-02, no ticket", [("alarms", {"machine": "M-02"})]),
    ],
)
async def test_the_tools_that_fit_are_called_once(tools: tuple, text: str, calls: list) -> None:
    talk = Talk(tools)
    await talk.say(text)
    assert talk.calls == calls


@pytest.mark.parametrize(
    ("tools", "text"),
    [
        (LIBRARY, "Explain the metro"),
        (LIBRARY, "解释一下地铁"),
        (LIBRARY, "Please don't renew L-017"),
        (LIBRARY, "L-017 不要续借"),
        (MACHINES, "What is the capital of France?"),
        (MACHINES, "2024-05-01 or 24/7?"),
    ],
)
async def test_where_no_tool_fits_it_says_what_there_is(tools: tuple, text: str) -> None:
    talk = Talk(tools)
    answer = await talk.say(text)
    assert talk.calls == []
    assert "No tool fits" in answer or "没有合适的工具" in answer
    assert "Renew a loan" in answer or "续借" in answer or "Alarms" in answer


async def test_a_missing_argument_is_asked_for_by_its_description() -> None:
    answer = await Talk(LIBRARY).say("What are the opening hours?")
    assert "**The branch**" in answer
    assert "Northgate" in answer
    assert "分馆" in await Talk(LIBRARY).say("几点开门？")


async def test_what_is_asked_for_completes_the_call() -> None:
    talk = Talk(LIBRARY)
    await talk.say("续借 L-017")
    assert talk.calls == []
    await talk.say("两周吧")
    assert talk.calls == [("renew_loan", {"loan_id": "L-017", "weeks": 2})]


async def test_a_bare_reply_is_taken_for_the_only_text_that_was_asked_for() -> None:
    talk = Talk(MACHINES)
    await talk.say("Open a ticket, urgent")
    await talk.say("the pump leaks")
    assert talk.calls == [("open_ticket", {"title": "the pump leaks", "urgent": True})]


@pytest.mark.parametrize("reply", ["no, never mind", "thanks", "算了", "what do you mean?"])
async def test_a_refusal_is_not_taken_for_the_text_that_was_asked_for(reply: str) -> None:
    talk = Talk(MACHINES)
    await talk.say("Open a ticket")
    await talk.say(reply)
    assert talk.calls == []
    await talk.say("M-02 alarms")
    assert talk.calls == [("alarms", {"machine": "M-02"})]


async def test_a_complete_call_is_made_while_the_other_tool_is_asked_about() -> None:
    talk = Talk(LIBRARY)
    answer = await talk.say("Northgate opening hours and my late fee")
    assert talk.calls == [("opening_hours", {"branch": "Northgate"})]
    assert "Northgate: 9–17" in answer
    assert "Loan number" in answer


@pytest.mark.parametrize(
    ("tools", "first", "then", "call"),
    [
        (LIBRARY, "河西馆几点开门？", "那东门馆呢？", ("opening_hours", {"branch": "东门馆"})),
        (LIBRARY, "Is Northgate open?", "and Riverside?", ("opening_hours", {"branch": "Riverside"})),
        (LIBRARY, "续借 L-017 一周", "那3周的逾期费呢？", ("late_fee", {"loan_id": "L-017", "weeks": 3})),
        (LIBRARY, "late fee of L-020, 3 weeks", "what about 5 weeks?", ("late_fee", {"loan_id": "L-020", "weeks": 5})),
        (MACHINES, "M-02 压力读数", "有报警吗", ("alarms", {"machine": "M-02"})),
        (
            MACHINES,
            "critical alarms of M-02",
            "and M-03?",
            ("alarms", {"machine": "M-03", "severities": ["critical"]}),
        ),
    ],
)
async def test_a_follow_up_takes_the_rest_from_the_talk(tools: tuple, first: str, then: str, call: tuple) -> None:
    talk = Talk(tools)
    await talk.say(first)
    await talk.say(then)
    assert talk.calls == [call]


async def test_a_follow_up_reaches_past_a_message_that_wanted_nothing() -> None:
    talk = Talk(LIBRARY)
    await talk.say("Is Northgate open?")
    await talk.say("thanks!")
    await talk.say("and Riverside?")
    assert talk.calls == [("opening_hours", {"branch": "Riverside"})]


async def test_a_new_subject_is_no_follow_up_even_if_it_names_a_value() -> None:
    talk = Talk(LIBRARY)
    await talk.say("Is Northgate open?")
    assert "No tool fits" in await talk.say("Does Riverside have a swimming pool?")


async def test_earlier_results_answer_a_request_to_repeat_them() -> None:
    talk = Talk(LIBRARY)
    await talk.say("Is Northgate open?")
    answer = await talk.say("Summarise that please")
    assert talk.calls == []
    assert "Northgate: 9–17" in answer


async def test_calls_that_only_read_go_together_and_others_one_by_one() -> None:
    talk = Talk(LIBRARY)
    await talk.say("Renew L-017 and L-018 for 2 weeks; opening hours of Northgate and Riverside")
    assert talk.rounds == [2, 1, 1]
