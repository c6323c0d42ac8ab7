"""Execution of tasks, between the app and the graphs.

- Start and control: `start`, `control`, `message_files`, `modes`
- Run: `runner`, `run`, `lease_holder`
- Several processes: `worker`, `relay`
- Read: `tasks`, `projection`, `reply_stream`
- Sessions: `sessions`, `rewind`, `effects`, `history`
"""
