"""Routes of backtests: what is asked for, and their reports."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from ...app import App
from ...core.agents import Agent
from ...core.errors import ConfigurationError, UnknownAgent, UnknownMode, listed
from ...core.models import OFFLINE
from ...core.records import Json
from ...core.task import LONGEST_NAME, NAME
from ...prompts.catalogue import Language
from ...testing.backtest import Backtest, BacktestOptions
from ...testing.backtest.recording import age
from ...testing.backtest.run import Progress, conclusion
from ...testing.rehearsal.grades import judge_of
from ..dependencies import CONFLICT, PageDep, ServiceDep, TenantDep, routes
from ..errors import JsonResponse, LongJsonResponse, Problem, language_of, not_found
from ..middleware import MODEL, Items, RequestBody
from ..run import logger
from ..runs import State, Status, begin, by_age, folder_of, read_report, request_stop
from ..service import Service
from ..tenants import Tenant
from ..views import Page

CONCURRENT = 4
"""Turns that are answered at the same time, beside the service's other work."""
MOST = 1000
"""Sessions of a backtest."""
_ENDPOINT = ("model", "base_url", "api_key", "extra_body", "read_timeout", "streaming", "accepts", "prices")
"""The fields of an agent that belong to its model."""
_MODEL: Any = Field(default=None, max_length=220, examples=["openai:gpt-4.1-mini"])


class ChangedAgent(RequestBody):
    """A registered agent, or a version of it, and what is different about it; its tools stay."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    agent_id: str = Field(max_length=64, examples=["travel"])
    version: str = Field(default="", max_length=64)
    """One of its registered versions; without it the current one."""
    prompt: str | None = Field(default=None, max_length=100_000)
    model: str | None = _MODEL
    """A model of `GET /api/models`, `offline`, or `openai:NAME` by the agent's own endpoint."""
    mode: str | None = Field(default=None, max_length=64)
    auto: Literal["rules", "model"] | None = None
    language: Language | None = None
    protocol: Literal["json", "native"] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    reasoning_effort: str | None = Field(default=None, pattern=r"^\w+$", max_length=20)
    max_iteration: int | None = Field(default=None, ge=1, le=1000)


class BacktestRequest(RequestBody):
    """Which recorded tasks are answered anew, and by which agents. No tool runs."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "brief",
                    "since": "7d",
                    "sample": 50,
                    "agents": [{"agent_id": "travel", "prompt": "Be brief."}],
                }
            ]
        },
    )

    name: str = Field(pattern=r"^[\w-]+$", max_length=60, examples=["brief"], description="a new folder's name")
    sessions: Items[Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]] = Field(default=[], max_length=MOST)
    """Only these sessions; without any, all of the key's."""
    since: str = Field(default="", max_length=20, examples=["7d"])
    """Only tasks that began in the last 7d, 12h, 30m or 2w."""
    sample: int = Field(default=100, ge=1, le=MOST)
    """At most so many sessions, drawn at random."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Draws others."""
    agents: list[ChangedAgent] = Field(default=[], max_length=20)
    """The agents that are different; all others are as they are registered."""
    model: str | None = _MODEL
    """Takes the place of every agent's model: `recorded` replies what was recorded, `offline`, or `openai:NAME`."""
    steps: bool = False
    """Compare each decision by itself, from its recorded state, instead of whole turns."""
    baseline: bool = False
    """Run the agents as they are registered, too, and count only what changes more often than with them."""
    confirm: bool = False
    """Answer up to five differing tasks of each kind five more times, also with the agents as they are registered, and
    count only what is then more frequent with the new ones."""
    judge: str | None = _MODEL
    """A model, named as an agent's, that decides whether other words say the same."""
    effects: Literal["stop", "recorded-shape", "model"] = "stop"
    """What a call without a recorded result does: end the turn, or go on with a stand-in."""


def options_of(body: BacktestRequest, app: App, agents: Mapping[str, Agent], tenant: Tenant) -> BacktestOptions:
    """What a request asks for, within what its tenant may: its own sessions, configured endpoints, no tool."""
    if body.since:
        age(body.since)
    options: BacktestOptions = {
        **{"session_prefix": tenant.prefix, "since": body.since, "sample": body.sample, "seed": body.seed},
        **{"steps": body.steps, "effects": body.effects, "live_reads": False, "concurrency": CONCURRENT},
        "agents": [_changed(each, app, agents) for each in body.agents],
    }
    if body.model:
        options["model"] = _override(body.model)
    if body.judge:
        options["judge"] = judge_of(_with_model(app.agents.agent(""), body.judge, app, agents))
    if body.baseline:
        options["baseline"] = [*agents.values()]
    if body.confirm:
        options["confirm"] = [*agents.values()]
    return options


def _override(model: str) -> str:
    if model != "recorded" and not re.fullmatch(MODEL, model):
        raise _unknown(model, ["recorded", OFFLINE])
    return model


def _changed(given: ChangedAgent, app: App, agents: Mapping[str, Agent]) -> Agent:
    agent = _version(given, app, agents)
    if given.mode is not None and given.mode not in app.modes:
        raise UnknownMode(given.mode, app.modes)
    if given.model is not None:
        agent = _with_model(agent, given.model, app, agents)
    changes = given.model_dump(exclude={"agent_id", "version", "model"}, exclude_none=True)
    return agent.model_copy(update={**changes, "older": ()})


def _version(given: ChangedAgent, app: App, agents: Mapping[str, Agent]) -> Agent:
    if given.agent_id not in agents:
        raise UnknownAgent(given.agent_id, agents)
    if not given.version:
        return agents[given.agent_id]
    versions = app.agents.versions(given.agent_id)
    if given.version not in versions:
        raise ConfigurationError(
            "The agent {agent_id} has no version '{version}' here; use one of: {known}.",
            agent_id=given.agent_id,
            version=given.version,
            known=listed(versions),
        )
    return versions[given.version].agent(given.agent_id)


def _with_model(agent: Agent, model: str, app: App, agents: Mapping[str, Agent]) -> Agent:
    """The agent with another model: one that is configured, with its endpoint, or what a message may name as well."""
    if app.agents.model_name(agent) == model:
        return agent
    configured = {app.agents.model_name(other): other for other in agents.values()}
    if owner := configured.get(model):
        return agent.model_copy(update={name: getattr(owner, name) for name in _ENDPOINT})
    if not re.fullmatch(MODEL, model):
        raise _unknown(model, [*configured, OFFLINE])
    return agent.model_copy(update={"model": model, "accepts": None, "prices": None})


def _unknown(model: str, known: list[str]) -> ConfigurationError:
    return ConfigurationError(
        "There is no model '{name}' here: use openai:<name>, or one of: {known}.",
        name=model,
        known=listed(dict.fromkeys(known)),
    )


# Backtests: what changed agents would do otherwise in the recorded sessions of a key.

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


class CostView(BaseModel):
    """What a backtest will cost, estimated from what its tasks cost when they were recorded."""

    turns: int = Field(description="turns that are answered")
    most_turns: int = Field(description="the most turns, with a confirmation")
    tokens: int = Field(description="for the most turns")
    cost: float = Field(description="for the most turns; 0 where it is not known")
    text: str = Field(description="the estimate in words")


@router.post("/api/backtests/estimate", response_model=CostView)
async def estimate_backtest(
    body: BacktestRequest, service: ServiceDep, tenant: TenantDep, request: Request
) -> JsonResponse:
    """Estimate what such a backtest would cost; nothing is answered or stored."""
    sessions = [await service.own_session(tenant, name) for name in dict.fromkeys(body.sessions)]
    options = await asyncio.to_thread(options_of, body, service.app, service.agents, tenant)
    cost = await service.app.estimate_backtest(*sessions, **options)
    return JsonResponse({**asdict(cost), "text": cost.describe(language_of(request.scope))})


@router.get("/api/backtests", response_model=Page[BacktestView])
async def backtests(
    service: ServiceDep,
    tenant: TenantDep,
    request: Request,
    page: PageDep,
) -> JsonResponse:
    """The key's backtests, the newest first; their reports have the summary only."""
    items = await asyncio.to_thread(_all, service, tenant, language_of(request.scope))
    return JsonResponse(page.cut(items, by_age, reverse=True))


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
    return found


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
