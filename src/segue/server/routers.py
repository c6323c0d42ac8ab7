"""The routes, a module for each subject."""

from starlette.routing import BaseRoute

from . import ag_ui, mcp, openai_chat
from .api import agents, backtests, chat, files, rehearsals, reports, rewind, schedules, sessions, tasks, users
from .openai_responses import reply as openai_responses

_ROUTERS = (
    chat.router,
    tasks.router,
    tasks.control_router,
    schedules.router,
    sessions.permissions_router,
    schedules.notifications_router,
    rewind.router,
    sessions.router,
    sessions.shares_router,
    sessions.public_router,
    users.memory_router,
    reports.usage_router,
    reports.audit_router,
    agents.router,
    files.attachments_router,
    users.router,
    agents.graphs_router,
    mcp.router,
    tasks.markdown_router,
    files.router,
    rehearsals.router,
    backtests.router,
    chat.conversations_router,
    reports.about_router,
    reports.metrics_router,
    openai_chat.router,
    openai_responses.router,
    openai_responses.conversations_router,
    openai_chat.files_router,
    ag_ui.router,
    reports.router,
)

ROUTES: tuple[BaseRoute, ...] = tuple(route for router in _ROUTERS for route in router.routes)
"""All routes, which the services of a process share. A router that includes others would prepare each a second time."""
