"""The routes, a module for each group of them."""

from . import agents, chat, control, graphs, health, memory, rewind, sessions, tasks, users

_MODULES = (chat, tasks, control, rewind, sessions, memory, agents, users, graphs)
ROUTERS = tuple(module.router for module in _MODULES)
"""What needs a key where there is one."""
OPEN = (health.router,)
"""What a probe may ask without one."""
