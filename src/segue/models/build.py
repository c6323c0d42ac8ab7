"""Models, built from what an agent names."""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

from ..core.agents import Agent
from ..core.environment import whole_number
from ..core.errors import ConfigurationError, MissingKey, UnknownModel
from ..core.models import OFFLINE, Model
from .habits import Habits
from .openai.transport import REPLY_SECONDS, RetryPolicy

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
    """Build the agent's model; `habits` are what is known of endpoints.

    Raises:
        UnknownModel: the name has no known prefix.
        MissingKey: the endpoint needs a key and none is set.
        MissingExtra, ConfigurationError: a model file cannot be run, or does not exist.
    """
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
    """The kind of model that a name means, and the rest of the name.

    Raises:
        UnknownModel: the name has no known prefix.
    """
    kind, _, name = choice.partition(":")
    if choice != OFFLINE and (kind not in ("openai", "local") or not name):
        raise UnknownModel(choice)
    return kind, name


def accepted_kinds(agent: Agent, override: str, environ: Mapping[str, str]) -> frozenset[str]:
    """The kinds of files that a model reads beside text: as the agent or the environment says, else as is known of it.

    Raises:
        ConfigurationError: SEGUE_ACCEPTS names another kind.
    """
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
    return ChatObject(choice, streaming=agent.streaming)


def _speaks_chat_completions(choice: Any) -> "TypeGuard[BaseChatOpenAI]":
    """Whether a chat model is LangChain's OpenAI client or made from it, and not set to use the Responses API."""
    if not any(kind.__module__.startswith("langchain_openai.") for kind in type(choice).__mro__):
        return False
    from langchain_openai.chat_models.base import BaseChatOpenAI

    return isinstance(choice, BaseChatOpenAI) and not choice.use_responses_api


def _openai(agent: Agent, name: str, environ: Mapping[str, str], habits: Habits | None) -> Model:
    from langchain_openai import ChatOpenAI
    from openai import DefaultAsyncHttpxClient
    from pydantic import SecretStr

    from .openai.model import OpenAIModel

    base_url = agent.base_url or environ.get("OPENAI_BASE_URL")
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
    return OpenAIModel(chat, f"openai:{name}", **_ways(agent, habits))


def _extra_body(agent: Agent, limit: str) -> dict[str, Any]:
    """What the agent adds to each request's body; `limit` is the endpoint's name for the most tokens of a reply."""
    own = {limit: agent.max_tokens, "reasoning_effort": agent.reasoning_effort}
    return {**{name: value for name, value in own.items() if value is not None}, **agent.extra_body}


def _ways(agent: Agent, habits: Habits | None) -> dict[str, Any]:
    """How an agent's endpoint is asked."""
    policy = _retry_policy(agent)
    return {"streaming": agent.streaming, "policy": policy, "habits": habits, "given": agent.habits}


def _retry_policy(agent: Agent) -> RetryPolicy:
    return RetryPolicy(read_timeout=agent.read_timeout, reply_timeout=max(agent.read_timeout, REPLY_SECONDS))
