"""The table of protocols in the guide to models counts what the recordings have."""

import json

import pytest

from segue.core.decision import decode
from segue.core.errors import UnreadableReply
from tests.recorded.dialogues import read
from tests.recorded.sessions import Recorded, recursions, reply_of, results_of
from tests.reference.test_measurements import ROOT, cells

GUIDE = (ROOT / "docs/guides/models.md").read_text(encoding="utf-8")


def is_readable(reply: str) -> bool:
    try:
        decode(reply)
    except UnreadableReply:
        return False
    return True


def test_json_replies(recorded: Recorded) -> None:
    rounds = list(recursions(recorded))
    unreadable = sum(not is_readable(reply_of(each)) for each in rounds)
    calls = sum(len(results_of(each)) for each in rounds)
    row = "25 tasks of [pivot](https://github.com/kimjuny/pivot), model not recorded"
    assert cells(GUIDE, row) == ["json", *map(str, (len(rounds), unreadable, calls))]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "retail-gpt-4.1-mini.jsonl",
            "25 dialogues of [tau2-bench's retail domain](https://github.com/codesque16/tau2-bench), gpt-4.1-mini",
        ),
        ("retail-gpt-5-mini.jsonl", "25 dialogues of tau2-bench's retail domain, gpt-5-mini"),
    ],
)
def test_native_replies(recorded: Recorded, name: str, row: str) -> None:
    replies = [reply for dialogue in read(recorded(name)) for reply in dialogue.replies]
    calls = [call["function"]["arguments"] for reply in replies for call in reply.get("tool_calls") or ()]
    unreadable = sum(not isinstance(json.loads(arguments), dict) for arguments in calls)
    empty = sum(not reply.get("content") and not reply.get("tool_calls") for reply in replies)
    assert cells(GUIDE, row) == ["native", *map(str, (len(replies), unreadable + empty, len(calls)))]
