"""A language model as the judge of a batch."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

from segue.cli.main import app
from segue.core.conversation import Conversation, ConversationConfig, Ending, EndReason, Role, Utterance, config_of
from segue.testing.rehearsal import write_log
from segue.testing.rehearsal.batch import batch_of, log_file
from tests.hostile_markdown import HOSTILE, check_inert
from tests.loopback import LoopbackServer, Text


def verdict(success: bool, **fields: Any) -> Text:
    form = {"reason": "The customer left without an answer.", "success": success, "party": "agent", "turn": 1}
    return Text(json.dumps(form | fields))


def batch(folder: Path) -> None:
    """The folder of a batch of two conversations that no rule can grade."""
    manifest = batch_of(config_of({"goal": "Learn the opening hours."}), n=2)
    manifest.write(folder)
    for planned in manifest.conversations():
        conversation = Conversation(
            conversation_id=planned.conversation_id,
            config=ConversationConfig(goal="Learn the opening hours.", seed=planned.config.seed),
            utterances=(
                Utterance(index=0, turn=1, role=Role.USER, text="When do you open?"),
                Utterance(index=1, turn=1, role=Role.BOT, text="Good morning."),
            ),
            ending=Ending(reason=EndReason.TURN_LIMIT, turns=1),
        )
        write_log(conversation, log_file(folder, planned))


def test_a_judge_reads_the_transcript_and_is_asked_once_about_each_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    rejected = verdict(False, reason=f"The customer left without an answer. {HOSTILE}")
    with LoopbackServer([Text("Hm."), rejected, verdict(True, party="none", turn=0)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        first = CliRunner().invoke(app, ["report", str(tmp_path), "--judge", "openai:m"])
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        again = CliRunner().invoke(app, ["report", str(tmp_path), "--judge", "openai:m", "--language", "zh"])
        server.assert_spent()
    assert (first.exit_code, again.exit_code) == (0, 0), first.output
    asked = json.dumps(server.requests[0].body)
    assert "Learn the opening hours." in asked
    assert "[USER] When do you open?" in asked
    assert "cannot be read" in json.dumps(server.requests[1].body["messages"][-1])
    made = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [row["success"] for row in made["conversations"]] == [False, True]
    assert made["conversations"][0]["fault"]["reason"].startswith("The customer left without an answer.")
    assert made["summary"]["by_judge"]["value"] == 0.5
    assert made["summary"]["by_rule"] is None
    assert re.search(r'<p class="BOT cited" id="conversation-001">.*Good morning', page)
    assert 'href="logs/conversation-001.jsonl"' in page and page.count("<details>") == 1
    assert "失败归因" in again.stdout
    report = (tmp_path / "report.md").read_text("utf-8")
    assert "| [conversation-001](logs/conversation-001.jsonl) | 智能体 | 1 |" in report
    check_inert(report)


def test_the_offline_planner_cannot_judge(tmp_path: Path) -> None:
    batch(tmp_path)
    ran = CliRunner().invoke(app, ["report", str(tmp_path), "--judge", "offline"])
    assert ran.exit_code == 2
    assert "cannot judge: name a language model" in ran.output
