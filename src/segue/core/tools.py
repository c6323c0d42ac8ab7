"""Tools as the graphs see them, and the ledger of their calls."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .approval import ApprovalTerms
from .provenance import Hiding, Policy, SourceKind
from .records import Call


class Tool(Protocol):
    """A tool as the graphs see it."""

    @property
    def name(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def idempotent(self) -> bool: ...

    @property
    def needs_approval(self) -> bool: ...

    @property
    def approve(self) -> Policy: ...

    @property
    def terms(self) -> ApprovalTerms: ...

    @property
    def trusted(self) -> bool: ...

    @property
    def content(self) -> Collection[str]: ...

    @property
    def secret(self) -> bool: ...

    @property
    def hidden(self) -> Hiding: ...

    @property
    def source_kind(self) -> SourceKind: ...

    @property
    def foreign_text(self) -> str:
        """The name, description and schema as one text, where others write them and nobody trusts them; else empty."""
        ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def spec(self) -> Mapping[str, Any]: ...

    async def call(self, arguments: Mapping[str, Any]) -> Any: ...


RECALL = "recall"
"""The tool that rounds of ReAct offer beside an agent's own; it only reads."""


def has_effect(name: str, tool: Tool | None) -> bool:
    """Whether a call may change something; one of an unknown tool may."""
    return name != RECALL if tool is None else not tool.read_only


def is_repeatable(tool: Tool | None) -> bool:
    """Whether a call of the tool that was interrupted does no harm: it changes nothing, or may simply run again."""
    return tool is not None and (tool.read_only or tool.idempotent)


@dataclass(frozen=True)
class CallKey:
    """What identifies one tool call for ever: fixed in the state before the call runs.

    `scope` is the recursion's trace_id, or step_id#attempt; `index` the call's place in it.
    """

    task_id: str
    scope: str
    index: int


@dataclass(frozen=True)
class Claim:
    """The ledger's answer to an intent.

    `fresh`: run it. `finished`: it ran, with `outcome`. `interrupted`: it was under way when its process ended.
    `doubtful`: it never ran, but one like it, of the same task, may or may not have taken effect.
    `moved`: the interrupted call was made from another place, so its idempotency key was another one.
    """

    state: Literal["fresh", "finished", "interrupted", "doubtful"]
    outcome: Mapping[str, Any] | None = None
    moved: bool = False


class Ledger(Protocol):
    """Remembers every tool call, so that none is run twice."""

    async def read(self, key: CallKey) -> Mapping[str, Any] | None: ...

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim: ...

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None: ...

    async def withdraw(self, key: CallKey) -> None:
        """Take a claim back: the call asks a person something, and is made again with the answer."""
        ...

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]: ...

    async def finished(self) -> Sequence[Call]: ...
