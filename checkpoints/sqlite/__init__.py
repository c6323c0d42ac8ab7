"""SQLite storage: saver, tasks, ledger, event log, leases and preferences."""
