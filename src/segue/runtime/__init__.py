"""Execution of tasks, between the app and the graphs.

- Start and control: `request`, `control`, `stops`, `cancellation`, `extraction`, `message_files`, `modes`
- Run: `runner`, `run`, `capacity`, `thread_state`, `bot_sessions`
- Ownership of a session: `lease_holder`, `heartbeat`
- Several processes: `dispatch`, `worker`, `notices`, `relay`
- Read and follow: `tasks`, `projection`, `reply_stream`, `event_stream`, `observer`
- Sessions: `sessions`, `history`, `copies`
"""
