"""The routes, a module for each group of them."""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from ..errors import JsonResponse
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
    health,
)


def _operation_id(route: APIRoute) -> str:
    return route.name


API = APIRouter(default_response_class=JsonResponse, generate_unique_id_function=_operation_id)
"""All routes. The services of a process share them: FastAPI takes a third of a second to prepare them."""
for _module in _MODULES:
    API.include_router(_module.router)
