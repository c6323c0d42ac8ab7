"""Variables of the environment in an agents file: replaced in every string, and never shown."""

import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from segue.core.agents import load_agents
from segue.core.audit import load_audit
from segue.core.environment import address_without_secrets
from segue.core.errors import ConfigurationError, InvalidMessage
from segue.core.notifications import load_receivers
from segue.core.schedules import load_schedules
from segue.core.spend import load_spend
from segue.prompts.catalogue import error_text
from tests.cases import cases

KEY, URL, HOOK = "canary-key-5151", "https://canary-host.example/mcp", "whsec_Y2FuYXJ5LWhvb2stb2YtdGhpcnR5LWJ5dGVzLWFi"
AGENTS = """
[[agent]]
agent_id = "${SHOP_NAME:-shop}"
model = "openai:${SHOP_MODEL:-small}"
api_key = "${SHOP_KEY}"
base_url = "${SHOP_URL}"
max_iteration = "${SHOP_ROUNDS:-12}"
prompt = "Write $${PLAIN}, not $PLAIN."
extra_body = {user = "${SHOP_USER}"}

[[agent.mcp]]
name = "stock"
url = "${SHOP_URL}"
headers = {Authorization = "Bearer ${SHOP_KEY}"}

[[notify]]
name = "ops"
url = "https://${SHOP_HOST:-example.com}/hook"
secret = "${SHOP_HOOK}"

[spend]
per_day = "${SHOP_LIMIT:-5}"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "SHOP_KEY": KEY,
        "SHOP_URL": URL,
        "SHOP_HOOK": HOOK,
        "SHOP_USER": "",
        "SHOP_ROUNDS": "",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "agents.toml").write_text(AGENTS, encoding="utf-8")
    return tmp_path / "agents.toml"


def test_every_string_of_the_file_may_have_variables(file: Path) -> None:
    (agent,) = load_agents(file)
    assert (agent.agent_id, agent.model, agent.max_iteration) == ("shop", "openai:small", 12)
    assert (agent.base_url, agent.prompt, agent.extra_body) == (URL, "Write ${PLAIN}, not $PLAIN.", {"user": ""})
    assert agent.api_key is not None and agent.api_key.get_secret_value() == KEY
    assert agent.mcp[0].headers["Authorization"].get_secret_value() == f"Bearer {KEY}"
    (receiver,) = load_receivers(file)
    assert (receiver.url, len(receiver.keys({}))) == ("https://example.com/hook", 1)
    spend = load_spend(file)
    assert spend is not None and spend.per_day == 5


def test_a_variable_that_is_not_set_is_refused_by_name_with_its_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_KEY")
    with pytest.raises(ConfigurationError) as error:
        load_receivers(file)
    assert "SHOP_KEY in line 5 (agent[1].api_key), which is not set" in str(error.value)
    assert "${SHOP_KEY:-default}" in str(error.value)
    assert "SHOP_KEY 未设置" in error_text(error.value, "zh")


@cases("text", ["${MY-KEY}", "${a.b}", "${A:=b}", "${A:-x{y}}", "${", "a ${} b", "$${A} ${1}"])
def test_what_begins_like_a_variable_and_is_none_is_refused_with_its_place(text: str, file: Path) -> None:
    file.write_text(f'[[agent]]\nagent_id = "a"\nmcp = [{{name = "m", args = ["{text}"]}}]', encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        load_agents(file)
    assert "${ in agent[1].mcp[1].args[1] that begins no variable" in str(error.value)
    assert "agent[1].mcp[1].args[1] 中的 ${ 不是变量" in error_text(error.value, "zh")


def test_values_of_fields_that_are_no_secrets_are_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHOP_SPEECH": "session", "SHOP_NAMED": "canary/named 5151"}.items():
        monkeypatch.setenv(name, value)
    text = '[[agent]]\nagent_id = "a"\nprompt = "One ${SHOP_SPEECH}"\nextra_body = {name = "${SHOP_NAMED}"}'
    file.write_text(text, encoding="utf-8")
    load_agents(file)
    error = InvalidMessage("The message is not sent: the session is busy.")
    assert str(error) == "The message is not sent: the session is busy."
    shown = str(ConfigurationError("{a} {b}", a="canary/named 5151", b="https://a.example/?key=canary%2Fnamed+5151"))
    assert shown == "${SHOP_NAMED} https://a.example/?key=${SHOP_NAMED}"


def test_no_sentence_shows_the_value_of_a_variable(file: Path) -> None:
    (agent,) = load_agents(file)
    errors: list[Any] = [
        ConfigurationError("{url} refused {key}: {error}", url=f"{URL}/a", key=KEY, error=ValueError(f"no {KEY}")),
        ConfigurationError(f"{URL} refused {KEY}"),
    ]
    for error in errors:
        shown = f"{error} {error_text(error, 'zh')} {json.dumps(error.params, default=str)}"
        assert "canary" not in shown and "${SHOP_KEY}" in shown
    assert address_without_secrets(f"{agent.base_url}") == "${SHOP_URL}"


@cases(
    "load, text",
    [
        (load_agents, '[[agent]]\nagent_id = "a"\napi_keyy = "${SHOP_KEY}"'),
        (load_agents, '[[agent]]\nagent_id = "/${SHOP_KEY}"'),
        (load_agents, '[[agent]]\nagent_id = "a"\nhabits = ["${SHOP_KEY}"]'),
        (load_agents, '[[agent]]\nagent_id = "a"\nbudget = {tool_calls = "${SHOP_KEY}"}'),
        (load_agents, '[[agent]]\nagent_id = "a"\ntools = [{agent = "/${SHOP_KEY}"}]'),
        (
            load_agents,
            '[[agent]]\nagent_id = "a"\n[[agent.mcp]]\nname = "m"\nurl = "${SHOP_URL}"\ncommand = "${SHOP_KEY}"',
        ),
        (load_agents, '[[agent]]\nagent_id = "a"\n[[agent.older]]\nheaders = "${SHOP_KEY}"'),
        (load_receivers, '[[notify]]\nname = "n"\nurl = "${SHOP_URL}"\nsecrt = "${SHOP_KEY}"'),
        (load_schedules, '[[schedule]]\nname = "s"\nmessage = "m"\nkey = "${SHOP_KEY}"'),
        (load_spend, '[spend]\nper_day = "${SHOP_KEY}"'),
        (load_audit, '[audit]\nkey = "${SHOP_KEY}"'),
    ],
)
def test_no_traceback_shows_the_value_of_a_variable(load: Any, text: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        load(file)
    assert "canary" not in "".join(traceback.format_exception(error.value))


def test_a_secret_that_is_written_out_is_still_the_name_of_a_variable(tmp_path: Path) -> None:
    text = '[[notify]]\nname = "ops"\nurl = "https://a.example"\nsecret = "SECRET"\n'
    (tmp_path / "a.toml").write_text(
        text.replace("SECRET", "whsec_cHVibGljLWhvb2stb2YtdGhpcnR5LWJ5dGVzLWFi"), encoding="utf-8"
    )
    (receiver,) = load_receivers(tmp_path / "a.toml")
    with pytest.raises(ConfigurationError):
        receiver.keys({})
