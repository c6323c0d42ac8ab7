"""What model calls use of limits: a total for each scope, the limits that persons raised, and estimated calls."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from segue.core.audit import Act
from segue.core.records import Count, Record, RequestKey, Task, from_row, names_of, readable
from segue.core.spend import TOKENS, USD, Allowed, EstimatedUsage, LimitedScope, PlannedCall, Raised, Reached, public

from .audit import record
from .ports import Connection, Database, Failed, insert_into
from .tasks import add_key

LOCK = "segue.spend"
"""What a transaction locks that counts calls: of several processes, one at a time."""

_COLUMNS = "kind, name, tenant, day, thread_id, tokens, cost, raised_tokens, raised_cost"
_USE = f"SELECT {_COLUMNS} FROM spend WHERE scope = ?"
_BEGIN = f"""
    INSERT INTO spend (scope, kind, name, tenant, day, thread_id, tokens, cost)
    VALUES (:scope, :kind, :name, :tenant, :day, :thread_id, 0, 0) RETURNING {_COLUMNS}
"""
_ADD = "UPDATE spend SET tokens = tokens + :tokens, cost = cost + :cost WHERE scope = :scope"
_CALL = insert_into("spend_calls", names_of(PlannedCall))
_COUNTED = "DELETE FROM spend_calls WHERE call_id = ?"
_USED = "UPDATE spend_calls SET tokens = :tokens, cost = :cost WHERE call_id = :call_id"
_RAISE = """
    UPDATE spend SET
        raised_tokens = CASE WHEN CAST(:tokens AS BIGINT) > coalesce(raised_tokens, 0) THEN CAST(:tokens AS BIGINT)
            ELSE raised_tokens END,
        raised_cost = CASE WHEN CAST(:cost AS BIGINT) > coalesce(raised_cost, 0) THEN CAST(:cost AS BIGINT)
            ELSE raised_cost END
    WHERE scope = :scope AND (
        CAST(:tokens AS BIGINT) > coalesce(raised_tokens, 0) OR CAST(:cost AS BIGINT) > coalesce(raised_cost, 0)
    ) RETURNING kind, name, day, thread_id
"""
_LARGEST = f"""
    SELECT {_COLUMNS} FROM spend WHERE kind = :kind AND tenant = :tenant AND day = :day
    ORDER BY cost DESC, tokens DESC, name LIMIT :most
"""
_ESTIMATES = """
    SELECT * FROM spend_calls
    WHERE created_at >= :since AND (CAST(:agent_id AS TEXT) IS NULL OR agent_id = :agent_id)
        AND (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
"""


@dataclass(frozen=True, kw_only=True)
class Use(Record):
    """How much is used of a scope, and the limits that a person raised, None where nobody did."""

    row_name = "use of a limit"
    is_recoverable = False

    tokens: Count
    cost: Count
    raised_tokens: Count | None
    raised_cost: Count | None

    def allowed(self, configured: Allowed) -> Allowed:
        """The limits in force: those of the configuration, or what a person raised them to."""
        return Allowed(_higher(configured.cost, self.raised_cost), _higher(configured.tokens, self.raised_tokens))


@dataclass(frozen=True, kw_only=True)
class ScopeUse(Use):
    """What is used of which scope."""

    row_name = "use of the limit of {kind} '{name}'"

    kind: str
    name: str
    tenant: str
    day: str
    thread_id: str


@dataclass(frozen=True, kw_only=True)
class StoredCall(EstimatedUsage):
    """A call whose use is estimated, as it is stored."""

    call_id: str
    thread_id: str
    task_id: str


def _higher(configured: int | None, raised: int | None) -> int | None:
    return None if configured is None else max(configured, raised or 0)


class Spend:
    """What calls use of the limits of a database."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def reserve(self, call: PlannedCall, scopes: Sequence[LimitedScope]) -> Reached | None:
        """Keep room for a call in each of its scopes, or return the first limit that leaves none.

        One transaction looks and reserves, and others wait for it: calls that are made at once share the room.
        """

        def reserve(connection: Connection) -> Reached | None:
            connection.lock(LOCK)
            for limited in scopes:
                if reached := _reached(connection, limited, call):
                    return reached
            _add(connection, scopes, call.tokens, call.cost)
            connection.execute(_CALL, asdict(call))
            return None

        return await self._database.write(reserve, brief=True)

    def settle(
        self, call: PlannedCall, scopes: Sequence[LimitedScope], tokens: int, cost: int, failed: Failed | None = None
    ) -> None:
        """Count what a call used in place of what was reserved, together with the next transaction of this process.

        Its use is an estimate until `count_calls` stores that a task's own usage has it.
        """

        def settle(connection: Connection) -> None:
            connection.lock(LOCK)
            _add(connection, scopes, tokens - call.tokens, cost - call.cost)
            connection.execute(_USED, {"call_id": call.call_id, "tokens": tokens, "cost": cost})

        self._database.submit(settle, failed=failed, deferred=True).add_done_callback(_retrieve_error)

    def release(self, call: PlannedCall, scopes: Sequence[LimitedScope]) -> None:
        """Count nothing of what was reserved, together with the next transaction of this process."""

        def release(connection: Connection) -> None:
            connection.lock(LOCK)
            _add(connection, scopes, -call.tokens, -call.cost)
            count_calls(connection, [call.call_id])

        self._database.submit(release, deferred=True).add_done_callback(_retrieve_error)

    async def raise_limit(self, raised: Raised, task: Task | None = None, key: RequestKey | None = None) -> None:
        """Store a person's limit for a scope, unless a higher one is stored, and that the key stands for its task."""
        values = {"scope": raised.scope, **asdict(raised.allowed)}
        act = Act("raised_limit", {"limit": raised.limit, "unit": raised.unit})

        def store(connection: Connection) -> None:
            if task:
                add_key(connection, key, task.session_id, task.task_id)
            for kind, name, day, thread_id in connection.fetched(_RAISE, values):
                of = {"kind": kind, "name": name, "day": day}
                of_limit = replace(act, details={**act.details, **of})
                record(connection, of_limit, thread_id, kept={"spend": raised.scope})

        await self._database.write(store, synced=True)

    async def use(self, scope: str) -> ScopeUse | None:
        """Return what is used of a scope; None where nothing was yet."""
        rows = await self._database.read(lambda connection: connection.fetched(_USE, (scope,)))
        return from_row(ScopeUse, rows[0]) if rows else None

    async def largest(self, kind: str, tenant: str, day: str, most: int) -> list[ScopeUse]:
        """Return the scopes of a kind that are used most, without those that cannot be read."""
        values = {"kind": kind, "tenant": tenant, "day": day, "most": most}
        rows = await self._database.read(lambda connection: connection.fetched(_LARGEST, values))
        return readable(ScopeUse, rows)

    async def estimates(self, since: float, agent_id: str | None, prefix: str) -> list[EstimatedUsage]:
        """Return the calls since a moment whose use is estimated: interrupted ones, and those that nobody counted.

        Those that cannot be read are left out.
        """
        values = {"since": since, "agent_id": agent_id, "prefix": prefix}
        rows = await self._database.read(lambda connection: connection.fetched(_ESTIMATES, values))
        return readable(EstimatedUsage, rows)


def _reached(connection: Connection, limited: LimitedScope, call: PlannedCall) -> Reached | None:
    """The limit of a scope that leaves no room for a call; its row is there from now on, for a person to raise it."""
    scope = limited.scope
    rows = connection.fetched(_USE, (scope.key,))
    if not rows:
        about = {**asdict(scope), "scope": scope.key, "thread_id": limited.thread_id}
        rows = [connection.execute(_BEGIN, about).fetchone()]
    use = from_row(Use, rows[0])  # a call needs no more of it
    allowed = use.allowed(limited.allowed)
    if allowed.cost is not None and use.cost + call.cost > allowed.cost:
        limit, used, needs = map(public, (allowed.cost, use.cost, call.cost))
        return Reached(scope=scope, unit=USD, limit=limit, used=used, needs=needs)
    if allowed.tokens is not None and use.tokens + call.tokens > allowed.tokens:
        return Reached(scope=scope, unit=TOKENS, limit=allowed.tokens, used=use.tokens, needs=call.tokens)
    return None


def _add(connection: Connection, scopes: Sequence[LimitedScope], tokens: int, cost: int) -> None:
    for limited in scopes:
        connection.execute(_ADD, {"scope": limited.scope.key, "tokens": tokens, "cost": cost})


def count_calls(connection: Connection, call_ids: Sequence[str]) -> None:
    """Keep no estimate of calls: the same transaction stores what they used, or they used nothing."""
    for call_id in call_ids:
        connection.execute(_COUNTED, (call_id,))


def _retrieve_error(settled: "asyncio.Future[None]") -> None:
    """Keep asyncio from warning: without its settlement a call counts what was reserved, which is safe."""
    if not settled.cancelled():
        settled.exception()
