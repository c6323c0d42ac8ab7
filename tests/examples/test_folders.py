"""The folders of examples/: what their READMEs show, and their rehearsals; pytest also collects their own tests."""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from segue.cli import app
from segue.testing.rehearsal import Role, read_log
from tests.reference.blocks import ROOT, Reader, blocks_of

FOLDERS = {path.parent.name: path.parent for path in sorted((ROOT / "examples").glob("*/agents.toml"))}
REHEARSED = {
    "support_desk": ["find_order", "find_order", "refund"],
    "inbox": ["read_inbox", "send_mail"],
    "nightly_report": ["day_sales", "write_report"],
    "data_analyst": ["top_n", "save_finding"],
    "draft_and_check": ["find_order"],
}
"""The calls of a rehearsal in their order; that of the coding agent needs a language model."""


def marked(names: Iterable[str]) -> list[Any]:
    """The folders as parameters; that with charts is slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name == "data_analyst" else []) for name in names]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A copy of a folder, in which the test is."""
    made = tmp_path / str(request.param)
    shutil.copytree(FOLDERS[request.param], made)
    monkeypatch.chdir(made)
    yield made
    imported = {
        name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(made))
    }
    for name in imported:
        del sys.modules[name]


@pytest.mark.parametrize("copy", marked(FOLDERS), indirect=True)
def test_the_readme_is_true(copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Reader(monkeypatch, capsys).follow([*blocks_of(copy / "README.md")])


@pytest.mark.parametrize("copy", marked(REHEARSED), indirect=True)
def test_a_rehearsal_ends_with_what_the_user_wants(copy: Path) -> None:
    options = ["--config", "rehearsal.toml", "--agents", "agents.toml", "--log", "log.jsonl"]
    made = CliRunner().invoke(app, ["simulate", *options], catch_exceptions=False)
    talk = read_log(Path("log.jsonl"))
    calls = [each for each in talk.utterances if each.role is Role.API]
    assert made.exit_code == 0, made.output
    assert ([call.action for call in calls], {call.status_code for call in calls}) == (REHEARSED[copy.name], {200})


def test_the_list_of_examples_is_complete() -> None:
    listed = re.findall(r"\]\((\w+)/README\.md\)", (ROOT / "examples/README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md"))
