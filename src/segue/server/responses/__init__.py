"""OpenAI's responses over tasks: a response is a task, or what a task does from one answer of a person to the next."""
