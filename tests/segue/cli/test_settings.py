"""The commands that the command line proposes can be run as they are."""

import shlex
from pathlib import Path

from segue.cli.settings import Settings


def test_the_plain_case_is_short() -> None:
    assert Settings().going_on("s1") == 'segue chat --session s1 "…"'
    assert Settings().command_on("resume", "t1") == "segue resume t1"


def test_what_is_not_the_default_is_said_again_and_quoted() -> None:
    settings = Settings("my data.db", "a b.toml", agent="x", model="openai:m")
    words = shlex.split(settings.going_on("s1"))
    assert words[4:] == ["--db", "my data.db", "--agents", "a b.toml", "--agent", "x", "--model", "openai:m", "…"]
    assert shlex.split(settings.command_on("cancel", "t1"))[2:] == ["t1", "--db", "my data.db", "--agents", "a b.toml"]


def test_the_first_agent_of_the_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text('[[agent]]\nagent_id = "first"\n[[agent]]\nagent_id = "second"\n', encoding="utf-8")
    assert Settings(agents_file=str(file)).chosen_agent() == "first"
    assert Settings(agents_file=str(file), agent="second").chosen_agent() == "second"
    assert Settings().chosen_agent() == ""
