"""The log of a conversation reads back as what was written."""

import re
import tomllib
from pathlib import Path

from segue.core.conversation import Conversation, ConversationConfig, Ending, EndReason, Role, Utterance, config_of
from segue.testing.rehearsal import read_log, write_log


def test_a_log_reads_back_as_the_conversation(tmp_path: Path) -> None:
    utterances = (
        Utterance(index=0, turn=1, role=Role.USER, text="退票"),
        Utterance(index=1, turn=1, role=Role.BOT, action="cancel", action_input={"id": 1}, call_id="k"),
        Utterance(index=2, turn=1, role=Role.API, action="cancel", status_code=200, data=0, call_id="k"),
        Utterance(index=3, turn=1, role=Role.BOT, text="Done.", usage={"input": 3}, seconds=0.5),
        Utterance(index=4, turn=2, role=Role.USER, ends=True),
    )
    said = Conversation(
        conversation_id="c",
        config=ConversationConfig(seed=7, script=["退票"]),
        utterances=utterances,
        state={"API": {"orders": []}},
        ending=Ending(reason=EndReason.USER_ENDED, turns=1, seconds=1.0),
    )

    write_log(said, tmp_path / "logs" / "c.jsonl", time="2024-09-05 11:25:30")

    assert read_log(tmp_path / "logs" / "c.jsonl") == said


# The configuration in docs/rehearsal.md is one.


PAGE = (Path(__file__).parents[2] / "docs" / "rehearsal.md").read_text(encoding="utf-8")


def test_the_configuration_is_read() -> None:
    (block, *_) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert config_of(tomllib.loads(block)).bot_mode == "segue:react"
