"""Models, built from what an agent names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from ..core.agents import Agent
from ..core.errors import MissingKey, UnknownModel
from ..core.models import Model
from .openai.retry import REPLY_SECONDS, RetryPolicy

if TYPE_CHECKING:
    from langchain_openai.chat_models.base import BaseChatOpenAI

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
    return "offline"


def build_model(agent: Agent, override: str, environ: Mapping[str, str]) -> Model:
    """Build the agent's model.

    Raises:
        UnknownModel: the name has no known prefix.
        MissingKey: the endpoint needs a key and none is set.
        MissingExtra, ConfigurationError: a model file cannot be run, or does not exist.
    """
    choice = chosen_model(agent, override, environ)
    if not isinstance(choice, str):
        return _of_object(choice, agent)
    if choice == "offline":
        from .offline import OfflinePlanner

        return OfflinePlanner()
    kind, _, name = choice.partition(":")
    if kind == "local" and name:
        from .local.model import local_model

        return local_model(agent, name)
    if kind != "openai" or not name:
        raise UnknownModel(choice)
    return _openai(agent, name, environ)


def _of_object(choice: Any, agent: Agent) -> Model:
    from langchain_core.language_models import BaseChatModel

    from .chat_object import ChatObject

    if not isinstance(choice, BaseChatModel):
        raise UnknownModel(repr(choice))
    if _speaks_chat_completions(choice):
        from .openai.model import OpenAIModel

        return OpenAIModel(choice, choice.model_name, streaming=agent.streaming, policy=_retry_policy(agent))
    return ChatObject(choice, streaming=agent.streaming)


def _speaks_chat_completions(choice: Any) -> "TypeGuard[BaseChatOpenAI]":
    """Whether a chat model is LangChain's OpenAI client or made from it, and not set to use the Responses API."""
    if not any(kind.__module__.startswith("langchain_openai.") for kind in type(choice).__mro__):
        return False
    from langchain_openai.chat_models.base import BaseChatOpenAI

    return isinstance(choice, BaseChatOpenAI) and not choice.use_responses_api


def _openai(agent: Agent, name: str, environ: Mapping[str, str]) -> Model:
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
    return OpenAIModel(chat, f"openai:{name}", streaming=agent.streaming, policy=_retry_policy(agent))


def _extra_body(agent: Agent, limit: str) -> dict[str, Any]:
    """What the agent adds to each request's body; `limit` is the endpoint's name for the most tokens of a reply."""
    own = {limit: agent.max_tokens, "reasoning_effort": agent.reasoning_effort}
    return {**{name: value for name, value in own.items() if value is not None}, **agent.extra_body}


def _retry_policy(agent: Agent) -> RetryPolicy:
    return RetryPolicy(read_timeout=agent.read_timeout, reply_timeout=max(agent.read_timeout, REPLY_SECONDS))
