"""The two ways in which a model says what to do; both give one `Decision`."""

from collections.abc import Callable
from dataclasses import dataclass

from segue.core.decision import Decision
from segue.core.models import ModelReply, ModelRequest

from ..shared.context import NodeContext
from ..shared.live_reply import Listener, LiveCalls, LiveEnvelope, LiveReply
from . import json_protocol, native_protocol
from .state import ReactState


@dataclass(frozen=True)
class DecisionProtocol:
    """How a round's prompt is made, its reply streamed and read."""

    request: Callable[[ReactState, NodeContext], ModelRequest]
    listen: Callable[[LiveReply], Listener]
    read: Callable[[ModelReply, ReactState, NodeContext], Decision]


_JSON = DecisionProtocol(json_protocol.request, LiveEnvelope, json_protocol.read)
_NATIVE = DecisionProtocol(native_protocol.request, LiveCalls, native_protocol.read)


def protocol_of(work: NodeContext) -> DecisionProtocol:
    """The agent's protocol."""
    return _NATIVE if work.agent.protocol == "native" else _JSON
