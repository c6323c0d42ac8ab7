"""`segue record` and `segue replay`."""

import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from segue.cli import app
from segue.core.errors import ConfigurationError
from segue.testing.cassette import Cassette, read_cassette, write_cassette

TOOLS = '''
import pathlib
import segue

@segue.tool(keywords=("order",))
def find_order(number: int, card: str = "4711 0815") -> dict:
    """Look an order up."""
    with pathlib.Path("effects").open("a") as file:
        file.write(f"{number}\\n")
    return {"number": number, "state": "shipped"}
'''
AGENTS = '[[agent]]\nagent_id = "shop"\nmode = "react"\ntools = ["replayed_shop:find_order"]\nprompt = "You help."\n'
AT = ["--agents", "agents.toml", "--db", "segue.db"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a session that has looked an order up."""
    folder, path = tmp_path_factory.mktemp("looked_up"), [*sys.path]
    (folder / "replayed_shop.py").write_text(TOOLS, encoding="utf-8")
    (folder / "agents.toml").write_text(AGENTS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert CliRunner().invoke(app, ["chat", "Where is order 17?", "--session", "s1", *AT]).exit_code == 0
    del sys.modules["replayed_shop"]
    sys.path[:] = path
    return folder


@pytest.fixture(autouse=True)
def folder(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder for each test."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    return done.output


def test_a_session_is_recorded_replayed_and_continued(folder: Path) -> None:
    said = run("record", "s1", "--out", "s1.yaml", *AT)
    assert "Wrote s1.yaml: turns 1, model calls 2, tool calls 1." in said
    assert said.rstrip().endswith("segue replay s1.yaml --agents agents.toml")
    assert "s1.yaml already exists: replace it with --force" in run("record", "s1", "--out", "s1.yaml", *AT, code=2)
    assert "Wrote s1.yaml" in run("record", "s1", "--out", "s1.yaml", "--force", *AT)
    assert "The replay matches the recording: turns 1, model calls 2" in run(
        "replay", "s1.yaml", "--agents", "agents.toml"
    )
    assert (folder / "effects").read_text(encoding="utf-8") == "17\n"

    (folder / "agents.toml").write_text(AGENTS.replace("You help.", "You doubt."), encoding="utf-8")
    differs = run("replay", "s1.yaml", "--agents", "agents.toml", code=1)
    assert "Turn 1, model call 1: the request differs." in differs and "\n+You doubt.\n" in differs
    live = run("replay", "s1.yaml", "--agents", "agents.toml", "--from", "1", "--db", "live.db")
    assert '[recorded] find_order({"number": 17})' in live and "now:  the same" in live
    assert (folder / "effects").read_text(encoding="utf-8") == "17\n"

    cassette = (folder / "s1.yaml").read_text(encoding="utf-8")
    (folder / "s1.yaml").write_text(cassette.replace("number: 17", "number: 18"), encoding="utf-8")
    runs = run("replay", "s1.yaml", "--agents", "agents.toml", "--from", "1")
    assert "from here on, the real tools run" in runs and '[run] find_order({"number": 17})' in runs
    assert (folder / "effects").read_text(encoding="utf-8") == "17\n17\n"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["record", "nobody", *AT], 2, "There is no session 'nobody'"),
        (["record", "s1", "--redact", "pin", *AT], 2, "There is nothing to redact"),
        (
            ["record", "s1", "--out", "agents.toml/s1.yaml", *AT],
            2,
            "The cassette agents.toml/s1.yaml cannot be written",
        ),
        (["replay", "none.yaml"], 2, "The cassette none.yaml cannot be read: No such file or directory."),
        (["replay", "none.yaml", "--model", "offline"], 2, "needs --from"),
    ],
    ids=["session", "redact", "out", "file", "option"],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    words: list[str], code: int, why: str, folder: Path
) -> None:
    before = sorted(folder.iterdir())
    assert why in run(*words, code=code)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "out", ["agents.toml/s1.yaml", "locked/s1.yaml"], ids=["a file as a folder", "a folder as the file"]
)
def test_a_file_that_cannot_be_written_says_why_and_leaves_nothing(out: str, folder: Path) -> None:
    (folder / "locked" / "s1.yaml" / "inside").mkdir(parents=True)
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConfigurationError, match=r"s1\.yaml cannot be written: (Is|Not) a directory"):
        write_cassette(Cassette(session="s1", turns=(), messages=()), folder / out)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("which", ["s1", "--last"])
def test_in_a_folder_the_file_has_the_sessions_name(which: str, folder: Path) -> None:
    run("record", which, *AT)
    assert read_cassette(folder / "s1.cassette.yaml").session == "s1"


def test_a_session_is_named_or_the_last_one() -> None:
    assert "give either a SESSION or --last" in run("record", *AT, code=2)
    assert "give either a SESSION or --last" in run("record", "s1", "--last", *AT, code=2)


def test_a_backtest_says_what_changed_agents_would_do_otherwise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = ["--db", "segue.db", "--agents"]
    assert "the recorded task would behave the same" in run("backtest", "s1", *at, "agents.toml")
    assert '"coverage": 1.0' in run("backtest", "--since", "1d", "--json", *at, "agents.toml")
    (folder / "agents.toml").write_text(AGENTS.replace("find_order", "look_up_order"), encoding="utf-8")
    tools = TOOLS.replace("find_order", "look_up_order")
    (folder / "replayed_shop.py").write_text(tools, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "replayed_shop")
    said = run("backtest", "s1", *at, "agents.toml", code=1)
    assert "different effects: Where is order 17?" in said and 'now:  look_up_order({"number": 17' in said
    assert (folder / "effects").read_text(encoding="utf-8") == "17\n"
