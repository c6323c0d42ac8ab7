"""Parameters and error responses that the routes share."""

from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic.json_schema import SkipJsonSchema

from ..core.records import RequestKey
from ..core.task import LONGEST_NAME, NAME
from . import pages
from .errors import ErrorBody, JsonResponse
from .service import Service
from .tenants import Tenant


async def _service(request: Request) -> Service:  # one that is not async would run in a thread
    service: Service = request.app.state.service
    return service


async def _tenant(request: Request) -> Tenant:
    tenant: Tenant = request.scope["segue_tenant"]
    return tenant


Unset = SkipJsonSchema[None]
"""What a query says of a parameter by leaving it out: there is no way to write it."""
ServiceDep = Annotated[Service, Depends(_service)]
TenantDep = Annotated[Tenant, Depends(_tenant)]
TaskId = Annotated[str, Path(examples=["2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])]
SessionId = Annotated[str, Path(examples=["session_123"])]
Limit = Annotated[int, Query(ge=1, le=pages.MOST_ITEMS, description="The maximum number of items.")]
Before = Annotated[str | Unset, Query(max_length=1000, description="The `next` of the page before.")]


async def _page(limit: Limit = pages.MOST_ITEMS, before: Before = None) -> pages.Asked:
    return pages.Asked(limit, before)


PageDep = Annotated[pages.Asked, Depends(_page)]
"""The page of a list that is rarely longer than one."""
IdempotencyKey = Annotated[
    str, Header(max_length=255, description="The same key with the same request again does nothing twice.")
]


async def _request_key(request: Request, tenant: TenantDep, idempotency_key: IdempotencyKey = "") -> RequestKey | None:
    if not idempotency_key:
        return None
    asked = f"{request.method} {request.url.path}\n".encode() + await request.body()
    return RequestKey.named(tenant.stored(idempotency_key), sha256(asked).hexdigest())


KeyDep = Annotated[RequestKey | None, Depends(_request_key)]
UserName = Annotated[str | Unset, Header(max_length=LONGEST_NAME, pattern=NAME, description="Open WebUI's user.")]
Retries = Annotated[int, Header(ge=0, le=1000, description="How often the `openai` package sent it before.")]
Html = Annotated[bool, Query(description="Also give each answer as HTML, rendered and sanitised.")]

_WHY = {
    400: "The body is not valid JSON.",
    401: "The key is missing or unknown.",
    403: "The key lacks a role that the answer needs; without keys, the request comes from another origin.",
    404: "The id does not exist, or belongs to another tenant.",
    408: "The body arrived too slowly.",
    413: "The body is too long.",
    421: "Without keys: the Host header is not localhost.",
    422: "The request is invalid; the message says where.",
    429: "Too many requests, streams or tasks: retry after Retry-After seconds.",
    503: "The database cannot be used, or the service is stopping.",
}
Responses = dict[int | str, dict[str, Any]]
"""What a route may answer besides, by status."""
CONFLICT: Responses = {
    409: {"model": ErrorBody, "description": "The state of the task or session does not allow this."}
}
MODEL_DOWN: Responses = {502: {"model": ErrorBody, "description": "The agent's model or tool server cannot be used."}}


def routes(tag: str, *, needs_key: bool = True) -> APIRouter:
    """A router whose routes need a key, unless it says otherwise, with the errors that any of them may answer."""
    responses: Responses = {status: {"model": ErrorBody, "description": why} for status, why in _WHY.items()}
    if not needs_key:
        del responses[401]
        return new_router(tag, responses=responses)
    key = HTTPBearer(auto_error=False, description="An API key, where the service has any.")
    return new_router(tag, responses=responses, dependencies=[Security(key)])


def new_router(tag: str, **options: Any) -> APIRouter:
    """A router whose operations are called as their functions are, and answer JSON."""
    common: dict[str, Any] = {"default_response_class": JsonResponse, "generate_unique_id_function": _operation_id}
    return APIRouter(tags=[tag], **common, **options)


def _operation_id(route: APIRoute) -> str:
    return route.name
