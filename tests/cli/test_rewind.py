"""Going back on the command line, as a person does it."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from segue.cli import app
from segue.cli.exits import FAILED
from segue.cli.settings import Settings
from segue.cli.views.timeline import Reverted, effect_lines
from segue.core.timeline import Effect, Place, Undone, UndoState

from .conftest import PLAIN_TERMINAL

TOOLS = '''
from pathlib import Path

from segue import CallContext, tool

def bring_back(call: CallContext) -> str:
    if Path("closed").exists():
        raise ConnectionError("the post office is closed")
    return f"brought back {call.result}"

@tool(keywords=("parcel",), title="Parcel", undo=bring_back)
def parcel() -> str:
    """Send a parcel."""
    return "the parcel"
'''
AGENTS = """
[[agent]]
agent_id = "a"
model = "offline"
mode = "react"
tools = ["post_office:parcel"]
"""


def enter(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    patch.syspath_prepend(str(folder))
    patch.setenv("SEGUE_AGENTS", "agents.toml")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a session that has sent a parcel."""
    folder = tmp_path_factory.mktemp("sent")
    (folder / "post_office.py").write_text(TOOLS, encoding="utf-8")
    (folder / "agents.toml").write_text(AGENTS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        enter(folder, patch)
        assert run("chat", "send a parcel", "--session", "s").exit_code == 0
    del sys.modules["post_office"]
    return folder


@pytest.fixture(autouse=True)
def sent(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the folder for each test."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    enter(tmp_path, monkeypatch)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def first_id() -> str:
    return str(json.loads(run("timeline", "s", "--json").stdout)[0]["id"])


def test_one_goes_back_before_a_call_undoes_it_and_compares() -> None:
    listed = run("timeline", "s").stdout
    assert "message: send a parcel" in listed and "✓ parcel()" in listed
    forked = run("fork", first_id(), "--to", "f").stdout
    assert "The new session is f." in forked
    assert "Calls made after the snapshot, whose effects remain:\n  parcel()\n" in forked
    assert f"  segue undo {first_id()}" in forked
    assert run("undo", first_id()).stdout == "Undone: parcel(): brought back the parcel\n"
    assert run("undo", f"s/{first_id()}").stdout == "No call after the snapshot can be undone.\n"
    assert "↳ " in next(line for line in run("sessions").stdout.splitlines() if line.startswith("f "))
    assert "effects stay" not in run("fork", first_id(), "--to", "g").stdout
    assert run("fork", "s", "--to", "h").stdout.splitlines()[-1] == '  segue chat --session h "…"'
    compared = run("diff", "f", "s").stdout
    assert "+ parcel()  the parcel" in compared
    assert run("diff", "s", "s").stdout.endswith("The two snapshots do not differ.\n")


def test_in_a_conversation_one_goes_back_and_on_in_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLAIN_TERMINAL.items():
        monkeypatch.setenv(name, value)

    def chat(*lines: str, session: str = "s") -> str:
        given = ("chat", "--interactive", "--session", session)
        return CliRunner().invoke(app, given, input="\n".join(lines)).stdout

    listed = chat("/timeline", "/fork nowhere", "/trace", "/sessions", "/cost")
    assert re.search(r"start a new session from one of them:\n  /fork \w{6}\n", listed)
    assert "plan: " not in listed and "✓ parcel()" in listed and "ledger: 1 call" in listed
    assert "turns  status" in listed and "\ntasks: 1\n" in listed
    went_back = chat(f"/fork {first_id()}", "/history", "/new", "/timeline")
    assert "Calls made after the snapshot, whose effects remain:\n  parcel()\n" in went_back
    assert f"  /undo s/{first_id()}\n" in went_back
    assert went_back.count("The session is now s-") == 2 and went_back.endswith("This session has no messages yet.\n")
    edited = chat(f"/edit {first_id()} hello", "/edit hello again", "/edit", "/history")
    assert edited.count("The session is now s-") == 2 and "Usage: /edit TEXT" in edited
    assert "you: hello again" in edited and "you: send a parcel" not in edited
    assert "Undone: parcel(): brought back the parcel\n" in chat("/undo")
    assert "No call after the snapshot can be undone.\n" in chat("/undo", f"/undo s/{first_id()}")
    assert "This session has no messages yet." in chat("/undo", "/edit x", "/fork", "/trace", session="none")


def test_a_limit_lists_the_newest_and_says_that_there_are_older_ones() -> None:
    whole = json.loads(run("timeline", "s", "--json").stdout)
    limited = run("timeline", "s", "--json", "--limit", "2")
    assert json.loads(limited.stdout) == whole[-2:]
    assert limited.stderr.strip() == "Older snapshots are not listed. Use --limit to list more."
    assert run("timeline", "s", "--limit", str(len(whole))).stderr == ""
    assert run("timeline", "s", "--limit", "0").exit_code == 2


def test_an_edited_message_continues_in_a_session_of_its_own() -> None:
    edited = run("edit", f"s/{first_id()}", "--message", "hello", "--to", "e", "--undo")
    assert edited.exit_code == 0
    assert "Undone: parcel()" in edited.stderr
    assert "you: hello" in run("history", "e").stdout
    assert "you: send a parcel" in run("history", "s").stdout


@pytest.mark.parametrize("command", [("fork",), ("edit", "--message", "hello")])
@pytest.mark.parametrize(("name", "why"), [("s", "Session 's' already exists"), ("a b", "cannot be used")])
def test_nothing_is_undone_for_a_session_that_cannot_begin(command: tuple[str, ...], name: str, why: str) -> None:
    refused = run(*command, f"s/{first_id()}", "--undo", "--to", name)
    assert refused.exit_code != 0 and why in refused.stderr
    assert run("undo", f"s/{first_id()}").stdout == "Undone: parcel(): brought back the parcel\n"


def test_an_edit_is_a_branch_and_names_it() -> None:
    after_call = json.loads(run("timeline", "s", "--json").stdout)[1]["id"]
    edited = run("edit", f"s/{after_call}", "--message", "hello")
    (name,) = re.findall(r"The new branch is session (\S+)\. Session s stays as it is\.", edited.stderr)
    assert "Calls made after the snapshot, whose effects remain:\n  parcel()\n" in edited.stderr
    assert "you: hello" in run("history", name).stdout
    (row,) = json.loads(run("sessions", "--json").stdout)
    assert row["session_id"] == name and row["root"] == "s"
    listed = run("timeline", name).stdout
    assert listed.endswith("Other branches of this conversation:\n  segue timeline s  from message 1\n")


def test_a_failed_undo_ends_the_command_and_may_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "closed").touch()
    place = first_id()
    failed = run("undo", place)
    assert failed.exit_code == FAILED
    assert failed.stdout.startswith("The undo of parcel() failed: ") and f"  segue undo {place}" in failed.stdout
    assert run("undo", place, "--json").exit_code == FAILED
    for command in (("fork",), ("edit", "--message", "hello")):
        refused = run(*command, place, "--undo", "--to", "f")
        assert (refused.exit_code, refused.stdout) == (FAILED, "")
        assert "no new session was started" in refused.stderr and "The undo of parcel() failed: " in refused.stderr
    assert "There is no session 'f'" in run("timeline", "f").stderr
    (tmp_path / "closed").unlink()
    assert run("undo", place).stdout == "Undone: parcel(): brought back the parcel\n"


@pytest.mark.parametrize(
    ("state", "language", "line"),
    [
        ("done", "zh", "已撤销 f()：x"),
        ("failed", "zh", "f() 的撤销失败：x"),
        ("unknown", "zh", "不能确定 f() 是否已经撤销：x"),
        ("unknown", "en", "f() may or may not have been undone: x"),
    ],
)
def test_what_an_undo_came_to_is_told(
    state: UndoState, language: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_LANGUAGE", language)
    effect = Effect(
        task_id="t", scope="1", idx=0, name="f", arguments={}, outcome="success", started_at=0.0, undo=state
    )
    back = Reverted(Place("s", "", "1"), [], [Undone.of(effect, {"error": "x"})])
    assert effect_lines(back, Settings(), "segue undo s") == [line]


def test_a_session_is_exported_and_imported(tmp_path: Path) -> None:
    assert run("export", "s", "s.json").stdout == "Session s was written to s.json.\n"
    assert json.loads(run("export", "s").stdout)["thread"]["thread_id"] == "s"
    assert run("import", "s.json", "--to", "i", "--db", "other.db").stdout == "It was imported as session i.\n"
    assert run("history", "i", "--db", "other.db").stdout == run("history", "s").stdout
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert (broken := run("import", "broken.json")).exit_code == 2 and "not valid JSON" in broken.stderr


@pytest.mark.parametrize("options", [(), ("--undo",)])
def test_an_edit_that_is_not_valid_is_refused_before_anything_is_undone(options: tuple[str, ...]) -> None:
    refused = run("edit", first_id(), "--set", "messages=[]", *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("The state has no field 'messages' that can be changed")
    assert run("undo", first_id()).stdout == "Undone: parcel(): brought back the parcel\n"


def test_sessions_are_copied_to_another_database() -> None:
    first, again = run("copy", "segue.db", "other.db"), run("copy", "segue.db", "other.db", "s", "--json")
    assert (first.stdout, first.stderr) == ("Sessions copied: 1; already there: 0; not copied: 0.\n", "1/1 s: copied\n")
    assert json.loads(again.stdout) == {"copied": [], "present": ["s"], "refused": {}}
    assert "you: send a parcel" in run("history", "s", "--db", "other.db").stdout
    assert (missing := run("copy", "missing.db", "other.db")).exit_code != 0 and "to copy from" in missing.stderr
    assert (unknown := run("copy", "segue.db", "other.db", "nobody")).exit_code == 1 and "nobody" in unknown.stderr


def test_older_snapshots_are_pruned() -> None:
    many = len(json.loads(run("timeline", "s", "--json").stdout))
    assert run("prune", "--keep", "1h").stdout == "Snapshots removed: 0; sessions changed: 0.\n"
    assert run("prune", "--last", "2", "--dry-run").stdout.startswith("Snapshots to remove: ")
    assert many > 2 and run("prune", "--last", "2").stdout.endswith("; sessions changed: 1.\n")
    assert len(json.loads(run("timeline", "s", "--json").stdout)) == 2
    assert "you: send a parcel" in run("history", "s").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("fork", "nowhere"), 2, "There is no session and no snapshot 'nowhere'"),
        (("fork", "s/ffffff"), 2, "Session 's' has no snapshot 'ffffff': `segue timeline s` lists them."),
        (("timeline", "t"), 2, "There is no session 't'"),
        (("edit", "s"), 2, "give either --message or --set"),
        (("edit", "s", "--set", "mode"), 2, "'mode' is not FIELD=JSON"),
        (("prune",), 2, "say what to keep"),
        (("prune", "--keep", "soon"), 2, "The retention 'soon' is not valid"),
        (("import", "none.json"), 2, "none.json cannot be read"),
    ],
)
def test_what_cannot_be_done_is_named(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in " ".join(result.stderr.replace("│", " ").split())
