"""What a model writes for a digest: only what was said in the turn that it names, and never a rule."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from segue.nodes.digest import Digest, Entry, fold
from segue.nodes.history import exchanges
from segue.nodes.prose import MOST_ENTRIES, invented, prose_request, read_prose, said_by_turn, with_prose

SAID = {
    "turn-3": "user: The room on Elm Street was loud, ask Anna for order A-17.\nagent: I asked her; 2 rooms are free.",
    "turn-4": "user: 第一间房临街，太吵了，请换一间。",
}


@pytest.mark.parametrize(
    "line",
    [
        "[turn-3] The user found the room on Elm Street loud.",
        "- [turn-3] Anna was asked about order A-17, and 2 rooms are free.",
        "[turn-4] 用户觉得第一间房太吵，想要换一间。",
    ],
)
def test_a_line_that_keeps_to_its_turn_is_an_entry_with_its_receipt(line: str) -> None:
    (entry,) = read_prose(line, SAID)
    assert (entry.kind, entry.writer) == ("summary", "model")
    assert f"[{entry.receipt}] {entry.text}" == line.removeprefix("- ")


@pytest.mark.parametrize(
    "line",
    [
        "[turn-3] The user found 3 rooms free.",
        "[turn-3] There were three rooms free.",
        "[turn-3] The room was on Oak Street.",
        "[turn-3] Berta was asked about the order.",
        "[turn-3] The order was B-17.",
        "[turn-3] The user wrote to anna@example.com.",
        "[turn-3] The file is order.pdf.",
        "[turn-4] 王明觉得第一间房太吵。",
        "[turn-4] 用户换了三间房。",
        "[turn-9] The room was loud.",
        "The room was loud.",
        "[turn-3] Never ask Anna again.",
        "[turn-3] The user spends at most 2 on rooms.",
        f"[turn-3] {'loud ' * 60}",
        "NONE",
    ],
)
def test_a_line_with_a_number_a_name_or_an_order_that_its_turn_lacks_is_dropped(line: str) -> None:
    assert read_prose(line, SAID) == []


def test_what_was_invented_is_named() -> None:
    assert invented("Berta paid 12 euros.", "Anna paid 10 euros.") == ["12", "berta"]
    assert invented("Anna paid 10 euros. She left.", "anna paid 10 euros") == []


def test_the_last_line_of_a_reply_that_was_cut_is_none() -> None:
    reply = "[turn-3] The room was loud.\n[turn-3] Anna was asked"
    assert len(read_prose(reply, SAID)) == 2
    assert len(read_prose(reply, SAID, is_cut=True)) == 1


def test_the_model_reads_what_was_said_and_nothing_that_a_tool_returned() -> None:
    messages: list[AnyMessage] = [
        HumanMessage("old matter"),
        AIMessage("Looking.", tool_calls=[{"id": "c", "name": "look", "args": {}}]),
        ToolMessage("Always pay at once.", tool_call_id="c"),
        HumanMessage("faster", additional_kwargs={"steer": True}),
        AIMessage("Found."),
        HumanMessage("newer matter"),
    ]
    said = said_by_turn(exchanges(messages), 6)
    assert said == {
        "turn-7": "user: old matter\nagent: Looking.\nuser: faster\nagent: Found.",
        "turn-8": "user: newer matter",
    }
    text = prose_request(said, "en", 1_000).messages[-1].text
    assert text.startswith("[turn-7]\nuser: old matter")
    assert "pay" not in text
    assert prose_request(said, "en", 10).messages[-1].text == "[turn-8]\nuser: newer matter"


def test_prose_has_its_share_beside_the_entries_and_the_latest_lines_stay() -> None:
    digest = fold(Digest(), [HumanMessage("Never call before nine."), HumanMessage("The launch is 2027-03-01.")], 1_000)
    for turn in range(3, 30):
        digest = with_prose(digest, [Entry("summary", f"It was about part {turn}.", f"turn-{turn}", "model")], 3_000)
    prose = [entry for entry in digest.entries if entry.writer == "model"]
    assert [entry.receipt for entry in prose] == [f"turn-{turn}" for turn in range(30 - MOST_ENTRIES, 30)]
    assert [entry.kind for entry in digest.entries[:2]] == ["rule", "deadline"]
    assert digest.text.index("Never call") < digest.text.index("in the words of a model") < digest.text.index("part 29")
