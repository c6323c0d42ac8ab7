"""Which model an agent gets, and what known models cost."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

import segue
from segue.core.agents import Agent, Prices
from segue.core.errors import ConfigurationError, MissingKey, UnknownModel
from segue.models.build import build_model, chosen_model
from segue.models.chat_object import ChatObject
from segue.models.offline import OfflinePlanner
from segue.models.openai.model import CONNECT_SECONDS, OpenAIModel, known_cost
from tests.cases import cases
from tests.fakes import ScriptedChatModel
from tests.loopback import LoopbackServer, Text

KEY = SecretStr("test-key-0123456789")


def agent(**fields: Any) -> Agent:
    return Agent(**{"agent_id": "a"} | fields)


@cases(
    "fields, override, environ, chosen",
    [
        ({}, "", {}, "offline"),
        ({}, "", {"OPENAI_API_KEY": "k"}, "openai:gpt-4.1-mini"),
        ({}, "", {"OPENAI_BASE_URL": "http://x", "OPENAI_MODEL": "m"}, "openai:m"),
        ({}, "", {"SEGUE_MODEL": "openai:s", "OPENAI_API_KEY": "k"}, "openai:s"),
        ({"model": "openai:own"}, "", {"SEGUE_MODEL": "openai:s"}, "openai:own"),
        ({"model": "openai:own"}, "offline", {}, "offline"),
    ],
)
def test_the_override_then_the_agent_then_the_environment(
    fields: dict[str, Any], override: str, environ: dict[str, str], chosen: str
) -> None:
    assert chosen_model(agent(**fields), override, environ) == chosen


def test_each_kind_of_name() -> None:
    assert isinstance(build_model(agent(), "", {}), OfflinePlanner)
    model = build_model(agent(model="openai:m", api_key=KEY), "", {})
    assert isinstance(model, OpenAIModel) and model.name == "openai:m" and model.is_language_model
    for name in ("gpt-4", "openai:", "anthropic:x"):
        with pytest.raises(UnknownModel, match=name):
            build_model(agent(model=name), "", {})
    with pytest.raises(MissingKey):
        build_model(agent(model="openai:m"), "", {})


def test_each_kind_of_object() -> None:
    assert isinstance(build_model(agent(model=ScriptedChatModel([])), "", {}), ChatObject)
    with pytest.raises(UnknownModel):
        build_model(agent(model=42), "", {})
    azure = AzureChatOpenAI(azure_endpoint="http://127.0.0.1:1", api_version="1", azure_deployment="d", api_key=KEY)
    assert isinstance(build_model(agent(model=azure), "", {}), OpenAIModel)
    chat = ChatOpenAI(model="m", api_key=KEY, base_url="http://127.0.0.1:1/v1")
    assert isinstance(build_model(agent(model=chat), "", {}), OpenAIModel)
    responses = ChatOpenAI(model="m", api_key=KEY, use_responses_api=True)
    assert isinstance(build_model(agent(model=responses), "", {}), ChatObject)


def test_the_read_timeout_is_taken_under_its_former_name_too() -> None:
    assert agent(silence=7).read_timeout == agent(read_timeout=7).read_timeout == 7


async def test_ours_is_the_only_layer_that_retries_and_times_are_set() -> None:
    own = ChatOpenAI(model="m", api_key=KEY, base_url="http://127.0.0.1:1/v1", max_retries=9, timeout=3)
    for given, read in ((None, 60), (own, 3)):
        model = build_model(agent(model=given or "openai:m", api_key=KEY), "", {})
        assert isinstance(model, OpenAIModel)
        client = model._client()._client
        assert client.max_retries == 0
        if given is None:
            assert (client.timeout.connect, client.timeout.read) == (CONNECT_SECONDS, read)
        else:
            assert client.timeout == read
    assert own.max_retries == 9 and own.root_async_client.max_retries == 9


@cases(
    "variables, says",
    [
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1\n"}, "OPENAI_BASE_URL is .* without spaces and line ends"),
        ({"OPENAI_BASE_URL": "127.0.0.1:8000/v1"}, "OPENAI_BASE_URL is .* write a whole address"),
        ({"OPENAI_BASE_URL": "localhost/v1"}, "OPENAI_BASE_URL is"),
        ({"OPENAI_BASE_URL": "http://host:port/v1"}, "OPENAI_BASE_URL is"),
        ({"SSL_CERT_FILE": "/nowhere.pem"}, "SSL_CERT_FILE is '/nowhere.pem'"),
        ({"HTTPS_PROXY": "foo://127.0.0.1:9"}, "HTTPS_PROXY is no address of a proxy"),
        ({"https_proxy": "127.0.0.1:99999"}, r"https_proxy is no address of a proxy \(Port out of range"),
        ({"http_proxy": "http://127.0.0.1:port"}, "http_proxy is no address of a proxy"),
        ({"ALL_PROXY": "http://[::1"}, "ALL_PROXY is no address of a proxy"),
        ({"all_proxy": "http://:8080"}, "all_proxy is no address of a proxy .*no host"),
        ({"HTTP_PROXY": "http://proxy host:8080"}, "HTTP_PROXY is no address of a proxy .*spaces"),
        ({"HTTPS_PROXY": "http://proxy:8080\n"}, "HTTPS_PROXY is no address of a proxy"),
    ],
)
def test_a_setting_that_no_client_can_be_built_with_is_named(
    variables: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_API_KEY": "k", **variables}
    with monkeypatch.context() as patched:
        for name, value in environ.items():
            patched.setenv(name, value)
        with pytest.raises(ConfigurationError, match=says):
            build_model(agent(model="openai:m"), "", environ)


@cases(
    "proxy",
    ["127.0.0.1:8080", "http://user:secret@127.0.0.1:8080/", "https://proxy.example", "http://[::1]:8080", "localhost"],
)
def test_an_address_of_a_proxy_may_have_any_form(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    build_model(agent(model="openai:m"), "", {"OPENAI_API_KEY": "k", "https_proxy": proxy})


@pytest.mark.skipif(importlib.util.find_spec("socksio") is not None, reason="a SOCKS proxy can be used")
def test_a_socks_proxy_without_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    environ = {"OPENAI_API_KEY": "k", "ALL_PROXY": "socks5://127.0.0.1:9"}
    with pytest.raises(ConfigurationError, match=r"ALL_PROXY names a SOCKS proxy.* pip install socksio"):
        build_model(agent(model="openai:m"), "", environ)


def test_an_address_of_the_agents_own_is_named_without_its_secrets() -> None:
    with pytest.raises(ConfigurationError, match="base_url is '//host/v1'"):
        build_model(agent(model="openai:m", base_url="//user:secret@host/v1?key=secret", api_key=KEY), "", {})


# What known models cost, without the network.

OPENAI = "https://api.openai.com/v1"
USAGE = {"input": 1000, "output": 100}


async def test_a_model_costs_what_is_known_of_it_at_its_endpoint() -> None:
    cost = await known_cost("gpt-4.1-mini", OPENAI, USAGE)
    assert cost and 0 < cost < 0.1
    cached = await known_cost("gpt-4.1-mini", OPENAI, {**USAGE, "cached": 900})
    assert cached and cached < cost
    assert await known_cost("gpt-4.1-mini-2025-04-14", OPENAI, USAGE) == cost


@cases(
    "name, address, usage",
    [
        ("gpt-4.1-mini", "http://127.0.0.1:8085/v1", USAGE),
        ("gpt-4.1-mini", "http://localhost/api.openai.com/v1", USAGE),
        ("no-such-model", OPENAI, USAGE),
        ("gpt-4.1-mini", OPENAI, {}),
        ("gpt-4.1-mini", OPENAI, {**USAGE, "cached": 1001}),
        ("gpt-4.1-mini", OPENAI, {**USAGE, "output": -1}),
    ],
)
async def test_what_is_not_known_is_not_0(name: str, address: str, usage: dict[str, int]) -> None:
    assert await known_cost(name, address, usage) is None


@cases("price", [-1, float("nan"), float("inf"), 1e300])
def test_a_price_is_a_number(price: float) -> None:
    with pytest.raises(ValueError, match="input"):
        Prices(input=price, output=1)


async def test_a_task_at_an_endpoint_without_known_prices_says_so(tmp_path: Path) -> None:
    async with LoopbackServer([Text("hello", usage={"prompt_tokens": 9, "completion_tokens": 3})]) as server:
        agent = Agent(agent_id="a", model="openai:gpt-4.1-mini", base_url=server.base_url, mode="direct")
        async with segue.open(tmp_path / "a.db", agents=[agent]) as app:
            result = await app.ask("hi", agent="a")
            assert result.usage["input"] == 9 and result.usage["cost"] is None
            assert (await app.tasks.usage()).cost is None
