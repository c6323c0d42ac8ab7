"""The graphs of `make studio` and `langgraph dev`, with the agents and modes of the file that SEGUE_AGENTS names."""

import os

import segue.testing.rehearsal  # noqa: F401  its participants and workflows can be named in a conversation

from .core.agents import load_agents, load_modes
from .core.flows import load_flows
from .runtime.modes import graph

_file = os.environ.get("SEGUE_AGENTS", "")
_agents = load_agents(_file) if _file else []

chat = graph("chat", agents=_agents, modes={**load_modes(_file), **load_flows(_file)} if _file else {})
direct = graph("direct", agents=_agents)
react = graph("react", agents=_agents)
plan = graph("plan", agents=_agents)
plan_react = graph("plan_react", agents=_agents)
lifecycle = graph("lifecycle", agents=_agents)
conversation = graph("conversation", agents=_agents)
controller = graph("controller", agents=_agents)
controller_executor = graph("controller_executor", agents=_agents)
