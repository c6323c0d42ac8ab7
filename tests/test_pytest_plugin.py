"""The pytest plugin, as somebody's project uses it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from segue.cli import app
from segue.testing.cassette import SUFFIX  # here: pytester unloads what a test imports, and yaml loads once only

pytest_plugins = ["pytester"]
AGENTS = """
[[agent]]
agent_id = "clock"
tools = ["clock"]
prompt = "You are a {kind} clock."
"""

SCOPE = "asyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    """A folder with an agents file, a session that was recorded, and pytest's settings."""
    folder = pytester.path
    (folder / "agents.toml").write_text(AGENTS.format(kind="kind"), encoding="utf-8")
    at = ["--agents", "agents.toml", "--db", "segue.db"]
    said = CliRunner().invoke(app, ["chat", "What time is it in Tokyo?", "--session", "tokyo", "--mode", "react", *at])
    assert said.exit_code == 0, said.output
    made = CliRunner().invoke(app, ["record", "tokyo", "--out", f"cassettes/tokyo{SUFFIX}", *at])
    assert made.exit_code == 0, made.output
    (folder / "pytest.ini").write_text(f"[pytest]\nsegue_agents = agents.toml\n{SCOPE}", encoding="utf-8")
    return folder


def run(pytester: pytest.Pytester, *names: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(
        "-p", "segue.pytest_plugin", "-p", "no:anyio", "-p", "no:langsmith_plugin", *names
    )


def test_a_cassette_is_a_test_that_passes_until_a_prompt_changes(pytester: pytest.Pytester, project: Path) -> None:
    run(pytester).assert_outcomes(passed=1)

    (project / "agents.toml").write_text(AGENTS.format(kind="wild"), encoding="utf-8")
    failed = run(pytester)

    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(
        [
            "*replay of tokyo*",
            "Turn 1, model call 1: the request differs.",
            "-You are a kind clock.",
            "+You are a wild clock.",
        ]
    )


def test_a_cassette_is_replayed_with_agents_made_in_python_or_of_the_file(
    pytester: pytest.Pytester, project: Path
) -> None:
    pytester.makepyfile(
        """
        import pytest
        import segue

        @pytest.mark.parametrize("kind", ["kind", "wild"])
        def test_clock(segue_replay, kind):
            agent = segue.Agent(agent_id="clock", tools=["clock"], prompt=f"You are a {kind} clock.")
            segue_replay("cassettes/tokyo.cassette.yaml", agents=[agent])

        def test_agents_file(segue_replay):
            segue_replay("cassettes/tokyo.cassette.yaml")
        """
    )
    done = run(pytester, "test_a_cassette_is_replayed_with_agents_made_in_python_or_of_the_file.py")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*ReplayDiffers: Turn 1, model call 1: the request differs."])


def test_without_the_agents_file_the_failure_says_which_agent_is_missing(
    pytester: pytest.Pytester, project: Path
) -> None:
    (project / "pytest.ini").write_text("[pytest]\n" + SCOPE, encoding="utf-8")
    run(pytester).assert_outcomes(passed=1)  # agents.toml is beside it
    (project / "agents.toml").rename(project / "others.toml")
    failed = run(pytester)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["There is no agent 'clock'; use one of: travel, data.*"])


def test_a_backtest_passes_until_agents_call_otherwise(pytester: pytest.Pytester, project: Path) -> None:
    (project / "test_backtest.py").write_text(
        "def test_backtest(segue_backtest):\n    assert len(segue_backtest('segue.db').tasks) == 1\n", encoding="utf-8"
    )
    run(pytester, "test_backtest.py").assert_outcomes(passed=1)

    (project / "agents.toml").write_text(AGENTS.format(kind="kind").replace('["clock"]', "[]"), encoding="utf-8")
    failed = run(pytester, "test_backtest.py")

    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*different effects: What time is it in Tokyo?*"])
