"""Agents: their bounds, their file and its flows, and their versions."""

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from segue.core.agents import SAME_VERSION, Agent, Budget, McpServer, load_agents
from segue.core.conversation import ConversationConfig, config_of
from segue.core.errors import ConfigurationError
from segue.core.flows import FlowConfig, load_flows
from segue.core.schedules import ApprovalSettings
from segue.core.spend import Quotas
from segue.registry import Registry
from segue.tools.bound_tool import tool
from tests.cases import cases

GOOD = """
[[agent]]
agent_id = "travel"
description = "旅行助手"
suggestions = {en = ["Plan a trip"], zh = ["规划旅行"]}
model = "openai:gpt-4.1-mini"
base_url = "http://127.0.0.1:8000/v1"
api_key = "sk-secret"
tools = ["travel", "my_tools:lookup"]
prompt_file = "prompts/travel.md"
mode = "plan"
max_iteration = 12

[agent.budget]
tool_calls = 7
seconds = 60

[[agent]]
agent_id = "plain"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "agents.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_defaults_are_the_designs() -> None:
    agent = Agent(agent_id="a")
    assert (agent.mode, agent.max_iteration, agent.protocol, agent.model) == ("auto", 30, "json", None)
    assert agent.budget == Budget(
        tool_calls=100, seconds=1800, prompt_tokens=24_000, tool_seconds=30, message_bytes=32_768, result_chars=4_000
    )


def test_agents_are_read_with_their_prompt(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "travel.md").write_text("你是旅行助手。{{current_state}}", encoding="utf-8")
    travel, plain = load_agents(written(tmp_path, GOOD))
    assert travel.prompt == "你是旅行助手。{{current_state}}"
    assert travel.suggestions == {"en": ("Plan a trip",), "zh": ("规划旅行",)}
    assert travel.tools == ("travel", "my_tools:lookup")
    assert (travel.budget.tool_calls, travel.budget.seconds, travel.budget.tool_seconds) == (7, 60, 30)
    assert travel.api_key is not None and travel.api_key.get_secret_value() == "sk-secret"
    assert plain == Agent(agent_id="plain")
    assert load_agents(str(tmp_path / "agents.toml")) == [travel, plain]


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    agent = Agent.model_validate({"agent_id": "a", "api_key": "sk-secret"})
    assert "sk-secret" not in repr(agent) + str(agent) + agent.model_dump_json()
    with pytest.raises(ConfigurationError) as caught:
        load_agents(written(tmp_path, '[[agent]]\nagent_id = "a"\napi_kee = "sk-secret"'))
    assert "sk-secret" not in str(caught.value)
    assert "api_kee" in str(caught.value)


@cases(
    "text, said",
    [
        ("", "contains no [[agent]] table"),
        ("agent = []", "contains no [[agent]] table"),
        ('[agent]\nagent_id = "a"', "contains no [[agent]] table"),
        ('agent = "a"', "contains no [[agent]] table"),
        ("agent = [1]", "contains no [[agent]] table"),
        ('agent = ["ab"]', "contains no [[agent]] table"),
        ("[[agent]\n", "cannot be read"),
        ('[[agent]]\nagent_id = "a"\n[[agent]]\nmode = "plan"', "Agent 2 in"),
        ('[[agent]]\nid = "a"', 'has no agent_id: add agent_id = "a".'),
        ('[[agent]]\nagent_id = "a"\ntools = "clock"', 'tools: give a list: ["clock"].'),
        ('[[agent]]\nagent_id = "a b"', "agent_id"),
        ('[[agent]]\nagent_id = ""', "agent_id"),
        ('[[agent]]\nagent_id = "a"\nmax_iterations = 3', "max_iterations"),
        ('[[agent]]\nagent_id = "a"\nmax_iteration = 0', "max_iteration"),
        ('[[agent]]\nagent_id = "a"\nprotocol = "xml"', "protocol"),
        ('[[agent]]\nagent_id = "a"\n[agent.budget]\nseconds = 0', "budget.seconds"),
        ('[[agent]]\nagent_id = "a"\n[agent.budget]\ntoken = 1', "budget.token"),
        ('[[agent]]\nagent_id = "good"\n[[agent]]\nagent_id = "bad"\nmode = 3', "'bad'"),
        ('[[agent]]\nagent_id = "a"\nprompt_file = "none.md"', "none.md"),
        ('[[agent]]\nagent_id = "a"\nprompt_file = "."', "prompt file ."),
        ('[[agent]]\nagent_id = "a"\nprompt_file = 3', "prompt file 3"),
        ('[[agent]]\nagent_id = "a"\nprompt_file = "latin.md"', "latin.md"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    with pytest.raises(ConfigurationError) as caught:
        load_agents(written(tmp_path, text))
    assert said in str(caught.value)
    assert "agents.toml" in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read"):
        load_agents(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigurationError, match=r"latin\.toml cannot be read"):
        load_agents(tmp_path / "latin.toml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_agents(tmp_path)


@cases("agent_id", ["", "a b", "a/b", "../a", "x" * 65, "a\n"])
def test_an_agent_id_is_a_short_word(agent_id: str) -> None:
    with pytest.raises(ValidationError):
        Agent(agent_id=agent_id)


@cases("agent_id", ["a", "travel-2.0_beta", "旅行", "x" * 64])
def test_an_agent_id_may_have_dots_dashes_and_any_script(agent_id: str) -> None:
    assert Agent(agent_id=agent_id).agent_id == agent_id


@cases(
    "bounds",
    [
        {"tool_calls": -1},
        {"seconds": 0},
        {"prompt_tokens": 499},
        {"tool_seconds": 0},
        {"message_bytes": 0},
        {"result_chars": 99},
    ],
)
def test_a_budget_that_allows_nothing_is_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(bounds))):
        Budget(**bounds)


def test_a_module_in_the_files_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tools_of_the_folder.py").write_text('def hello() -> str:\n    """Greet."""\n    return "hi"\n')
    (agent,) = load_agents(written(tmp_path, '[[agent]]\nagent_id = "a"\ntools = ["tools_of_the_folder:hello"]\n'))
    assert list(Registry().tools_for(agent)) == ["hello"]


# Flows in an agents file, each a mode of its name.

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


# Versions of agents: the one that is given, else a digest: what changes it, and what does not.


def pay(number: int) -> int:
    """Pay."""
    return number


@tool(needs_approval=True)
def pay_with_approval(number: int) -> int:
    """Pay."""
    return number


pay_with_approval.__name__ = "pay"


def version(**changes: Any) -> str:
    agent = Agent(**{"agent_id": "a", "prompt": "You pay.", "tools": (pay, "calculator"), **changes})
    return Registry((agent,), {}).version(agent)


@cases(
    "changes",
    [
        {"prompt": "You pay twice."},
        {"tools": (pay,)},
        {"tools": ("calculator",)},
        {"tools": (pay_with_approval, "calculator")},
        {"model": "offline"},
        {"protocol": "native"},
        {"mode": "plan"},
        {"mcp": [{"name": "files", "command": "files"}]},
    ],
)
def test_what_a_task_depends_on_changes_it(changes: dict[str, Any]) -> None:
    assert version(**changes) != version()


@cases(
    "changes",
    [
        {"tools": ("calculator", pay)},
        {"api_key": "secret"},
        {"base_url": "http://10.0.0.1/v1"},
        {"description": "Pays"},
        {"auto": "model"},
        {"max_iteration": 3},
        {"budget": {"tool_calls": 7}},
    ],
)
def test_keys_addresses_limits_and_orders_do_not(changes: dict[str, Any]) -> None:
    assert version(**changes) == version()


ANOTHER_VERSION = {
    *("a2a", "accepts", "allow", "approvals", "approve", "approvers", "arguments", "ask_user", "directories"),
    *("extra_body", "hidden", "language", "max_tokens", "mcp", "mode", "model", "not_by_asker", "on_secret", "prompt"),
    *("protocol", "read_timeout", "reasoning_effort", "review_plan", "secret", "seed", "state", "streaming"),
    *("system_first", "temperature", "tools", "trusted", "trusted_fields"),
}
"""The fields that make another version of an agent: its unfinished tasks are then continued, pinned or asked about."""


def test_a_field_of_an_agent_makes_another_version_or_is_marked() -> None:
    found = {name for name, field in Agent.model_fields.items() if SAME_VERSION not in field.metadata}
    assert found == ANOTHER_VERSION, (
        f"{found ^ ANOTHER_VERSION}: a field on which a task depends belongs into this list, and every agent has a new "
        "version with the next release; any other is Annotated[…, SAME_VERSION] in core/agents.py"
    )


def test_a_version_that_is_given_stands_for_the_definition() -> None:
    assert version(version="2026-12-01") == version(version="2026-12-01", prompt="You pay twice.") == "2026-12-01"


def test_an_agent_that_is_replaced_has_another_one() -> None:
    registry = Registry((Agent(agent_id="a"),), {})
    before = registry.version(registry.agent("a"))
    registry.register(Agent(agent_id="a", prompt="You pay."))
    assert registry.version(registry.agent("a")) != before


# Numbers of settings that are beyond what can be stored or waited for.

HUGE = 10**30


@cases("model", [Agent, Budget, McpServer, ConversationConfig, ApprovalSettings, FlowConfig, Quotas])
def test_every_number_of_a_settings_model_has_an_upper_bound(model: type[BaseModel]) -> None:
    numbers = [name for name, field in model.model_fields.items() if is_bounded(name, field.annotation)]
    assert numbers
    for name in numbers:
        with pytest.raises(ValidationError) as refused:
            model.model_validate({name: HUGE})
        assert any(error["loc"][0] == name and "less_than" in error["type"] for error in refused.value.errors()), name


def is_bounded(name: str, annotation: Any) -> bool:
    """Whether it counts something, or is a time."""
    kinds = str(annotation).replace("<class 'int'>", "int").split(" | ")
    return "int" in kinds or name in ("seconds", "tool_seconds", "timeout", "read_timeout", "api_timeout")


@cases("name", ["session_length", "conversation_turn_limit", "bot_action_limit", "seed"])
def test_a_number_of_a_conversation_that_cannot_be_stored_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: Input should be less than or equal to"):
        config_of({name: HUGE})
