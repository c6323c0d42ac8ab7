"""Execution of tasks, between the app and the graphs.

- Start and control: `start`, `control`, `upgrades`, `message_files`, `modes`
- Run: `runner`, `run`, `capacity`, `lease_holder`, `spend`
- Later: `schedules`, `waits`, `due`
- Notifications: `notifications`, `senders`, `public_transport`
- Several processes: `worker`, `relay`
- Read: `tasks`, `projection`, `event_stream`, `reply_stream`
- Sessions: `sessions`, `said`, `rewind`, `effects`, `history`
- Answers of persons: `questions`, `decisions`
- The audit log: `audit_log`
"""
