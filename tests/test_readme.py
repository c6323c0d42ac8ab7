"""The README's examples run as they stand."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from segue.core.agents import load_agents

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(
    ("place", "said"), [(0, "2495"), (1, "Order 17 is on its way."), (2, "HEAR ME"), (3, "248832")]
)
def test_a_python_example_runs(place: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(blocks("python")[place], encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stdout


def test_the_flows_example_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "controller-executor.md").read_text(encoding="utf-8")
    python, table = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "toml"))  # type: ignore[index]
    file = tmp_path / "example.py"
    file.write_text(python, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "2495" in ran.stdout
    assert set(tomllib.loads(table)["flows"]) == {"coder", "research"}


def test_every_python_example_is_tried() -> None:
    assert len(blocks("python")) == 4


def test_the_agents_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(blocks("toml")[0], encoding="utf-8")
    assert [agent.agent_id for agent in load_agents(file)] == ["support"]
    assert tomllib.loads(blocks("toml")[0])["agent"][0]["tools"] == ["my_tools:lookup", "calculator"]


def test_the_commands_that_it_names_exist() -> None:
    ran = subprocess.run([sys.executable, "-m", "segue", "--help"], capture_output=True, text=True, check=True)
    named = set(re.findall(r"^(?:\.venv/bin/)?segue (\w+)", "".join(blocks("sh")), re.MULTILINE))
    assert named and all(command in ran.stdout for command in named)
