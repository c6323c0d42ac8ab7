"""The examples of docs/rehearsal.md run as they stand."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from segue.core.conversation import config_of

PAGE = (Path(__file__).parents[2] / "docs" / "rehearsal.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(block("python"), encoding="utf-8")

    runpy.run_path("example.py", run_name="__main__")

    assert capsys.readouterr().out == "USER Hello?\nBOT Hello?\nUSER \n"


def test_the_configuration_is_read() -> None:
    assert config_of(tomllib.loads(block("toml"))).bot_mode == "segue:react"
