"""An agent's own prompt, where no live state belongs into it."""

from segue.core.agents import Agent
from segue.prompts.load import fill, template


def own_prompt(agent: Agent, language: str) -> str:
    """The agent's prompt with its slots empty, or the default one."""
    return fill(agent.prompt or template("agent", language), current_state="", tools="")
