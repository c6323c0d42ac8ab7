"""Storage in SQLite or PostgreSQL: checkpoints, events, tool calls, leases and tasks."""
