"""What still goes into a prompt: whole exchanges, dropped in jumps."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from segue.nodes import history
from segue.nodes.history import exchanges, kept_from, split, window

SIZES = st.lists(st.integers(1, 50), max_size=60)


@given(SIZES, st.integers(1, 200))
def test_what_is_kept_fits_unless_one_unit_alone_does_not(sizes: list[int], most: int) -> None:
    first = kept_from(sizes, most)
    assert sum(sizes[first:]) <= max([most, *sizes])
    assert first < len(sizes) or not sizes


@given(SIZES, st.integers(1, 200))
def test_the_place_only_moves_on_as_units_are_added(sizes: list[int], most: int) -> None:
    places = [kept_from(sizes[:n], most) for n in range(len(sizes) + 1)]
    assert places == sorted(places)


def test_the_place_moves_seldom() -> None:
    places = [kept_from([10] * n, 200) for n in range(200)]
    assert len(set(places)) <= 200 // 10


def talk(turns: int, rounds: int) -> list[AnyMessage]:
    messages: list[AnyMessage] = []
    for turn in range(turns):
        messages.append(HumanMessage(f"question {turn}"))
        for n in range(rounds):
            calls = [{"id": f"{turn}.{n}.{i}", "name": "look", "args": {}} for i in range(2)]
            messages.append(AIMessage("", tool_calls=calls))
            messages += [ToolMessage("found " * 20, tool_call_id=call["id"]) for call in calls]
        messages.append(AIMessage("answer"))
    return messages


@given(st.integers(1, 4), st.integers(0, 12), st.integers(20, 600))
def test_no_call_is_parted_from_its_results_and_a_window_begins_with_a_question(
    turns: int, rounds: int, most: int
) -> None:
    messages = talk(turns, rounds)
    shown = window(messages, most, 4000)
    assert shown[0].type == "human"
    asked = [call["id"] for m in shown if isinstance(m, AIMessage) for call in m.tool_calls]
    answered = [m.tool_call_id for m in shown if isinstance(m, ToolMessage)]
    assert asked == answered
    left_out, kept = split(messages, most, 4000)
    assert [m for unit in [*left_out, *kept] for m in unit] == messages


def test_exchanges_are_calls_with_all_their_results() -> None:
    assert [len(unit) for unit in exchanges(talk(1, 2))] == [1, 3, 3, 1]


def test_a_large_result_counts_as_it_is_shown() -> None:
    call = AIMessage("", tool_calls=[{"id": "c", "name": "look", "args": {}}])
    messages = [HumanMessage("q"), call, ToolMessage("x" * 100_000, tool_call_id="c")]
    assert window(messages, 500, 400) == messages


def test_a_window_that_begins_within_a_turn_keeps_its_request_and_what_was_added_to_it() -> None:
    def added(text: str) -> HumanMessage:
        return HumanMessage(text, additional_kwargs={"steer": True})

    long = AIMessage("x" * 3000)
    messages = [HumanMessage("old"), added("older"), AIMessage("so"), HumanMessage("new"), added("more"), long]
    for last in (long, added("and more")):
        shown = window([*messages, last], 500, 4000)
        assert [m.text for m in shown if m.type == "human"][:2] == ["new", "more"]
        assert shown[-1].text == last.text


def test_a_message_is_measured_once_while_it_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def counted(text: str) -> int:
        measured.append(text)
        return len(text)

    monkeypatch.setattr(history, "tokens", counted)
    messages = talk(3, 2)
    for _ in range(2):
        window(messages, 500, 4000)
        split(messages, 500, 4000, files=False)
    assert len(measured) == len(messages)
    window(messages, 500, 20)
    assert len(measured) == 2 * len(messages)
    known = {id(message) for message in messages}
    del messages
    gc.collect()
    assert not any(known & sizes.keys() for sizes in history._sizes.values())
