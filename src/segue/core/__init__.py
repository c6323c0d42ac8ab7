"""The vocabulary that every other package imports; it needs neither LangGraph nor a model's client.

- Tasks and their records: `ids`, `task_status`, `records`, `row_validators`, `result`, `timeline`,
  `attachments`, `retention`
- Events: `events`, `deltas`
- Agents and their protocols: `agents`, `agent_digest`, `models`, `tools`, `calls`, `memory`, `context`, `chat_mode`
- Decisions of a model: `decision`, `plan`, `plan_text`, `subtasks`
- A person's answers: `approval`, `permission_rule`, `question`
- Graphs with a configuration of their own: `flows`, `lifecycle`, `conversation`, `participants`, `transcript`
- Prompts: `prompt_size`, `renderings`, `json_schema`
- Errors: `errors`
- Surroundings: `environment`, `databases`, `disk`, `json_depth`, `cassettes`, `closed`
"""
