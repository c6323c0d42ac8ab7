"""The vocabulary that every other package imports; it needs neither LangGraph nor a model's client.

- Tasks and their records: `task`, `records`, `timeline`, `message`
- Messages for later: `schedules`
- Limits of what models use: `spend`
- Events: `events`
- Agents and their protocols: `agents`, `digests`, `models`, `calls`, `context`
- Decisions of a model: `decision`, `plan`
- A person's answers: `approval`, `reviews`
- Who is told what becomes of tasks: `notifications`
- Where values come from: `provenance`, `value_forms`, `record_choice`, `quotations`, `call_rules`
- Who acts, and the log of it: `actor`, `audit`
- Settings of the agents file: `bounds`, `variables`
- Graphs with a configuration of their own: `flows`, `lifecycle`, `conversation`
- Objects of LangGraph's server API: `graph_objects`
- JSON from outside: `json`
- Errors: `errors`
- Surroundings: `environment`, `logs`, `sync`
- A former place: `reply_options`
"""
