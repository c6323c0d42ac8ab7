"""Files that go along with messages from the terminal, and what the doctor says of them."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from segue.cli import app
from segue.cli.commands.doctor import doctor
from segue.cli.settings import Settings
from tests.loopback import LoopbackServer, Text


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "note.txt"
    path.write_text("the code is 17")
    return path


def test_a_file_goes_along_with_a_message(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackServer([Text("17")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = CliRunner().invoke(app, ["chat", "Which code?", "--mode", "direct", "--file", str(note)])
    assert done.exit_code == 0 and "17" in done.output
    assert "the code is 17" in server.requests[0].body["messages"][-1]["content"]


def test_in_a_conversation_it_goes_along_with_one_message(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"/file missing.txt\n/file {note}\nWhich code?\nAnd now?\n/exit\n"
    with LoopbackServer([Text("17"), Text("18")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = CliRunner().invoke(app, ["chat", "--interactive", "--mode", "direct"], input=lines)
    assert done.exit_code == 0
    assert "missing.txt cannot be read" in done.output
    said = [message["content"] for message in server.requests[1].body["messages"] if message["role"] == "user"]
    assert ["the code is 17" in text for text in said] == [True, False]


def test_the_doctor_finds_what_is_lost(note: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["chat", "Which code?", "--db", "s.db", "--model", "offline", "--file", str(note)])
    assert done.exit_code == 0, done.output
    assert "attached to messages: 1, 14 bytes" in report(tmp_path)
    (content,) = tmp_path.glob("s.db.files/*/*")
    content.unlink()
    assert "some are missing or damaged: note.txt (" in report(tmp_path)


def report(folder: Path) -> str:
    console = Console(file=io.StringIO(), width=400, color_system=None)
    doctor(console, Settings(str(folder / "s.db")))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_message_names_memory_files_for_a_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory" / "default").mkdir(parents=True)
    (tmp_path / "memory" / "default" / "rules.md").write_text("Write in verse.", encoding="utf-8")
    monkeypatch.setenv("SEGUE_MEMORY", "memory")
    files = ["--memory-file", "rules=rules.md", "--memory-file", "other=gone=1.md"]
    done = CliRunner().invoke(app, ["chat", "What is 2 + 2?", "--mode", "controller", "--json", *files])
    assert done.exit_code == 0
    assert (
        "There is no memory file gone=1.md: create it" in done.stdout and "no memory file rules.md" not in done.stdout
    )
    refused = CliRunner().invoke(app, ["chat", "What is 2 + 2?", "--mode", "react", *files])
    assert refused.exit_code == 2 and "The mode react reads no memory files" in refused.stderr
    unnamed = CliRunner().invoke(app, ["chat", "What is 2 + 2?", "--memory-file", "rules.md"])
    assert unnamed.exit_code == 2 and "'rules.md' is not NAME=PATH" in unnamed.stderr
