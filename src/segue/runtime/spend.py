"""Limits of what an app's model calls may use: room for each call, higher limits, and what is used of them."""

import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from ..checkpoints.saver import FencedSaver
from ..checkpoints.spend import ScopeUse, Spend
from ..core.agents import Agent
from ..core.errors import InvalidAnswer
from ..core.models import Model, ModelReply, ModelRequest
from ..core.records import RequestKey, Task
from ..core.spend import (
    KINDS,
    TOKENS,
    USD,
    EstimatedUsage,
    LimitedScope,
    Limits,
    LimitUse,
    PlannedCall,
    Raised,
    Reached,
    ScopeKind,
    SpendLimits,
    dollars,
    limited_scopes,
    most_tokens,
    nano,
    public,
    reply_tokens,
)
from ..core.task import TENANT_NAME

_TENANT: Final = re.compile(rf"({TENANT_NAME}):")
_KEYS: Final = ("SEGUE_API_KEY", "SEGUE_API_KEY_SHA256")
MOST_SHOWN = 5
"""Sessions, tasks, users and agents that are named with what they used of a limit."""


class SpendControl:
    """The limits of an app, over what the calls of its database used."""

    def __init__(
        self, table: Spend, limits: SpendLimits | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        environ = os.environ if environ is None else environ
        self._table = table
        self._limits = limits or SpendLimits()
        by_tenant = self._limits.by_tenant
        has_tenants = bool(self._limits.tenants) or any(environ.get(name) for name in _KEYS)
        self._by_tenant = has_tenants if by_tenant is None else by_tenant
        self._tenant = self._batch = ""

    def counting_in(self, table: Spend, tenant: str, batch: str) -> "SpendControl":
        """The limits over what is used of another database, for the sessions of a batch of its tenant's.

        Other processes count there, too. Usage stays an estimate there, as the tasks are stored elsewhere.
        """
        control = copy(self)
        control._table, control._tenant, control._batch = table, tenant, batch
        return control

    def of(
        self, thread_id: str, user_id: str, saver: FencedSaver | None = None, within: Task | None = None
    ) -> "RunSpending | None":
        """The limits of a thread's calls; None where there are none. The `saver` stores the steps of those of a run.

        They count in the task that they are `within`, and in its session.
        """
        if self._limits.is_empty:
            return None
        if self._batch:
            thread_id, user_id, saver = self._counted(thread_id), f"{self._tenant}{user_id}", None
        return RunSpending(self._table, self._limits, self.tenant_of(thread_id), thread_id, user_id, saver, within)

    def _counted(self, thread_id: str) -> str:
        """The name under which a thread's calls are counted."""
        return f"{self._tenant}{self._batch}.{thread_id}" if self._batch else thread_id

    def tenant_of(self, thread_id: str) -> str:
        """The tenant that a thread belongs to, or whose prefix it is; empty where all count together."""
        found = _TENANT.match(thread_id) if self._by_tenant else None
        return found[1] if found else ""

    async def check(self, agent: Agent, model: Model, thread_id: str) -> None:
        """Make sure that a task's calls can be counted."""
        if self._limits.of_tenant(self.tenant_of(self._counted(thread_id))).in_dollars and model.is_language_model:
            await dollars(agent, model, {"input": 1, "output": 1})

    async def raise_limit(
        self, raised: Raised, remote: bool, task: Task | None = None, key: RequestKey | None = None
    ) -> None:
        """Store a person's limit for the calls of a scope, and that the key stands for the task that asked."""
        if remote and not self._limits.raise_over_http:
            raise InvalidAnswer("Only the operators of this service can raise the limit: ask them, or cancel the task.")
        await self._table.raise_limit(raised, task, key)

    @property
    def is_empty(self) -> bool:
        """Whether there are no limits."""
        return self._limits.is_empty

    async def is_raised(self, question: Mapping[str, Any], thread_id: str) -> bool:
        """Whether the limit that a task asks about was raised since it asked, by a person or by the configuration."""
        limits = self._limits.of_tenant(self.tenant_of(self._counted(thread_id)))
        configured = getattr(limits, question["limit_name"], None)
        if configured is None or configured > question["limit"]:
            return True
        use = await self._table.use(question["scope"])
        asked = Raised(question["scope"], question["unit"], question["limit"]).allowed
        if use is None:
            return False
        raised, limit = (use.raised_tokens, asked.tokens) if asked.cost is None else (use.raised_cost, asked.cost)
        return raised is not None and limit is not None and raised > limit

    async def estimates(self, since: float, agent_id: str | None, prefix: str) -> Sequence[EstimatedUsage]:
        """The calls since a moment whose use is estimated; none where there are no limits."""
        return [] if self._limits.is_empty else await self._table.estimates(since, agent_id, prefix)

    async def uses(self, prefix: str, now: float) -> list[LimitUse]:
        """What is used of each limit, today where it is one of a day, by those who used the most of it."""
        tenant, found = self.tenant_of(prefix), list[LimitUse]()
        limits = self._limits.of_tenant(tenant)
        for kind in KINDS:
            if limits.of(kind):
                day = self._limits.day(now) if KINDS[kind].endswith("day") else ""
                for use in await self._table.largest(kind, tenant, day, MOST_SHOWN):
                    found += _uses(kind, use, limits)
        return found


def _uses(kind: ScopeKind, use: ScopeUse, limits: Limits) -> Iterable[LimitUse]:
    allowed, about = use.allowed(limits.of(kind)), {"name": use.name, "day": use.day}
    if allowed.cost is not None:
        yield LimitUse(limit_name=KINDS[kind], unit=USD, limit=public(allowed.cost), used=public(use.cost), **about)
    if allowed.tokens is not None:
        name = f"{KINDS[kind]}_tokens"
        yield LimitUse(limit_name=name, unit=TOKENS, limit=allowed.tokens, used=use.tokens, **about)


@dataclass(frozen=True)
class RunSpending:
    """The limits of the calls of one thread's run, whose steps the `saver` stores; None: of calls after it."""

    table: Spend
    limits: SpendLimits
    tenant: str
    thread_id: str
    user_id: str
    saver: FencedSaver | None = None
    within: Task | None = None
    """The task that called the agents down to this one."""

    async def reserve(
        self, task_id: str, agent: Agent, model: Model, request: ModelRequest, now: float
    ) -> "Room | Reached":
        limits = self.limits.of_tenant(self.tenant)
        session_id = self.within.session_id if self.within else self.thread_id
        names: dict[ScopeKind, str] = {
            "task": self.within.task_id if self.within else task_id,
            "session": session_id,
            "user": self.user_id,
            "agent": agent.agent_id,
        }
        scopes = [*limited_scopes(limits, self.tenant, self.limits.day(now), names, session_id)]
        most = most_tokens(agent, request)
        call = PlannedCall(
            call_id=str(uuid.uuid4()),
            thread_id=self.thread_id,
            task_id=task_id,
            user_id=self.user_id,
            agent_id=agent.agent_id,
            model=model.name,
            created_at=now,
            tokens=sum(most.values()),
            cost=nano(await dollars(agent, model, most)) if limits.in_dollars else 0,
        )
        room = Room(self.table, call, scopes, agent, model, most["input"], limits.in_dollars, self.saver)
        return await self.table.reserve(call, scopes) or room


@dataclass(frozen=True)
class Room:
    """The room that is kept for a call; `prompt` are the estimated tokens of its prompt."""

    table: Spend
    call: PlannedCall
    scopes: Sequence[LimitedScope]
    agent: Agent
    model: Model
    prompt: int
    in_dollars: bool
    saver: FencedSaver | None

    async def settle(self, reply: ModelReply, thoughts: Iterable[str] = ()) -> None:
        counted = bool(reply.usage)
        used = {name: reply.usage.get(name, 0) for name in ("input", "output")}
        if not counted:
            used = {"input": self.prompt, "output": reply_tokens(reply, thoughts)}
        cost = nano(await self._dollars(used, reply)) if self.in_dollars else 0
        saver = self.saver if counted else None
        failed = saver.count_call(self.call.thread_id, self.call.call_id) if saver else None
        self.table.settle(self.call, self.scopes, sum(used.values()), cost, failed)

    def release(self) -> None:
        self.table.release(self.call, self.scopes)

    async def _dollars(self, used: Mapping[str, int], reply: ModelReply) -> float:
        """What the agent's prices say, else what the model counted, as in the task's usage."""
        if self.agent.prices is None and reply.cost is not None:
            return reply.cost
        return await dollars(self.agent, self.model, used)
