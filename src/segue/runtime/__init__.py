"""Execution of tasks, between the app and the graphs.

- Start and control: `start`, `control`, `message_files`
- Run: `runner`, `run`, `modes`, `spend`, `called_agents`
- Graphs of LangGraph without the app: `graph_calls`, `graph_answers`, `ledger_middleware`
- Graphs of LangGraph for its server API: `graph_runs`, `graph_events`, `graph_store`
- Later: `schedules`
- Notifications: `notifications`, `senders`
- Several processes: `worker`, `relay`
- Read: `tasks`, `reply`
- Sessions: `sessions`, `rewind`, `history`
- Answers of persons: `questions`
- The audit log: `audit_log`
"""
