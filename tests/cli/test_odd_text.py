"""What is no Unicode or begins with a byte order mark, at the doors for names and files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segue
from segue.cli import app as commands
from segue.core.errors import InvalidMessage
from tests.server.serving import Served

HALF = "\udcff"


@pytest.mark.parametrize("command", ["export ?", "trace ?", "chat hi --session ?", "delete ? --yes"])
def test_a_name_with_half_a_character_is_refused_in_a_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(commands, command.replace("?", HALF).split())
    assert result.exit_code in (1, 2) and isinstance(result.exception, SystemExit), result.exception


async def test_python_refuses_it_as_other_messages() -> None:
    async with segue.open(":memory:") as app:
        for call in (app.history(HALF), app.task(HALF), app.ask("hi", session_id=HALF), app.ask("hi", user_id=HALF)):
            with pytest.raises(InvalidMessage):
                await call


def test_the_service_refuses_it_with_422() -> None:
    with Served() as served, served.client() as client:
        for path, body in (
            ("/api/chat", {"message": "2+2", "attachments": [HALF]}),
            (
                "/v1/chat/completions",
                {"model": "travel", "user": HALF, "messages": [{"role": "user", "content": "hi"}]},
            ),
        ):
            content = json.dumps(body).encode()
            refused = client.post(path, content=content, headers={"Content-Type": "application/json"})
            assert refused.status_code == 422, refused.text


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agents.toml").write_text('[[agent]]\nagent_id = "shop"\nmodel = "offline"\n', encoding="utf-8-sig")
    assert [agent.agent_id for agent in segue.load_agents("agents.toml")] == ["shop"]
    run = CliRunner()
    assert run.invoke(commands, ["chat", "2+2", "--session", "s", "--db", "a.db"]).exit_code == 0
    assert run.invoke(commands, ["export", "s", "s.json", "--db", "a.db"]).exit_code == 0
    Path("bom.json").write_text(Path("s.json").read_text(encoding="utf-8"), encoding="utf-8-sig")
    imported = run.invoke(commands, ["import", "bom.json", "--to", "t", "--db", "a.db"])
    assert imported.exit_code == 0, imported.output
