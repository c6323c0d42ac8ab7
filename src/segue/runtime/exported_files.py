"""The contents of a session's files in its exported document."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

from ..checkpoints.tables.files import Files
from ..core.attachments import Attachment, media_type_of, read_attachment
from ..core.errors import FileUnavailable, InvalidExport
from ..core.records import Json


async def exported_files(store: Files, tasks: Iterable[Json]) -> dict[str, str | None]:
    """The contents in base64 by their digests; None for one that is missing or damaged."""
    digests = dict.fromkeys(form["digest"] for task in tasks for form in task["attachments"])
    return {digest: await _exported(store, digest) for digest in digests}


async def _exported(store: Files, digest: str) -> str | None:
    try:
        return b64encode(await store.get(digest)).decode()
    except FileUnavailable:
        return None


@asynccontextmanager
async def imported_files(store: Files, document: Any) -> AsyncIterator[None]:
    """Store a document's files, and keep them while the tasks that name them are stored.

    Raises:
        InvalidExport: a file is missing, or its content is not what its digest says; nothing was stored.
    """
    contents = [(attachment, _content(attachment, document)) for attachment in _named(document)]
    pinned = [await store.put(attachment, content) for attachment, content in contents if content is not None]
    try:
        yield
    finally:
        for upload_id in pinned:
            await store.discard(upload_id)


def _named(document: Any) -> Iterable[Attachment]:
    """The files that the document's tasks name; what else is wrong with it shows when it is read."""
    tasks = document.get("tasks") if isinstance(document, dict) else None
    forms = [task.get("attachments") for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    try:
        found = [read_attachment(form) for given in forms for form in given or ()]
    except (ValueError, TypeError) as error:
        raise InvalidExport("one of its tasks names a malformed file") from error
    return {attachment.digest: attachment for attachment in found}.values()


def _content(attachment: Attachment, document: Any) -> bytes | None:
    files = document.get("files")
    if not isinstance(files, dict) or attachment.digest not in files:
        raise InvalidExport(f"it does not hold its file {attachment.name}")
    given = files[attachment.digest]
    if given is None:
        return None
    try:
        content = b64decode(given, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise InvalidExport(f"its file {attachment.name} is not valid base64") from error
    fits = (media_type_of(content) or "text/plain") == attachment.media_type
    if sha256(content).hexdigest() != attachment.digest or not fits or len(content) != attachment.size:
        raise InvalidExport(f"its file {attachment.name} is not what its digest says")
    return content
