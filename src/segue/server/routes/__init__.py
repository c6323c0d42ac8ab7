"""The routes, a module for each group of them."""

from . import agents, chat, control, graphs, health, sessions, tasks, users

ROUTERS = (chat.router, tasks.router, control.router, sessions.router, agents.router, users.router, graphs.router)
"""What needs a key where there is one."""
OPEN = (health.router,)
"""What a probe may ask without one."""
