"""The routes, a module for each subject."""

from starlette.routing import BaseRoute

from . import (
    agents,
    audit,
    backtests,
    chat,
    conversations,
    files,
    health,
    mcp,
    notifications,
    openai,
    rehearsals,
    responses,
    rewind,
    schedules,
    sessions,
    shares,
    tasks,
    usage,
    users,
)

_ROUTERS = (
    chat.router,
    tasks.router,
    tasks.control_router,
    schedules.router,
    sessions.permissions_router,
    notifications.router,
    rewind.router,
    sessions.router,
    shares.router,
    shares.public_router,
    users.memory_router,
    usage.router,
    audit.router,
    agents.router,
    files.attachments_router,
    users.router,
    agents.graphs_router,
    mcp.router,
    tasks.markdown_router,
    files.router,
    rehearsals.router,
    backtests.router,
    conversations.router,
    health.about_router,
    health.metrics_router,
    openai.router,
    responses.router,
    responses.conversations_router,
    openai.files_router,
    chat.ag_ui_router,
    health.router,
)

ROUTES: tuple[BaseRoute, ...] = tuple(route for router in _ROUTERS for route in router.routes)
"""All routes, which the services of a process share. A router that includes others would prepare each a second time."""
