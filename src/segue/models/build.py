"""Models, built from what an agent names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import urlsplit

from ..core.agents import Agent
from ..core.environment import address_without_secrets, whole_number
from ..core.errors import ConfigurationError, MissingKey, UnknownModel
from ..core.models import OFFLINE, Model
from .habits import Habits

if TYPE_CHECKING:
    from langchain_openai.chat_models.base import BaseChatOpenAI


OFFLINE_PACE = "SEGUE_OFFLINE_PACE"
"""Characters that the offline planner writes a second; 0 is no limit."""
ACCEPTS = "SEGUE_ACCEPTS"
"""Files that models read beside text, of agents that do not say."""
DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"


def chosen_model(agent: Agent, override: str, environ: Mapping[str, str]) -> Any:
    """The agent's model: the override, the agent's own, the environment's, or `offline`."""
    if override:
        return override
    if agent.model is not None:
        return agent.model
    if named := environ.get("SEGUE_MODEL"):
        return named
    if environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL"):
        return f"openai:{environ.get('OPENAI_MODEL', DEFAULT_OPENAI_MODEL)}"
    return OFFLINE


def build_model(agent: Agent, override: str, environ: Mapping[str, str], habits: Habits | None = None) -> Model:
    """Build the agent's model; `habits` are what is known of endpoints."""
    choice = chosen_model(agent, override, environ)
    if not isinstance(choice, str):
        return _of_object(choice, agent, habits)
    kind, name = kind_of(choice)
    if kind == OFFLINE:
        from .offline import OfflinePlanner

        return OfflinePlanner(whole_number(environ, OFFLINE_PACE, 0, least=0))
    if kind == "local":
        from .local import local_model

        return local_model(agent, name)
    return _openai(agent, name, environ, habits)


def kind_of(choice: str) -> tuple[str, str]:
    """The kind of model that a name means, and the rest of the name."""
    kind, _, name = choice.partition(":")
    if choice != OFFLINE and (kind not in ("openai", "local") or not name):
        raise UnknownModel(choice)
    return kind, name


def accepted_kinds(agent: Agent, override: str, environ: Mapping[str, str]) -> frozenset[str]:
    """The kinds of files that a model reads beside text: as the agent or environment says, else as is known of it."""
    if agent.accepts is not None:
        return frozenset(agent.accepts)
    if named := environ.get(ACCEPTS, "").replace(" ", ""):
        if not (kinds := frozenset(named.split(","))) <= {"image", "pdf", "text"}:
            raise ConfigurationError(
                "{name} is '{text}': set it to image, pdf, image,pdf or text.", name=ACCEPTS, text=named
            )
        return kinds
    choice = chosen_model(agent, override, environ)
    if isinstance(choice, str):
        kind, _, name = choice.partition(":")
        return _known_kinds(name) if kind == "openai" else frozenset()
    return _kinds_of(choice.profile)


@cache
def _known_kinds(name: str) -> frozenset[str]:
    """What LangChain's table says of a model of OpenAI's; a dated version is as its model."""
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    return _kinds_of(ChatOpenAI(model=re.sub(r"-\d{4}-\d{2}-\d{2}$", "", name), api_key=SecretStr("none")).profile)


def _kinds_of(profile: Any) -> frozenset[str]:
    return frozenset(kind for kind in ("image", "pdf") if (profile or {}).get(f"{kind}_inputs"))


def _of_object(choice: Any, agent: Agent, habits: Habits | None) -> Model:
    from langchain_core.language_models import BaseChatModel

    from .chat_object import ChatObject

    if not isinstance(choice, BaseChatModel):
        raise UnknownModel(repr(choice))
    if _speaks_chat_completions(choice):
        from .openai.model import OpenAIModel

        return OpenAIModel(choice, choice.model_name, **_ways(agent, habits))
    return ChatObject(choice, **_ways(agent, habits))


def _speaks_chat_completions(choice: Any) -> "TypeGuard[BaseChatOpenAI]":
    """Whether a chat model is LangChain's OpenAI client or made from it, and not set to use the Responses API."""
    if not any(kind.__module__.startswith("langchain_openai.") for kind in type(choice).__mro__):
        return False
    from langchain_openai.chat_models.base import BaseChatOpenAI

    return isinstance(choice, BaseChatOpenAI) and not choice.use_responses_api


BASE_URL = "OPENAI_BASE_URL"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


def _checked_url(agent: Agent, environ: Mapping[str, str]) -> str | None:
    """The endpoint's address, as the agent or the environment has it."""
    name, given = ("base_url", agent.base_url) if agent.base_url else (BASE_URL, environ.get(BASE_URL))
    if not given:
        return None
    shown = address_without_secrets(given)
    if not given.isprintable() or re.search(r"\s", given):
        raise ConfigurationError(
            "{name} is {text!r}: write the address without spaces and line ends.", name=name, text=shown
        )
    try:
        address = urlsplit(given)
        whole = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # the port is no number, or a bracket is open
        whole = False
    if not whole:
        raise ConfigurationError(
            "{name} is {text!r}: write a whole address, such as http://127.0.0.1:8000/v1.", name=name, text=shown
        )
    return given


def _check_proxies(environ: Mapping[str, str]) -> None:
    """Check each proxy of the environment: the HTTP client would fail at its first request, without the name."""
    for name in _set_in(environ, _PROXIES):
        given = environ[name]
        try:
            address = urlsplit(given if "://" in given else f"http://{given}")
            port, host = address.port, address.hostname
            why = "its port is 0" if port == 0 else "" if host else "it has no host"
        except ValueError as error:  # the port is no number or too large, or a bracket is open
            why = str(error)
        if re.search(r"[^!-~]", given):
            why = "it has spaces, line ends or signs that are not ASCII"
        elif not why and address.scheme not in _PROXY_SCHEMES:
            why = f"use one of {', '.join(_PROXY_SCHEMES)}"
        if why:
            raise ConfigurationError(
                "{name} is no address of a proxy ({why}): correct it, or unset it.", name=name, why=why
            )


_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


@contextmanager
def _named_settings(environ: Mapping[str, str]) -> "Iterator[None]":
    """Name the variable behind what the HTTP client cannot be built with."""
    try:
        yield
    except ImportError as error:
        if "socks" not in str(error).lower():
            raise
        raise ConfigurationError(
            "{name} names a SOCKS proxy, which needs a package: pip install socksio, or unset {name}.",
            name=next(iter(_set_in(environ, _PROXIES, "socks")), "A proxy variable"),
        ) from error
    except OSError as error:
        if not (names := _set_in(environ, _CERTIFICATES)):
            raise
        raise ConfigurationError(
            "{name} is {text!r}, which cannot be read as certificates ({why}): correct it, or unset it.",
            name=names[0],
            text=environ[names[0]],
            why=error.strerror or str(error),
        ) from error


def _set_in(environ: Mapping[str, str], names: Sequence[str], begins: str = "") -> list[str]:
    """Those of the variables that are set, in either case, to what begins so."""
    either = [form for name in names for form in (name, name.lower())]
    return [name for name in either if environ.get(name) and environ[name].lower().startswith(begins)]


def _openai(agent: Agent, name: str, environ: Mapping[str, str], habits: Habits | None) -> Model:
    base_url = _checked_url(agent, environ)
    _check_proxies(environ)
    with _named_settings(environ):
        return _openai_at(base_url, agent, name, environ, habits)


def _openai_at(
    base_url: str | None, agent: Agent, name: str, environ: Mapping[str, str], habits: Habits | None
) -> Model:
    from langchain_openai import ChatOpenAI
    from openai import DefaultAsyncHttpxClient
    from pydantic import SecretStr

    from .openai.model import OpenAIModel

    key = agent.api_key or (SecretStr(environ["OPENAI_API_KEY"]) if environ.get("OPENAI_API_KEY") else None)
    if key is None and base_url is None:
        raise MissingKey(f"openai:{name}")
    chat = ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=key or SecretStr("none"),
        temperature=agent.temperature,
        extra_body=_extra_body(agent, "max_tokens" if base_url else "max_completion_tokens"),
        stream_usage=True,
        use_responses_api=False,
        max_retries=0,
        http_async_client=DefaultAsyncHttpxClient(),
    )
    return OpenAIModel(chat, f"openai:{name}", plain_client=True, **_ways(agent, habits))


def _extra_body(agent: Agent, limit: str) -> dict[str, Any]:
    """What the agent adds to each request's body; `limit` is the endpoint's name for the most tokens of a reply."""
    own = {limit: agent.max_tokens, "reasoning_effort": agent.reasoning_effort}
    return {**{name: value for name, value in own.items() if value is not None}, **agent.extra_body}


def _ways(agent: Agent, habits: Habits | None) -> dict[str, Any]:
    """How an agent's endpoint is asked."""
    from .openai.faults import RetryPolicy

    reply_timeout = max(agent.read_timeout, RetryPolicy.reply_timeout)
    policy = RetryPolicy(read_timeout=agent.read_timeout, reply_timeout=reply_timeout)
    return {"streaming": agent.streaming, "policy": policy, "habits": habits, "given": agent.set_habits}
