"""From an agent's model name to a model that can be called."""

from collections.abc import Mapping
from typing import Any

from ..agents import Agent
from ..errors import MissingKey, UnknownModel
from ..services import Model

DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"


def chosen_model(agent: Agent, override: str, environ: Mapping[str, str]) -> Any:
    """What stands for the agent's model: the override, the agent's own, the environment's, or `offline`."""
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
        UnknownModel: the name is of no known kind.
        MissingKey: an endpoint needs one and none is set.
    """
    choice = chosen_model(agent, override, environ)
    if not isinstance(choice, str):
        return _of_object(choice)
    if choice == "offline":
        from .chat_object import Offline
        from .offline import OfflinePlanner

        return Offline(OfflinePlanner(), "offline")
    kind, _, name = choice.partition(":")
    if kind != "openai" or not name:
        raise UnknownModel(choice)
    return _openai(agent, name, environ)


def _of_object(choice: Any) -> Model:
    from langchain_core.language_models import BaseChatModel

    from .chat_object import ChatObject

    if not isinstance(choice, BaseChatModel):
        raise UnknownModel(repr(choice))
    if type(choice).__module__.startswith("langchain_openai"):
        from .openai import OpenAIModel

        return OpenAIModel(choice, choice.model_name)  # type: ignore[attr-defined, arg-type]
    return ChatObject(choice)


def _openai(agent: Agent, name: str, environ: Mapping[str, str]) -> Model:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    from .openai import OpenAIModel

    base_url = agent.base_url or environ.get("OPENAI_BASE_URL")
    key = agent.api_key or (SecretStr(environ["OPENAI_API_KEY"]) if environ.get("OPENAI_API_KEY") else None)
    if key is None and base_url is None:
        raise MissingKey(f"openai:{name}")
    chat = ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=key or SecretStr("none"),
        temperature=agent.temperature,
        stream_usage=True,
        max_retries=2,
        timeout=120,
    )
    return OpenAIModel(chat, f"openai:{name}")
