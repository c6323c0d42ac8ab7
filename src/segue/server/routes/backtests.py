"""Backtests: what changed agents would do otherwise in the recorded sessions of a key."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Request
from pydantic import BaseModel, Field

from ...backtest import Backtest
from ...backtest.conclusion import conclusion
from ...backtest.run import Progress
from ...core.errors import ConfigurationError
from ...core.records import Json
from ...prompts.language import Language
from ..backtests import State, Status, begin, folder_of, read_report, request_stop
from ..errors import JsonResponse, LongJsonResponse, Problem, language_of, not_found
from ..log_config import logger
from ..readers.backtests import BacktestRequest, options_of
from ..service import Service
from ..tenants import Tenant
from ..views import Page
from .dependencies import CONFLICT, ServiceDep, TenantDep, routes

router = routes("backtests")
STOPS_WITHIN = 10.0
"""Seconds that a backtest may take to stop before it is shown as it is."""
POLL_SECONDS = 0.1


class BacktestView(BaseModel):
    """A backtest of a key's recorded sessions."""

    name: str = Field(examples=["brief"])
    created_at: str
    status: Status = Field(description="interrupted: its process ended meanwhile")
    done: int = Field(description="tasks that were answered anew")
    total: int = Field(description="tasks; 0 while they are looked for")
    error: str = Field(description="why it failed")
    asked: dict[str, Any] = Field(description="the request")
    conclusion: str = Field(description="what came out, in a sentence or two; empty without a report")
    report: dict[str, Any] | None = Field(description="as `segue backtest --json` prints it; in lists its summary only")


@router.post("/api/backtests", status_code=202, response_model=BacktestView, responses=CONFLICT)
async def start_backtest(
    body: BacktestRequest, service: ServiceDep, tenant: TenantDep, request: Request
) -> JsonResponse:
    """Answer recorded messages anew in the background, and compare; no tool runs, and nothing is stored in a session.

    `GET /api/backtests/{backtest}` says how far it is. One runs at a time.
    """
    service.refuse_while_draining()
    root = folder_of(service.settings.backtests, tenant)
    if root is None:
        raise ConfigurationError("This service keeps no backtests: set SEGUE_BACKTESTS to a folder.")
    sessions = [await service.own_session(tenant, name) for name in dict.fromkeys(body.sessions)]
    options = await asyncio.to_thread(options_of, body, service.app, service.agents, tenant)
    folder, asked = root / body.name, body.model_dump(mode="json", exclude_unset=True, exclude={"name"})

    async def make(on_progress: Progress) -> Backtest:
        options["on_progress"] = on_progress
        return await service.app.backtest(*sessions, **options)

    try:
        running = await service.backtests.begin(folder, partial(begin, folder, asked, make, tenant))
    except FileExistsError:
        raise Problem(409, "BacktestExists", backtest=body.name) from None
    if running == folder:
        raise Problem(409, "BacktestExists", backtest=body.name)
    if running:
        raise Problem(409, "BacktestRuns")
    return JsonResponse(await asyncio.to_thread(_view, folder, language_of(request.scope)), 202)


@router.get("/api/backtests", response_model=Page[BacktestView])
async def backtests(service: ServiceDep, tenant: TenantDep, request: Request) -> JsonResponse:
    """The key's backtests, the newest first; their reports have the summary only."""
    items = await asyncio.to_thread(_all, service, tenant, language_of(request.scope))
    return JsonResponse({"items": items, "next": None})


@router.get("/api/backtests/{backtest}", response_model=BacktestView)
async def show_backtest(backtest: str, service: ServiceDep, tenant: TenantDep, request: Request) -> LongJsonResponse:
    """A backtest with its whole report."""
    folder = _folder_of(service, tenant, backtest)
    return LongJsonResponse(await asyncio.to_thread(_view, folder, language_of(request.scope)))


@router.post("/api/backtests/{backtest}/stop", response_model=BacktestView)
async def stop_backtest(backtest: str, service: ServiceDep, tenant: TenantDep, request: Request) -> JsonResponse:
    """Stop a backtest, whichever process of the service runs it; it has no report then."""
    folder, language = _folder_of(service, tenant, backtest), language_of(request.scope)
    view = await asyncio.to_thread(_view, folder, language)
    if view["status"] == "running":
        await asyncio.to_thread(request_stop, folder)
        ends = asyncio.get_running_loop().time() + STOPS_WITHIN
        while view["status"] == "running" and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(POLL_SECONDS)
            view = await asyncio.to_thread(_view, folder, language)
    return JsonResponse(view)


def _folder_of(service: Service, tenant: Tenant, name: str) -> Path:
    if folder := service.backtests.find(folder_of(service.settings.backtests, tenant), name):
        return folder
    raise not_found("backtest", name)


def _all(service: Service, tenant: Tenant, language: Language) -> list[Json]:
    """The tenant's backtests; one that cannot be read is left out, and the log says why."""
    found = []
    for folder in service.backtests.folders(folder_of(service.settings.backtests, tenant)):
        try:
            found.append(_view(folder, language, whole=False))
        except ConfigurationError as error:
            logger.warning("a backtest cannot be read", extra={"backtest": folder.name, "reason": str(error)})
    return sorted(found, key=lambda view: str(view["created_at"]), reverse=True)


def _view(folder: Path, language: Language, *, whole: bool = True) -> Json:
    """A backtest as it is shown, with its report, or only the summary of that."""
    state, said, report = State.read(folder), "", None
    if state.summary is not None:
        said = conclusion(state.summary, state.change, language)
        report = read_report(folder) if whole else {"summary": state.summary}
    return {
        "name": folder.name,
        **{name: getattr(state, name) for name in ("created_at", "status", "done", "total", "error", "asked")},
        "conclusion": said,
        "report": report,
    }
