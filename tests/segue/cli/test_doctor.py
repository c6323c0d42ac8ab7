"""What the doctor finds, and what it keeps to itself."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from segue.cli.doctor import doctor, extras
from segue.cli.settings import Settings


def examined(settings: Settings) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=400, color_system=None)
    code = doctor(console, settings)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_nothing_configured_is_well(tmp_path: Path) -> None:
    code, report = examined(Settings(str(tmp_path / "x.db")))
    assert code == 0
    assert "model      offline, from the default" in report
    assert "✓ offline" in report
    assert list(tmp_path.iterdir()) == [], "looking creates no database"


def test_a_key_is_never_shown_and_a_dead_endpoint_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:hush@127.0.0.1:9/v1?key=hush")
    code, report = examined(Settings(":memory:"))
    assert code == 0
    assert "OPENAI_API_KEY is set" in report
    assert "! endpoint   http://127.0.0.1:9/v1 could not be reached" in report
    assert "secret" not in report
    assert "hush" not in report


def test_a_missing_key_is_said() -> None:
    code, report = examined(Settings(":memory:", model="openai:gpt-x"))
    assert code == 0
    assert "none is set" in report
    assert "needs a key" in report


def test_a_database_that_cannot_be_used_fails(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database" * 100, encoding="utf-8")
    code, report = examined(Settings(str(tmp_path / "x.db")))
    assert code == 1
    assert "is not a SQLite database" in report
    code, report = examined(Settings(str(tmp_path / "none" / "x.db")))
    assert code == 1
    assert "✗ database" in report


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_database_that_is_read_only_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch(mode=0o400)
    assert examined(Settings(str(path)))[0] == 1


def test_an_agents_file_that_is_wrong_fails(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[[agent]]\nagent_id = "x"\ntools = ["none"]\n', encoding="utf-8")
    code, report = examined(Settings(":memory:", str(tmp_path / "a.toml")))
    assert code == 1
    assert "There is no tool «none»" in report


def test_extras_say_what_is_missing_and_how_to_get_it() -> None:
    declared = [
        "pydantic>=2",
        "no-such-thing>=1; extra == 'odd'",
        "rich; extra == 'even'",
        "segue[odd]; extra == 'all'",
    ]
    found = {finding.what: (finding.ok, finding.detail) for finding in extras(["odd", "even", "all"], declared)}
    assert found == {
        "[odd]": (None, "not installed (no-such-thing missing): pip install 'segue[odd]'"),
        "[even]": (True, "installed"),
    }
