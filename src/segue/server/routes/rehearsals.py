"""Rehearsals: the batches in the folder that `SEGUE_REHEARSALS` names, with their reports."""

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from ...core.errors import ConfigurationError
from ...core.records import Json
from ...rehearsal import read_log
from ...rehearsal.batch import FILE, Manifest, log_file_of, unfinished
from ..errors import JsonResponse, not_found
from ..log_config import logger
from ..service import Service
from ..views import Page
from .dependencies import ServiceDep, TenantDep, routes

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
    report: dict[str, Any] | None = Field(description="as `segue report` wrote it; null before that")


class ConversationView(BaseModel):
    """What was said and called in a conversation."""

    conversation_id: str
    utterances: list[dict[str, Any]]
    ending: str = Field(description="empty while it has not ended")


@router.get("/api/rehearsals", response_model=Page[BatchView])
async def rehearsals(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The batches, the newest first; their reports have the summary only."""
    return JsonResponse({"items": await asyncio.to_thread(_batches, service.settings.rehearsals), "next": None})


@router.get("/api/rehearsals/{name}", response_model=BatchView)
async def rehearsal(name: str, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """A batch with its whole report."""
    folder = _folder_of(service, name)
    return JsonResponse(await asyncio.to_thread(_batch, folder, _SHOWN))


@router.get("/api/rehearsals/{name}/{conversation_id}", response_model=ConversationView)
async def rehearsal_conversation(name: str, conversation_id: str, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """A conversation of a batch."""
    folder = _folder_of(service, name)
    return JsonResponse(await asyncio.to_thread(_conversation, folder, conversation_id))


def _batches(root: Path | None) -> list[Json]:
    """The batches; one that cannot be read is left out, and the log says why."""
    batches = []
    for folder in _folders(root):
        try:
            batches.append(_batch(folder, ("summary",)))
        except ConfigurationError as error:
            logger.warning("a batch of rehearsals cannot be read", extra={"batch": folder.name, "reason": str(error)})
    return sorted(batches, key=lambda batch: str(batch["created_at"]), reverse=True)


def _folders(root: Path | None) -> list[Path]:
    return [folder for folder in root.iterdir() if (folder / FILE).is_file()] if root and root.is_dir() else []


def _folder_of(service: Service, name: str) -> Path:
    for folder in _folders(service.settings.rehearsals):
        if folder.name == name:
            return folder
    raise not_found("rehearsal", name)


def _batch(folder: Path, shown: tuple[str, ...]) -> Json:
    manifest = _manifest(folder)
    return {
        "name": folder.name,
        "workflow": str(manifest.config.get("workflow", "")),
        "created_at": manifest.created_at,
        "conversations": manifest.n,
        "ended": manifest.n - len(unfinished(folder, manifest)),
        "report": _report(folder / "report.json", shown),
    }


def _manifest(folder: Path) -> Manifest:
    """The batch's manifest.

    Raises:
        ConfigurationError: it cannot be read; the sentence names no folder of the machine.
    """
    try:
        return Manifest.read(folder)
    except ConfigurationError as error:
        reason = error.params.get("error", "")
        raise ConfigurationError("The file {file} cannot be read: {error}.", file=FILE, error=reason) from error


def _report(file: Path, shown: tuple[str, ...]) -> Json | None:
    """What is shown of a report.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        form = json.loads(file.read_text(encoding="utf-8"))
        return {name: form[name] for name in shown if name in form}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError("The file {file} cannot be read: {error}.", file=file.name, error=error) from error


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
