"""Keys, addresses and limits, as they come from the environment."""

import hashlib
import json
import subprocess
from typing import Any

import pytest

from segue.cli.views.console import origin_line
from segue.core.errors import ConfigurationError
from segue.server.app import PAGE
from segue.server.middleware import RateLimits
from segue.server.settings import ServerSettings, check_address, from_environment
from segue.server.tenants import Keys, Tenant, hash_keys, parse_keys
from tests.node import command

from .serving import KEY, OTHER_KEY


def test_each_name_is_a_tenant_and_only_hashes_stay() -> None:
    environ = {"SEGUE_API_KEY": f"alpha:{KEY}, beta:{OTHER_KEY}"}
    settings = from_environment(environ)
    assert settings.keys.tenant_of(f"Bearer {KEY}") == Tenant("alpha")
    assert settings.keys.tenant_of(f"bearer {OTHER_KEY}") == Tenant("beta")
    for wrong in ("", KEY, f"Basic {KEY}", f"Bearer {KEY}x", "Bearer ", f"Bearer alpha:{KEY}"):
        assert settings.keys.tenant_of(wrong) is None
    assert KEY not in repr(settings) + repr(environ) + repr(vars(settings.keys))
    assert hashlib.sha256(KEY.encode()).hexdigest() in environ["SEGUE_API_KEY_SHA256"]
    assert from_environment(environ).keys.tenant_of(f"Bearer {KEY}") == Tenant("alpha"), "a worker reads the hashes"


def test_a_key_without_a_name_is_the_default_tenants_and_a_name_may_have_two() -> None:
    keys = parse_keys(hash_keys(f"{KEY},default:{OTHER_KEY}"))
    assert keys.tenant_of(f"Bearer {KEY}") == keys.tenant_of(f"Bearer {OTHER_KEY}") == Tenant("default")


def test_a_key_may_have_roles_and_a_person_of_its_tenant() -> None:
    keys = parse_keys(hash_keys(f"ann@alpha+finance+ops:{KEY},alpha+ops:{OTHER_KEY}"))
    ann, alpha = keys.tenant_of(f"Bearer {KEY}"), keys.tenant_of(f"Bearer {OTHER_KEY}")
    assert ann == alpha == Tenant("alpha") and keys.tenants == {"alpha"}
    assert (ann.actor, ann.roles) == ("key:ann@alpha", {"finance", "ops"})
    assert (alpha.actor, alpha.roles) == ("key:alpha", {"ops"})
    plain = parse_keys(hash_keys(f"alpha:{KEY}")).tenant_of(f"Bearer {KEY}")
    assert plain is not None and (plain.actor, plain.roles) == ("key:alpha", frozenset())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("short", "short"),
        (f"ann@:{KEY}", "The name of"),
        (f"alpha+:{KEY}", "The name of"),
        (f"alpha+fi nance:{KEY}", "The name of"),
        (f"a@b@c:{KEY}", "The name of"),
        ("alpha:short", "short"),
        (f"al.pha:{KEY}", "The name of"),
        (f":{KEY}", "The name of"),
        (f"alpha:{KEY},beta:{KEY}", "same API key"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_without_saying_them(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        hash_keys(text)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("text", ["alpha:00", "alpha", f"al pha:{'0' * 64}", f"alpha:{'x' * 64}"])
def test_hashes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="SEGUE_API_KEY_SHA256"):
        parse_keys(text)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "", "localhost.example.org", "127.0.0.1.example.org"]
)
def test_another_address_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigurationError, match="SEGUE_API_KEY"):
        check_address(host, Keys())
    check_address(host, parse_keys(hash_keys(KEY)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_this_machine_needs_none(host: str) -> None:
    check_address(host, Keys())


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "²", "1" * 30])
def test_a_limit_that_is_no_number_is_named(value: str) -> None:
    with pytest.raises(ConfigurationError, match="SEGUE_RATE_CHATS"):
        from_environment({"SEGUE_RATE_CHATS": value})


def test_limits_and_origins_are_read() -> None:
    settings = from_environment(
        {"SEGUE_RATE_CHATS": "7", "SEGUE_RESUME": "0", "SEGUE_CORS_ORIGINS": "https://a.example, https://b.example/"}
    )
    assert (settings.chats_a_minute, settings.requests_a_minute, settings.resume) == (7, 600, False)
    assert settings.origins == ("https://a.example", "https://b.example")


def test_what_a_disconnect_does_is_read_by_surface() -> None:
    settings = from_environment({"SEGUE_ON_DISCONNECT": "ag_ui=continue, responses = stop"})
    assert settings.on_disconnect == {"ag_ui": "continue", "responses": "stop"}


@pytest.mark.parametrize("given", ["stop", "page=stop", "ag_ui=pause", "ag_ui="])
def test_what_a_disconnect_cannot_do_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"SEGUE_ON_DISCONNECT.*chat_completions, responses, ag_ui"):
        from_environment({"SEGUE_ON_DISCONNECT": given})


def test_every_web_page_only_gets_in_with_a_key() -> None:
    with pytest.raises(ConfigurationError, match="SEGUE_CORS_ORIGINS"):
        ServerSettings(origins=("*",))
    ServerSettings(origins=("*",), keys=parse_keys(hash_keys(KEY)))


def test_a_bucket_lets_a_minutes_worth_through_at_once_and_then_a_steady_trickle() -> None:
    now = [0.0]
    rates = RateLimits(requests=120, chats=60, clock=lambda: now[0])
    assert [rates.wait("a", chats=True) for _ in range(61)] == [0] * 60 + [1]
    assert rates.wait("b", chats=True) == 0, "another tenant has a bucket of its own"
    assert rates.wait(None) == 0
    now[0] += 1
    assert [rates.wait("a", chats=True) for _ in range(2)] == [0, 1]
    now[0] += 3600
    assert [rates.wait("a") for _ in range(121)] == [0] * 120 + [1], "it never holds more than a minute's worth"


def test_one_tenants_names_never_begin_like_anothers() -> None:
    a, ab, nobody = Tenant("a"), Tenant("a-b"), Tenant()
    assert a.stored("s") == "a:s" and a.shown("a:s") == "s"
    assert not a.owns(ab.stored("s")) and not ab.owns(a.stored("s"))
    assert not a.owns("s") and nobody.owns(a.stored("s"))
    assert not a.owns("A:s")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Session 'a:s1' is busy.", "Session 's1' is busy."),
        ("segue recover a:s1", "segue recover s1"),
        ("data: a:", "data: a:"),
        ("Session 'a:a:s1'", "Session 'a:s1'"),
        ("extra:x", "extra:x"),
    ],
)
def test_sentences_name_sessions_as_the_tenant_knows_them(said: str, told: Any) -> None:
    assert Tenant("a").without_prefix(said) == told
    assert Tenant().without_prefix(said) == said


# The terminal and the page say the same of what a value came from.


PROGRAM = """
const [language, page, cases] = process.argv.slice(1);
Object.defineProperty(globalThis, "navigator", { value: { language } });
globalThis.localStorage = { getItem: () => null, setItem() {}, removeItem() {} };
globalThis.document = {
  documentElement: { lang: "" },
  addEventListener() {},
  createElement: () => ({ style: {} }),
  head: { append: (link) => link.onload() },
};
globalThis.window = globalThis;
globalThis.addEventListener ??= () => {};
const { originOf } = await import(`${page}/components/argument-list.js`);
console.log(JSON.stringify(JSON.parse(cases).map((sources) => originOf(sources))));
"""


def source(kind: str, name: str = "", call: int = 0, trusted: bool = False) -> dict[str, Any]:
    return {"kind": kind, "name": name, "call": call, "trusted": trusted}


CASES = [
    [],
    [source("user", trusted=True)],
    [source("user")],
    [source("agent", trusted=True), source("user", trusted=True)],
    [source("tool", "read_mail", 3)],
    [source("tool", "read_mail")],
    [source("mcp", "search", 1), source("mcp", "search", 1), source("model")],
    [source("user", trusted=True), source("tool", "read_mail", 2)],
    [source("memory"), source("file", "notes {call}.txt"), source("agent-other", "clerk")],
    [source("tool", "contacts", 2, trusted=True)],
]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_terminal_and_page_say_the_same_of_sources(language: str) -> None:
    arguments = ("--input-type=module", "-e", PROGRAM, language, PAGE.as_uri(), json.dumps(CASES))
    said = json.loads(subprocess.run(command(*arguments), capture_output=True, check=True, text=True).stdout)
    calls = ({"sources": {"to": sources}} for sources in CASES)
    lines = [line.plain if (line := origin_line(call, "to", language)) else "" for call in calls]
    assert [text.replace("’", "'") for text in said] == lines
