"""The files that messages name, and the uploads that no message names yet; the contents are kept elsewhere."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

from pydantic import AfterValidator

from segue.core.errors import FileUnavailable
from segue.core.message import UPLOAD_SECONDS, Attachment, FilesReport, Upload, read_attachment
from segue.core.records import STORED_AS_JSON, Attachments, Json, Moment, Name, Record, from_row, readable

from .ports import Connection, Contents, Database

_PIN = "INSERT INTO uploads (upload_id, owner, digest, attachment, created_at) VALUES (?, ?, ?, ?, ?)"
_UPLOADS = "SELECT * FROM uploads WHERE owner = ? AND created_at >= ?"
_UPLOADED = f"{_UPLOADS} AND upload_id = ?"
_IN_ORDER = f"{_UPLOADS} ORDER BY created_at, upload_id"
_DISCARD = "UPDATE uploads SET created_at = 0 WHERE upload_id = ? AND owner = ? AND created_at > 0"
_EXPIRED = "SELECT DISTINCT digest FROM uploads WHERE created_at < ?"
_DROP_EXPIRED = "DELETE FROM uploads WHERE created_at < ?"
_IS_UPLOADED = "SELECT 1 FROM uploads WHERE digest = ? LIMIT 1"
_IS_NAMED = "SELECT 1 FROM tasks WHERE attachments <> '[]' AND attachments LIKE ? LIMIT 1"
_NAMING = "SELECT task_id, thread_id, attachments FROM tasks WHERE attachments <> '[]'"
_OF_THREAD = f"{_NAMING} AND thread_id = ? ORDER BY position"
_ALL = f"{_NAMING} ORDER BY position"


_DIGEST = re.compile("[0-9a-f]{64}")
_ABOUT = ("purpose", "seconds")


def _upload_form(form: Json) -> Json:
    read_attachment({name: value for name, value in form.items() if name not in _ABOUT})
    if not (isinstance(form.get("purpose", ""), str) and isinstance(form.get("seconds", 0), int | float)):
        raise ValueError("should be an attachment")
    return form


@dataclass(frozen=True, kw_only=True)
class StoredUpload(Record):
    """An upload as it is stored: the form of its attachment has its purpose and duration, too."""

    row_name = "upload {upload_id}"
    is_recoverable = False

    upload_id: Name
    owner: str
    digest: str
    attachment: Annotated[Annotated[Json, AfterValidator(_upload_form)], STORED_AS_JSON]
    created_at: Moment

    @property
    def upload(self) -> Upload:
        form = {**self.attachment}
        about = {name: form.pop(name) for name in _ABOUT if name in form}
        return Upload(self.upload_id, read_attachment(form), self.created_at, **about)


@dataclass(frozen=True, kw_only=True)
class _Naming(Record):
    """A task that names files."""

    task_id: Name
    thread_id: Name
    attachments: Attachments

    @property
    def files(self) -> list[Attachment]:
        return [read_attachment(form) for form in self.attachments]


PINS = "/"
"""The owner of what is only pinned, which nobody sees: no tenant is called so."""
Uploads = Sequence[tuple[str, str]]
"""Uploads, each with its owner."""


def take_along(connection: Connection, uploads: Uploads) -> None:
    """Let go of uploads, in the transaction that stores the task that names their contents."""
    for upload in uploads:
        connection.execute(_DISCARD, upload)


class Files:
    """The files of messages.

    A content is pinned by a row of `uploads` before it is written and until a task names it, so that no process
    deletes it meanwhile; what is neither pinned nor named is deleted in a transaction.
    """

    def __init__(
        self, database: Database[Connection], contents: Contents, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._contents = contents
        self._clock = clock
        self._swept = False

    async def put(
        self, attachment: Attachment, content: bytes | None, owner: str = PINS, about: Mapping[str, Any] | None = None
    ) -> str:
        """Pin a content and store it, unless it is there; returns the id of the upload.

        Without `content` one that is stored already is pinned. `about` has the `purpose` and the `seconds` of the
        `Upload` where they are not the usual ones.
        """
        if not self._swept:
            self._swept = True
            await self.delete_expired()
        upload_id, form = str(uuid4()), json.dumps({**attachment.json(), **(about or {})})
        values = (upload_id, owner, attachment.digest, form, self._clock())
        await self._database.write(lambda connection: connection.execute(_PIN, values))
        if content is not None:
            await self._contents.store(attachment.digest, content)
        return upload_id

    async def uploaded(self, upload_id: str, owner: str) -> Upload | None:
        """What was uploaded under this id by this owner, unless it has expired."""
        values = (owner, self._clock() - UPLOAD_SECONDS, upload_id)
        rows = await self._database.read(lambda connection: connection.fetched(_UPLOADED, values))
        upload = from_row(StoredUpload, rows[0]).upload if rows else None
        return upload if upload and upload.expires_at > self._clock() else None

    async def uploads(self, owner: str) -> list[Upload]:
        """What this owner uploaded, oldest first, unless it has expired or cannot be read."""
        now = self._clock()
        values = (owner, now - UPLOAD_SECONDS)
        rows = await self._database.read(lambda connection: connection.fetched(_IN_ORDER, values))
        found = [row.upload for row in readable(StoredUpload, rows)]
        return [upload for upload in found if upload.expires_at > now]

    async def discard(self, upload_id: str, owner: str = PINS) -> bool:
        """Let go of an upload; its content is deleted with the next sweep unless something names it.

        Returns whether there was one.
        """
        return await self._database.write(
            lambda connection: connection.execute(_DISCARD, (upload_id, owner)).rowcount > 0
        )

    async def get(self, digest: str) -> bytes:
        """The content."""
        content = await self._contents.read(digest)
        if content is None or sha256(content).hexdigest() != digest:
            state = "missing" if content is None else "damaged"
            raise FileUnavailable(state, f"{digest} in {self._contents.place}")
        return content

    async def of_thread(self, thread_id: str) -> list[Attachment]:
        """The files that a thread's messages name, oldest first, as far as they can be read."""
        rows = await self._database.read(lambda connection: connection.fetched(_OF_THREAD, (thread_id,)))
        return [attachment for row in readable(_Naming, rows) for attachment in row.files]

    async def expire(self, thread_id: str) -> None:
        """Let the next sweep delete what only this thread names, which is about to be deleted."""
        found = {attachment.digest: attachment for attachment in await self.of_thread(thread_id)}
        values = [(str(uuid4()), PINS, digest, json.dumps(each.json()), 0.0) for digest, each in found.items()]
        if values:
            await self._database.write(lambda connection: [connection.execute(_PIN, each) for each in values])

    async def delete_expired(self) -> None:
        """Delete the contents of expired uploads that nothing names."""
        before = self._clock() - UPLOAD_SECONDS

        def work(connection: Connection) -> None:
            digests = [row["digest"] for row in connection.fetched(_EXPIRED, (before,))]
            connection.execute(_DROP_EXPIRED, (before,))
            for digest in filter(_DIGEST.fullmatch, map(str, digests)):  # a damaged one names no content
                self._contents.lock(connection, digest)
                named = connection.execute(_IS_NAMED, (f'%"{digest}"%',)).fetchone()
                if not named and not connection.execute(_IS_UPLOADED, (digest,)).fetchone():
                    self._contents.delete(connection, digest)

        if await self._database.read(lambda connection: connection.execute(_EXPIRED, (before,)).fetchone()):
            await self._database.write(work)

    async def check(self) -> FilesReport:
        """Read every content that a task names."""
        rows = await self._database.read(lambda connection: connection.fetched(_ALL))
        naming = readable(_Naming, rows)
        named = {each.digest: f"{each.name} ({row.thread_id})" for row in naming for each in row.files if not each.url}
        size = 0
        lost: dict[str, list[str]] = {"missing": [], "damaged": []}
        for digest, name in named.items():
            try:
                size += len(await self.get(digest))
            except FileUnavailable as error:
                lost[str(error.params["state"])].append(name)
        return FilesReport(self._contents.place, len(named), size, tuple(lost["missing"]), tuple(lost["damaged"]))
