"""Numbers of settings that are beyond what can be stored or waited for."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from segue.core.agents import Agent, Budget, McpServer
from segue.core.conversation import ConversationConfig, config_of
from segue.core.errors import ConfigurationError
from segue.core.flows import FlowConfig
from segue.core.schedules import ApprovalSettings
from segue.core.spend import Quotas
from tests.cases import cases

HUGE = 10**30


@cases("model", [Agent, Budget, McpServer, ConversationConfig, ApprovalSettings, FlowConfig, Quotas])
def test_every_number_of_a_settings_model_has_an_upper_bound(model: type[BaseModel]) -> None:
    numbers = [name for name, field in model.model_fields.items() if is_bounded(name, field.annotation)]
    assert numbers
    for name in numbers:
        with pytest.raises(ValidationError) as refused:
            model.model_validate({name: HUGE})
        assert any(error["loc"][0] == name and "less_than" in error["type"] for error in refused.value.errors()), name


def is_bounded(name: str, annotation: Any) -> bool:
    """Whether it counts something, or is a time."""
    kinds = str(annotation).replace("<class 'int'>", "int").split(" | ")
    return "int" in kinds or name in ("seconds", "tool_seconds", "timeout", "read_timeout", "api_timeout")


@cases("name", ["session_length", "conversation_turn_limit", "bot_action_limit", "seed"])
def test_a_number_of_a_conversation_that_cannot_be_stored_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: Input should be less than or equal to"):
        config_of({name: HUGE})
