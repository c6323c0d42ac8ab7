"""Where an agent's rules let untrusted values go."""

from typing import Any

import pytest
from pydantic import ValidationError

from segue.core.call_rules import AllowRule
from tests.cases import cases


def rule(**places: Any) -> AllowRule:
    return AllowRule(tool="t", argument="a", **places)


@pytest.mark.parametrize("value", ["bob@example.org", "Bob.B+x@Example.org", ["a@example.org", "b@example.org"]])
def test_a_star_stands_for_a_part_of_an_address(value: Any) -> None:
    assert rule(values=["*@example.org"]).covers(value)


@cases(
    "value",
    [
        "eve@evil.com,bob@example.org",
        "eve@evil.com bob@example.org",
        "eve＠evil.com，bob@example.org",
        "eve@example.org.evil.com",
        "eve@evil.com?x=@example.org",
        "bob@example.org\n",
        ["a@example.org", "eve@evil.com"],
        [],
        {"a@example.org": 1},
        True,
        None,
    ],
)
def test_an_address_behind_another_one_is_not_covered(value: Any) -> None:
    assert not rule(values=["*@example.org"]).covers(value)


@cases("value", ["https://example.org/a?b", "example.org", "http://EXAMPLE.org:8080", "https://example.org./"])
def test_links_to_a_host_are_covered(value: str) -> None:
    assert rule(hosts=["example.org"]).covers(value)


@cases(
    "value",
    [
        "https://example.org@evil.com/",
        "https://evil.com\\@example.org/",
        "https://evil.com/example.org",
        "https://evil.com#example.org",
        "https://notexample.org/",
        "https://a.example.org/",
        "file://example.org/x",
        "https://evil.com/ https://example.org/",
        "https://[::1/",
        "",
    ],
)
def test_links_to_other_hosts_are_not(value: str) -> None:
    assert not rule(hosts=["example.org"]).covers(value)


def test_a_star_at_the_begin_of_a_host_stands_for_those_below_it() -> None:
    below = rule(hosts=["*.example.org"])
    assert below.covers("https://api.example.org/x")
    assert not below.covers("https://example.org/") and not below.covers("https://evilexample.org/")


def test_a_sharp_s_makes_another_domain() -> None:
    assert not rule(values=["*@strasse.example"]).covers("eve@straße.example")
    assert not rule(hosts=["strasse.example"]).covers("https://straße.example/")
    assert rule(hosts=["straße.example"]).covers("https://STRAßE.example/")
    assert not rule(hosts=["straße.example"]).covers("https://strasse.example/")


def test_paths_are_in_a_folder() -> None:
    inside = rule(paths=["reports"])
    assert inside.covers("reports/2024/may.txt") and inside.covers("./reports/a")
    for path in (
        "reports",
        "reports/../secret",
        "/reports/a",
        "other/reports/a",
        "reports\\..\\a",
        "reports2/a",
        "reports/%2e%2e/a",
    ):
        assert not inside.covers(path), path
    assert rule(paths=["/srv/out/"]).covers("/srv/out/a")


def test_a_lone_star_is_any_value_and_a_rule_names_some() -> None:
    assert rule(values=["*"]).covers({"any": ["thing"]})
    with pytest.raises(ValidationError, match="give values, hosts, paths or links"):
        rule()
