"""The coding agent of examples/: a scripted model carries out a plan in rounds, and its tools stay in their folder."""

import fcntl
import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent, CallContext, load_agents
from tests.fakes import ScriptedChatModel, choose

EXAMPLE = Path(__file__).parents[2] / "examples/coding_agent"
CALL = CallContext(idempotency_key="k", tool="t", session_id="alpha:s1")
PLAN = "1. Write calc.py with add(a, b).\n2. Write test_calc.py.\n3. Run the tests."
BROKEN, CORRECT = (f"def add(a, b):\n    return a {sign} b\n" for sign in "-+")
TEST = "from calc import add\n\ndef test_add():\n    assert add(2, 3) == 5\n"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The example's module, with a scratch folder of the test's own."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setenv("CODING_FOLDER", str(tmp_path / "scratch"))
    yield importlib.import_module("coding_tools")
    sys.modules.pop("coding_tools", None)


def coder(*script: str) -> Agent:
    (agent,) = load_agents(EXAMPLE / "agents.toml")
    return agent.model_copy(update={"model": ScriptedChatModel(list(script))})


@pytest.mark.slow
async def test_a_plan_is_carried_out_in_rounds_with_its_log_in_a_memory_file(tools: Any, tmp_path: Path) -> None:
    script = [
        choose("write_file", path="calc.py", text=BROKEN),
        choose("write_file", path="test_calc.py", text=TEST),
        choose("run_tests"),
        choose("write_file", "The sign is wrong.", path="calc.py", text=CORRECT),
        choose("run_tests"),
        choose("run_python", path="test_calc.py"),
        choose("finish", summary="calc.py adds, and its test passes.", result="calc.py"),
    ]
    async with segue.open(tmp_path / "segue.db", agents=[coder(*script)]) as app:
        done = await app.ask(PLAN, session_id="calc", agent="coder")
        (file,) = await app.memory.files()
        log = await app.memory.show(file["name"])
        model = app.agents.agent("coder").model
    assert (done["success"], done["mode"]) == (True, "controller")
    assert [entry["branch"] for entry in log["entries"]][:6] == [step["action"] for step in done["history"]]
    assert {entry["task_id"] for entry in log["entries"]} == {done["task_id"]}
    failed, passed = (step["result"]["success"] for step in done["history"] if step["action"] == "run_tests")
    assert (failed["exit_code"], passed["exit_code"]) == (1, 0)
    assert "assert -1 == 5" in failed["output"] and "1 passed" in passed["output"]
    assert BROKEN.strip() in log["entries"][0]["text"], "code is logged as people read it"
    fifth = str(model.calls[4][0].content)
    assert "round 3 · run_tests" in fifth and "round 4 · write_file" in fifth, (
        "each round reads the log of those before"
    )
    left = sorted(path.name for path in (tmp_path / "scratch/calc").iterdir())
    assert left == ["calc.py", "test_calc.py"], "a byte code of the old file would be run in place of the new one"


@pytest.mark.parametrize("path", ["../x.py", "/tmp/x.py", "a/../../x.py", "x\0.py", "link/x.py"])
def test_no_file_outside_the_folder_is_written_read_or_run(tools: Any, tmp_path: Path, path: str) -> None:
    tools.write_file("a.py", "1", CALL)
    (folder,) = (tmp_path / "scratch").iterdir()
    (folder / "link").symlink_to(tmp_path)
    (tmp_path / "x.py").write_text("secret", encoding="utf-8")
    for use in (
        lambda: tools.write_file(path, "changed", CALL),
        lambda: tools.read_file(path, CALL),
        lambda: tools.run_python(path, CALL),
        lambda: tools.run_tests(CALL, path),
    ):
        with pytest.raises(ValueError, match="is outside the scratch folder"):
            use()
    assert (tmp_path / "x.py").read_text(encoding="utf-8") == "secret"


def test_sessions_have_folders_of_their_own(tools: Any, tmp_path: Path) -> None:
    for session_id in ("..", "a/b", "", "s1"):
        tools.write_file("a.py", session_id, CallContext(idempotency_key="k", tool="t", session_id=session_id))
    assert sorted(path.name for path in (tmp_path / "scratch").iterdir()) == ["%2E%2E", "a%2Fb", "none", "s1"]


def test_files_are_read_from_a_line_on_and_long_ones_are_shortened(tools: Any) -> None:
    tools.write_file("a.txt", "\n".join(f"line {number}" for number in range(1, 3001)), CALL)
    assert tools.list_files(CALL) == ["a.txt"]
    assert tools.read_file("a.txt", CALL, 2999)["text"] == "line 2999\nline 3000"
    assert "characters left out" in tools.read_file("a.txt", CALL)["text"]
    with pytest.raises(ValueError, match=r"There is no file b\.txt; there are: a\.txt\."):
        tools.read_file("b.txt", CALL)
    with pytest.raises(ValueError, match="longer than 100000 bytes"):
        tools.write_file("a.txt", "x" * 100_001, CALL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits here")
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("bytearray(2 << 30)", "MemoryError"),
        ("open('big', 'wb').write(bytes(11 << 20))", "File too large"),
        ("import os; print({'OPENAI_API_KEY'} & {*os.environ} or 'no key')", "no key"),
        ("while True: print('again' * 1000)", "characters left out"),
        ("import sys; print(sys.argv[1:], input())", "['a b', '$HOME'] 你好"),
    ],
    ids=["memory", "files", "environment", "output", "arguments"],
)
def test_a_program_runs_within_limits_and_without_a_shell(
    tools: Any, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    tools.write_file("program.py", program, CALL)
    assert said in tools.run_python("program.py", CALL, ["a b", "$HOME"], "你好\n")["output"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups here")
def test_a_program_that_runs_too_long_ends_with_what_it_started(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "SECONDS", 4)
    child = "import fcntl, time; fcntl.flock(file := open('held', 'w'), 2); print('begun', flush=True); time.sleep(600)"
    program = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(600)"
    tools.write_file("program.py", program, CALL)
    ran = tools.run_python("program.py", CALL)
    assert (ran["output"], ran["exit_code"]) == ("begun\n", -9) and "was stopped" in ran["stopped"]
    (held,) = (tmp_path / "scratch").rglob("held")
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # whoever held it has ended


def test_the_agents_file_is_the_readmes() -> None:
    table = tomllib.loads((EXAMPLE / "agents.toml").read_text(encoding="utf-8"))["agent"][0]
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert all(name.partition(":")[2] in readme for name in table["tools"])


async def test_without_a_model_it_says_that_it_needs_one(tools: Any, tmp_path: Path) -> None:
    agent = coder().model_copy(update={"model": "offline"})
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        done = await app.ask("Write calc.py with add(a, b).", session_id="calc", agent="coder")
    assert "not a language model" in done["answer"]
