"""Execution of tasks, between the app and the graphs.

- Start and control: `start`, `control`, `message_files`
- Run: `runner`, `run`, `mode_types`, `spend`
- Later: `schedules`
- Notifications: `notifications`, `senders`
- Several processes: `worker`, `relay`
- Read: `tasks`, `reply`
- Sessions: `sessions`, `rewind`, `history`
- Answers of persons: `questions`
- The audit log: `audit_log`
"""
