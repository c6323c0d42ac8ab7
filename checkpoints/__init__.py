"""What is kept in SQLite: checkpoints, events, tool calls, leases and tasks."""
