"""Rehearsals: the batches in the folder that `SEGUE_REHEARSALS` names, their reports, and new ones."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel, Field

from ...app import App
from ...core.errors import ConfigurationError, MissingExtra, UnknownScenario
from ...core.records import Json
from ...prompts.catalogue import Language
from ...testing.rehearsal import read_log
from ...testing.rehearsal.batch import (
    FILE,
    BatchResult,
    Counting,
    Manifest,
    batch_of,
    check,
    check_with,
    log_file_of,
    open_batch,
    rehearse,
    unfinished,
)
from ...testing.rehearsal.converter import convert_text
from ...testing.rehearsal.grades import outcomes_of
from ...testing.rehearsal.participants import load_scenarios, load_workflow, shipped_names
from ...testing.rehearsal.report import Report, compare, outcome_json, report_of, write_report
from ..dependencies import CONFLICT, PageDep, ServiceDep, TenantDep, routes
from ..errors import JsonResponse, Problem, language_of, not_found
from ..middleware import RequestBody
from ..requests import Configuration
from ..run import logger
from ..runs import by_age, unreadable
from ..service import Service
from ..tenants import Tenant
from ..views import Page

router = routes("rehearsals")
_SHOWN = ("judge", "missing", "summary", "pass_hat", "scenarios", "conversations", "comparison")
"""What is shown of a report: not the batch's configuration, which names files of the machine."""


class BatchView(BaseModel):
    """A batch of conversations."""

    name: str = Field(examples=["release-3"])
    workflow: str
    created_at: str
    conversations: int
    ended: int
    running: bool = Field(description="whether this process holds its conversations now")
    error: str = Field(description="why conversations did not end when this process ran it last")
    report: dict[str, Any] | None = Field(description="as `segue report` writes it; null while no conversation ended")


class RehearsalRequest(Configuration):
    """A batch of conversations: the configuration of each, how many, and of which scenarios of its workflow."""

    name: str = Field(pattern=r"^[\w-]+$", max_length=60, examples=["release-3"], description="a new folder's name")
    n: int = Field(ge=1, le=200, description="how many conversations, the scenarios in turn")
    workers: int = Field(default=1, ge=1, le=4, description="processes")
    scenarios: list[str] = Field(default=[], description="all of the workflow without one")


class WorkflowView(BaseModel):
    """A workflow, and the names of its scenarios."""

    name: str = Field(examples=["travel_change"])
    description: str
    language: str
    scenarios: list[str]


class ComparisonView(BaseModel):
    """Two batches side by side: `a` is the earlier one."""

    a: str
    b: str
    tested: dict[str, dict[str, str]] = Field(description="the settings that each tested")
    summary: dict[str, dict[str, Any]]
    conclusion: str = Field(description="whether the difference exceeds noise")
    scenarios: list[dict[str, Any]] = Field(description="{scenario, a, b}, with the success rates")
    conversations: list[dict[str, Any]] = Field(description="{conversation_id, scenario, a, b}, with the outcomes")


class ConversationView(BaseModel):
    """What was said and called in a conversation."""

    conversation_id: str
    utterances: list[dict[str, Any]]
    ending: str = Field(description="empty while it has not ended")


@router.get("/api/rehearsals", response_model=Page[BatchView])
async def rehearsals(service: ServiceDep, _: TenantDep, page: PageDep) -> JsonResponse:
    """The batches, the newest first; their reports have the summary only."""
    return JsonResponse(page.cut(await asyncio.to_thread(_batches, service), by_age, reverse=True))


@router.get("/api/workflows", response_model=Page[WorkflowView])
async def workflows(_: TenantDep) -> JsonResponse:
    """The workflows that a rehearsal can be about, with their scenarios."""
    return JsonResponse({"items": await asyncio.to_thread(_workflows), "next": None})


class WorkflowImport(RequestBody):
    """A workflow in another notation; the name ends with `.yaml` (PDL) or `.mmd` (a Mermaid flowchart)."""

    name: str = Field(min_length=1, max_length=100, examples=["returns.mmd"])
    text: str = Field(min_length=1, max_length=200_000)


class ConvertedView(BaseModel):
    """A workflow's file in YAML, and what of the original it does not say."""

    text: str
    warnings: list[str]


@router.post("/api/workflows/import", response_model=ConvertedView)
async def import_workflow(body: WorkflowImport, _: TenantDep) -> JsonResponse:
    """Convert a workflow; an error names the line. Nothing is stored."""
    found = await asyncio.to_thread(convert_text, body.name, body.text)
    return JsonResponse({"text": found.text, "warnings": [*found.warnings]})


def _workflows() -> list[Json]:
    return [
        {
            **load_workflow(name).model_dump(include={"name", "description", "language"}),
            "scenarios": [scenario.name for scenario in load_scenarios(name)],
        }
        for name in shipped_names()
    ]


@router.post("/api/rehearsals", status_code=202, response_model=BatchView, responses=CONFLICT)
async def start_rehearsal(
    body: RehearsalRequest, service: ServiceDep, tenant: TenantDep, request: Request
) -> JsonResponse:
    """Run a batch in the background; the same request continues one that was stopped.

    Its model calls count towards the tenant's limits of spending.
    `GET /api/rehearsals/{name}` says how far it is.
    """
    service.refuse_while_draining()
    root = service.settings.rehearsals
    if root is None:
        raise ConfigurationError("Rehearsals are off. Start the service with `--rehearsals FOLDER`.")
    manifest = await _checked(body, service.app)
    counting, folder = _counting(service, tenant), root / body.name
    prepare = partial(_open, folder, manifest, language_of(request.scope), counting)
    running = await service.rehearsals.begin(folder, prepare)
    if running and running != folder:
        raise Problem(409, "RehearsalRuns", batch=running.name)
    return JsonResponse(await asyncio.to_thread(_batch, service, folder, _SHOWN), 202)


def _counting(service: Service, tenant: Tenant) -> Counting:
    """Where a batch's calls count: in the service's database."""
    limits = service.app.agents.spend
    if limits and service.database == ":memory:":
        raise ConfigurationError(
            "Rehearsals count towards the limits of [spend], which needs a database file: start the service with --db "
            "FILE."
        )
    return Counting(service.database, tenant.prefix, limits.model_dump(mode="json") if limits else None)


def _open(folder: Path, manifest: Manifest, language: Language, counting: Counting) -> Coroutine[Any, Any, BatchResult]:
    """Begin a batch in a folder of its own, or continue the one that is there; returns what is left of it to run."""
    if (folder / FILE).is_file() and _manifest(folder).differences(manifest):
        raise Problem(409, "RehearsalExists", batch=folder.name)
    folder.mkdir(parents=True, exist_ok=True)
    open_batch(folder, manifest)
    return _rehearse(folder, manifest, language, counting)


async def _checked(body: RehearsalRequest, app: App) -> Manifest:
    """The batch's manifest, within what the service allows: its processes allow everything."""
    app.agents.participants.restrictions.check(body.config)
    manifest = await asyncio.to_thread(_manifest_of, body, app.agents.agents_file)
    check_with(app, manifest)
    await check(manifest)
    return manifest


def _manifest_of(body: RehearsalRequest, agents_file: str) -> Manifest:
    manifest = batch_of(body.config, n=body.n, workers=body.workers, agents=agents_file)
    for name in body.scenarios:
        if name not in manifest.scenarios:
            raise UnknownScenario(name, manifest.scenarios)
    return replace(manifest, scenarios=tuple(body.scenarios)) if body.scenarios else manifest


async def _rehearse(folder: Path, manifest: Manifest, language: Language, counting: Counting) -> BatchResult:
    """Hold what is left of a batch, and write its report."""
    result = await rehearse(folder, manifest, language=language, counting=counting)
    try:
        await asyncio.to_thread(_write_report, folder, language)
    except MissingExtra as error:
        logger.info("no report was written", extra={"batch": folder.name, "reason": str(error)})
    return result


def _write_report(folder: Path, language: Language) -> None:
    write_report(_report_of(folder), folder, None, language)


def _report_of(folder: Path) -> Report:
    manifest = _manifest(folder)
    return report_of(manifest, outcomes_of(folder, manifest, {}))


@router.post("/api/rehearsals/{name}/stop", response_model=BatchView)
async def stop_rehearsal(name: str, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """Stop a batch; its conversations that have ended are kept."""
    folder = _folder_of(service, name)
    await service.rehearsals.cancel(folder)
    return JsonResponse(await asyncio.to_thread(_batch, service, folder, _SHOWN))


@router.get("/api/rehearsals/{name}", response_model=BatchView)
async def rehearsal(name: str, service: ServiceDep, _: TenantDep, request: Request) -> JsonResponse:
    """A batch with its whole report."""
    folder = _folder_of(service, name)
    return JsonResponse(await asyncio.to_thread(_whole, service, folder, language_of(request.scope)))


def _whole(service: Service, folder: Path, language: Language) -> Json:
    """A batch with the report that was written, else with one of the conversations that have ended."""
    batch = _batch(service, folder, _SHOWN)
    if batch["report"] is None and batch["ended"]:
        form = _report_of(folder).json(language)
        batch["report"] = {name: form[name] for name in _SHOWN if name in form}
    return batch


Against = Annotated[str, Query(max_length=200, description="The batch to compare with.")]


@router.get("/api/rehearsals/{name}/compare", response_model=ComparisonView)
async def compare_rehearsals(
    name: str, against: Against, service: ServiceDep, _: TenantDep, request: Request
) -> JsonResponse:
    """A batch beside an earlier one of the same workflow: success by scenario, and each conversation's outcomes."""
    folders = _folder_of(service, against), _folder_of(service, name)
    return JsonResponse(await asyncio.to_thread(_compared, *folders, language_of(request.scope)))


def _compared(earlier: Path, later: Path, language: Language) -> Json:
    sides = {"a": _report_of(earlier), "b": _report_of(later)}
    scenarios = dict.fromkeys([*sides["a"].scenarios, *sides["b"].scenarios])
    outcomes = {side: {each.conversation_id: each for each in report.outcomes} for side, report in sides.items()}
    rows = {each.conversation_id: each.scenario for report in sides.values() for each in report.outcomes}
    return {
        "a": earlier.name,
        "b": later.name,
        "tested": {side: dict(report.tested) for side, report in sides.items()},
        "summary": {side: asdict(report.summary) for side, report in sides.items()},
        "conclusion": compare(sides["a"], sides["b"]).conclusion(language),
        "scenarios": [
            {"scenario": name, **{side: _success(report, name) for side, report in sides.items()}} for name in scenarios
        ],
        "conversations": [
            {
                "conversation_id": conversation_id,
                "scenario": scenario,
                **{
                    side: outcome_json(found, language) if (found := ended.get(conversation_id)) else None
                    for side, ended in outcomes.items()
                },
            }
            for conversation_id, scenario in rows.items()
        ],
    }


def _success(report: Report, scenario: str) -> Json | None:
    found = report.scenarios.get(scenario)
    return asdict(found.success) if found and found.success else None


@router.get("/api/rehearsals/{name}/{conversation_id}", response_model=ConversationView)
async def rehearsal_conversation(name: str, conversation_id: str, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """A conversation of a batch."""
    folder = _folder_of(service, name)
    return JsonResponse(await asyncio.to_thread(_conversation, folder, conversation_id))


def _batches(service: Service) -> list[Json]:
    """The batches; one that cannot be read is left out, and the log says why."""
    batches = []
    for folder in service.rehearsals.folders(service.settings.rehearsals):
        try:
            batches.append(_batch(service, folder, ("summary",)))
        except ConfigurationError as error:
            logger.warning("a batch of rehearsals cannot be read", extra={"batch": folder.name, "reason": str(error)})
    return batches


def _folder_of(service: Service, name: str) -> Path:
    if folder := service.rehearsals.find(service.settings.rehearsals, name):
        return folder
    raise not_found("rehearsal", name)


def _batch(service: Service, folder: Path, shown: tuple[str, ...]) -> Json:
    manifest = _manifest(folder)
    ended = manifest.n - len(unfinished(folder, manifest))
    is_running = service.rehearsals.running == folder
    return {
        "name": folder.name,
        "workflow": str(manifest.config.get("workflow", "")),
        "created_at": manifest.created_at,
        "conversations": manifest.n,
        "ended": ended,
        "running": is_running,
        "error": _error(service, folder),
        "report": None if is_running else _report(folder / "report.json", shown),
    }


def _error(service: Service, folder: Path) -> str:
    result: BatchResult | None = service.rehearsals.result(folder)
    return "\n".join(result.errors) if result else service.rehearsals.error(folder)


def _manifest(folder: Path) -> Manifest:
    """The batch's manifest."""
    try:
        return Manifest.read(folder)
    except ConfigurationError as error:
        raise unreadable(folder / FILE, error.params.get("error", "")) from error


def _report(file: Path, shown: tuple[str, ...]) -> Json | None:
    """What is shown of a report."""
    try:
        form = json.loads(file.read_text(encoding="utf-8-sig"))
        return {name: form[name] for name in shown if name in form}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise unreadable(file, error) from error


def _conversation(folder: Path, conversation_id: str) -> Json:
    if conversation_id not in {planned.conversation_id for planned in _manifest(folder).conversations()}:
        raise not_found("conversation", conversation_id)
    file = log_file_of(folder, conversation_id)
    if not file.is_file():
        raise not_found("conversation", conversation_id)
    conversation = read_log(file)
    return {
        "conversation_id": conversation_id,
        "utterances": [utterance.json() for utterance in conversation.utterances],
        "ending": conversation.ending.reason if conversation.ending else "",
    }
