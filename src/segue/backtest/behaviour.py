"""What an agent did in a turn, as it was recorded or as it is now, and the form in which calls are compared."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..core.records import Json
from ..core.tools import RECALL, Tool, has_effect
from ..nodes.shared.approval import all_arguments
from ..rehearsal.report.outcome import canonical
from .recording import RecordedTurn

Answered = Literal["recording", "live", "stand_in", "missing", "refused", "nothing"]
"""What answered a call: the recording, its tool, a stand-in; its tool is missing, or refused the arguments."""
RAN: Sequence[Answered] = ("recording", "live", "stand_in", "nothing")


@dataclass(frozen=True, kw_only=True)
class MadeCall:
    """A call; `key` is equal for calls that mean the same, and `whole` are its arguments with defaults."""

    name: str
    arguments: Json
    whole: Json
    key: str
    effect: bool
    answered: Answered = "recording"
    stand_in: Any = None
    """The result of a stand-in."""

    def text(self, beside: "MadeCall | None" = None) -> str:
        """The call on one line; with defaults where it is the same as another one but for them."""
        return f"{self.name}({json.dumps(self.given(beside), ensure_ascii=False)})"

    def given(self, beside: "MadeCall | None" = None) -> Json:
        """The arguments; with defaults where they are the same as another call's but for them."""
        return self.whole if beside and beside.arguments == self.arguments else self.arguments

    def json(self) -> Json:
        """{"name", "arguments"}."""
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What came of a turn. `status` is done, error, waiting, or stopped at a call that nothing could answer."""

    status: str
    answer: str = ""
    error: str = ""
    question: str = ""
    """What it waits with."""
    calls: Sequence[MadeCall] = ()
    usage: Mapping[str, Any]
    """{"input", "output", "calls", "cost"}."""
    seconds: float = 0.0

    @property
    def ran(self) -> list[MadeCall]:
        """The calls that reached a tool, or would have."""
        return [call for call in self.calls if call.answered in RAN]


def key_of(name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> str:
    """The same text for calls that mean the same: keys in order, defaults filled in, 3.0 as 3."""
    return f"{name}({canonical(_whole(arguments, tools.get(name)))})"


def _whole(arguments: Mapping[str, Any], tool: Tool | None) -> Json:
    return all_arguments(arguments, tool) if tool else dict(arguments)


def call_of(
    name: str,
    arguments: Mapping[str, Any],
    tools: Mapping[str, Tool],
    answered: Answered,
    effects: Collection[str] | None = None,
) -> MadeCall:
    """A call as it is compared; one of an unknown tool has effects, and one of a tool that had `effects` then."""
    tool = tools.get(name)
    key, whole = key_of(name, arguments, tools), _whole(arguments, tool)
    return MadeCall(
        name=name,
        arguments=dict(arguments),
        whole=whole,
        key=key,
        effect=name in (effects or ()) or has_effect(name, tool),
        answered=answered,
    )


def recorded_behaviour(recorded: RecordedTurn, tools: Mapping[str, Tool]) -> Behaviour:
    """What was recorded; `tools` are those that the agent has now."""
    turn = recorded.turn
    return Behaviour(
        status=turn.status,
        answer=turn.answer,
        error=turn.error or turn.failure,
        calls=[
            call_of(call.name, call.arguments, tools, "recording", recorded.effects)
            for call in turn.tool_calls
            if call.name != RECALL
        ],
        usage=recorded.usage,
        seconds=recorded.seconds,
    )
