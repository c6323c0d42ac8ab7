"""The routes, a module for each subject."""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from ..errors import JsonResponse
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


def _operation_id(route: APIRoute) -> str:
    return route.name


API = APIRouter(default_response_class=JsonResponse, generate_unique_id_function=_operation_id)
"""All routes. The services of a process share them: FastAPI takes a third of a second to prepare them."""
for _router in _ROUTERS:
    API.include_router(_router)
