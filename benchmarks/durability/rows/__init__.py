"""The rows of the table, one module each: a history, and the judge of what happened outside the process."""

from benchmarks.durability.bench import Row
from benchmarks.durability.rows import approvals, deaths, faults, growth, messages, sessions, streams, stuck

ROWS: tuple[Row, ...] = tuple(
    module.ROW for module in (deaths, approvals, faults, messages, stuck, streams, growth, sessions)
)
