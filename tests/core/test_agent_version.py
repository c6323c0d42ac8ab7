"""Versions of agents: the one that is given, else a digest: what changes it, and what does not."""

from typing import Any

from segue.core.agents import Agent
from segue.registry import Registry
from segue.tools.bound_tool import tool
from tests.cases import cases


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
        {"max_iteration": 3},
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
    ],
)
def test_keys_addresses_and_orders_do_not(changes: dict[str, Any]) -> None:
    assert version(**changes) == version()


def test_a_version_that_is_given_stands_for_the_definition() -> None:
    assert version(version="2026-12-01") == version(version="2026-12-01", prompt="You pay twice.") == "2026-12-01"


def test_an_agent_that_is_replaced_has_another_one() -> None:
    registry = Registry((Agent(agent_id="a"),), {})
    before = registry.version(registry.agent("a"))
    registry.register(Agent(agent_id="a", prompt="You pay."))
    assert registry.version(registry.agent("a")) != before
