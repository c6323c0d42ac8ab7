"""The vocabulary that every other package imports; it needs neither LangGraph nor a model's client.

- Tasks and their records: `task_status`, `records`, `row_validators`, `result`, `usage`, `usage_report`, `timeline`,
  `attachments`, `reply_options`, `origin`, `search`, `session_filter`, `workers`
- Messages for later: `schedules`, `file_schedules`, `moments`, `sent_events`
- Limits of what models use: `spend`
- Events: `events`, `deltas`
- Agents and their protocols: `agents`, `digests`, `models`, `tools`, `calls`, `context`
- Decisions of a model: `decision`, `thoughts`, `plan`
- A person's answers: `approval`, `approvers`, `question`
- Who is told what becomes of tasks: `notifications`, `deadlines`
- Where values come from: `provenance`, `value_forms`, `call_terms`, `allow_rules`, `disclosure`
- Who acts, and the log of it: `actor`, `audit`
- Settings of the agents file: `agents_file`, `quotas`, `bounds`
- Graphs with a configuration of their own: `flows`, `lifecycle`, `conversation`, `participants`
- Prompts: `prompt_size`, `json_schema`
- Errors: `errors`, `clause`
- Surroundings: `environment`, `files`, `json_depth`
"""
