"""Flows in an agents file, each a mode of its name."""

from pathlib import Path

import pytest

from segue.core.agents import load_agents
from segue.core.errors import ConfigurationError
from segue.core.flows import load_flows

FILE = """
[flows.coder]
max_round = 0

[flows.coder.subflows_config.Controller]
agent = "coder"
goal = "Write the program."

[flows.coder.subflows_config.Executor]
tools = ["calculator"]

[flows.coder.subflows_config.Executor.branches.research]
flow = "research"
description = "looks things up"

[flows.coder.subflows_config.MemoryReading]
tokens = 800

[[flows.coder.topology]]
flow = "Controller"
output_interface = "segue.nodes.control_decision:detect_finish_or_continue"

[[flows.coder.topology]]
flow = "Executor"

[flows.research]
max_round = 5
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "agents.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_flows_are_read_with_the_flows_that_their_branches_name(tmp_path: Path) -> None:
    file = written(tmp_path, FILE)
    flows = load_flows(file)
    coder = flows["coder"]
    assert (coder.name, coder.max_round, coder.reads_memory, coder.writes_memory) == ("coder", None, False, False)
    assert coder.subflows_config.controller.goal == "Write the program."
    assert coder.subflows_config.executor.branches["research"].flow == flows["research"]
    assert coder.subflows_config.memory_reading.tokens == 800 and callable(coder.finish_detector)
    assert load_agents(file) == [], "a file of flows needs no agent"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("flows = 1", r"write \[flows.NAME\]"),
        ("[flows.a]\nmax_rounds = 1", "The flow 'a': max_rounds"),
        ("[flows.a.subflows_config.Executor.branches.b]\nflow = 'c'", "no flow 'c'; use one of: a"),
        ("[flows.a.subflows_config.Executor.branches.b]\nflow = 'a'", "a branch of itself"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        load_flows(written(tmp_path, text))
