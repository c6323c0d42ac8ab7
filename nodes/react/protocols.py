"""The two ways in which a model says what to do; both give one `Decision`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from segue.core.decision import Decision
from segue.core.ports import ModelReply, ModelRequest

from ..shared.context import NodeContext
from ..shared.model_call import Listener, LiveEnvelope, LiveText
from . import json_protocol, native_protocol
from .state import ReactState


@dataclass(frozen=True)
class DecisionProtocol:
    """How a round's prompt is made, its reply streamed and read."""

    request: Callable[[ReactState, NodeContext], ModelRequest]
    listen: Callable[[NodeContext, Mapping[str, Any]], Listener]
    read: Callable[[ModelReply, ReactState, NodeContext], Decision]


_JSON = DecisionProtocol(json_protocol.request, LiveEnvelope, json_protocol.read)
_NATIVE = DecisionProtocol(native_protocol.request, LiveText, native_protocol.read)


def protocol_of(work: NodeContext) -> DecisionProtocol:
    """The agent's protocol."""
    return _NATIVE if work.agent.protocol == "native" else _JSON
