"""Which calls a rule matches."""

from typing import Any

from segue.core.approval import PermissionRule
from tests.cases import cases

GIT = {"command": {"prefix": "git "}}


@cases(
    "only, arguments, matches",
    [
        ({}, {"command": "rm -rf /"}, True),
        ({"command": "ls"}, {"command": "ls"}, True),
        ({"command": "ls"}, {"command": "ls -a"}, False),
        ({"command": "ls *"}, {"command": "ls -a"}, False),
        (GIT, {"command": "git status"}, True),
        (GIT, {"command": "gitk"}, False),
        (GIT, {"command": 3}, False),
        (GIT, {"command": "git status", "sudo": True}, False),
        ({**GIT, "sudo": {"prefix": ""}}, {"command": "git status", "sudo": True}, True),
        ({**GIT, "sudo": {"prefix": ""}}, {"command": "git status"}, True),
        ({**GIT, "sudo": False}, {"command": "git status", "sudo": 0}, False),
        ({**GIT, "dry_run": True}, {"command": "git push"}, False),
        (GIT, {}, False),
        ({"where": {"b": 1, "a": 2}}, {"where": {"a": 2, "b": 1}}, True),
        ({"where": {"prefix": "x"}}, {"where": {"prefix": "x"}}, False),
    ],
)
def test_every_argument_must_be_named_and_fit(only: dict[str, Any], arguments: dict[str, Any], matches: bool) -> None:
    rule = PermissionRule("shell", only)
    assert rule.matches({"name": "shell", "arguments": arguments}) is matches
    assert not rule.matches({"name": "other", "arguments": arguments})
    assert PermissionRule.parse(str(rule)) == rule


def test_a_rule_reads_as_a_tool_and_its_arguments() -> None:
    assert str(PermissionRule("refund")) == "refund"
    assert (
        str(PermissionRule("refund", {"order_id": 17, "note": "对不起"})) == 'refund {"note": "对不起", "order_id": 17}'
    )
