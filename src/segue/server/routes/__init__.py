"""The routes, a module for each group of them."""

from . import (
    ag_ui,
    agents,
    attachments,
    chat,
    control,
    conversations,
    files,
    graphs,
    health,
    markdown,
    memory,
    metrics,
    openai,
    openai_files,
    permissions,
    rehearsals,
    responses,
    rewind,
    sessions,
    tasks,
    users,
)

_MODULES = (
    chat,
    tasks,
    control,
    permissions,
    rewind,
    sessions,
    memory,
    agents,
    attachments,
    users,
    graphs,
    markdown,
    files,
    rehearsals,
    metrics,
    openai,
    responses,
    conversations,
    openai_files,
    ag_ui,
)
ROUTERS = tuple(module.router for module in _MODULES)
"""What needs a key where there is one."""
OPEN = (health.router,)
"""What a probe may ask without one."""
