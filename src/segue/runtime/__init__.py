"""Execution of tasks: runner, leases, control, queries, the event stream, sessions and recovery."""
