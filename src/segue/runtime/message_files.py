"""Files that a message takes along: read, checked, stored before its task, and exported with its session."""

import asyncio
import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from ..checkpoints.files import PINS, Files, Uploads
from ..core.environment import whole_number
from ..core.errors import Clause, FileUnavailable, InvalidExport, InvalidMessage, UnsupportedFile
from ..core.message import (
    IMAGE_TOKENS,
    PDF_TOKENS,
    Attachment,
    FilesReport,
    Upload,
    kind_of,
    media_type_of,
    read_attachment,
)
from ..core.models import tokens
from ..core.records import Json
from ..passages import Unreadable, text_of

_MEGABYTE = 1024 * 1024
MOST_URL = 8192
"""Characters of the address of an image."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Uploaded:
    """A file that was uploaded before, by the id that the upload gave."""

    upload_id: str
    owner: str = ""


@dataclass(frozen=True)
class ImageUrl:
    """An image at an https address, which the model's endpoint fetches; nothing here does."""

    url: str


FileInput = str | Path | tuple[str, bytes] | Uploaded | ImageUrl | Attachment
"""A file of a message: its path, its name and content, an upload, an address, or a file of an earlier message."""


def fingerprint(given: FileInput) -> str:
    """A fingerprint that distinguishes the files of messages."""
    match given:
        case (str() as name, bytes() as content):
            return f"{name} {sha256(content).hexdigest()}"
    return str(given)


@dataclass(frozen=True)
class FileLimits:
    """What the files of messages may measure, in bytes."""

    file: int = 10 * _MEGABYTE
    """One file."""
    count: int = 10
    """Files of one message."""
    message: int = 20 * _MEGABYTE
    """All files of one message."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """The limits that the environment sets.

        Raises:
            ConfigurationError.
        """
        return cls(
            whole_number(environ, "SEGUE_FILE_MB", 10) * _MEGABYTE,
            whole_number(environ, "SEGUE_MESSAGE_FILES", 10),
            whole_number(environ, "SEGUE_MESSAGE_FILES_MB", 20) * _MEGABYTE,
        )


@dataclass(frozen=True)
class MessageFile:
    """A file that was read and described; without `content` it is stored already, maybe under an upload's id."""

    attachment: Attachment
    content: bytes | None = None
    upload: Uploaded | None = None


class MessageFiles:
    """The files of messages: what may go along, and where it is kept."""

    def __init__(self, store: Files, limits: FileLimits | None = None) -> None:
        self._store = store
        self.limits = limits or FileLimits()

    async def upload(self, name: str, content: bytes, owner: str = "", about: Mapping[str, Any] | None = None) -> Json:
        """Store a file for a message to come; returns its description with its `upload_id`.

        `about` may have the `purpose` and the `seconds` of an `Upload`.

        Raises:
            InvalidMessage: it is too large, or of another type.
            DatabaseUnavailable.
        """
        attachment = await asyncio.to_thread(self._describe, name, content)
        return {"upload_id": await self._store.put(attachment, content, owner, about), **attachment.json()}

    async def uploaded(self, upload_id: str, owner: str = "") -> Upload | None:
        """An upload that no message took along and that has not expired."""
        return await self._store.uploaded(upload_id, owner)

    async def uploads(self, owner: str = "") -> list[Upload]:
        """The uploads that no message took along and that have not expired, oldest first."""
        return await self._store.uploads(owner)

    async def discard(self, upload_id: str, owner: str = "") -> bool:
        """Delete an upload that no message took along; returns whether there was one."""
        found = await self._store.discard(upload_id, owner)
        await self._store.delete_expired()
        return found

    async def get(self, digest: str) -> bytes:
        """The content.

        Raises:
            FileUnavailable: it is missing or damaged.
        """
        return await self._store.get(digest)

    async def check(self) -> FilesReport:
        """Read every file that a message names."""
        return await self._store.check()

    async def of_session(self, session_id: str) -> list[Attachment]:
        """The files of a session's messages, oldest first."""
        return await self._store.of_thread(session_id)

    async def read(self, inputs: Sequence[FileInput]) -> list[MessageFile]:
        """Read and describe the files of a message.

        Raises:
            InvalidMessage: one of them cannot be read, is of another type, or they are too many or too large.
        """
        if len(inputs) > self.limits.count:
            raise InvalidMessage(
                "The message has {count} files; the limit is {most}: send fewer, or raise SEGUE_MESSAGE_FILES.",
                count=len(inputs),
                most=self.limits.count,
            )
        files = [await self._read(each) for each in inputs]
        if (size := sum(file.attachment.size for file in files)) > self.limits.message:
            raise InvalidMessage(
                "The message's files have {size} bytes; the limit is {most}: send fewer, or raise "
                "SEGUE_MESSAGE_FILES_MB.",
                size=size,
                most=self.limits.message,
            )
        return files

    async def _read(self, given: FileInput) -> MessageFile:
        match given:
            case Attachment():
                return MessageFile(given)
            case ImageUrl():
                if len(given.url) > MOST_URL or not given.url.startswith("https://"):
                    raise InvalidMessage(
                        "The address of an image must be an https URL of up to {most} characters.", most=MOST_URL
                    )
                return MessageFile(Attachment.at(given.url))
            case Uploaded():
                found = await self._store.uploaded(given.upload_id, given.owner)
                if found is None:
                    raise InvalidMessage(
                        "There is no upload {upload_id}: it was sent with a message, or is older than a day. Upload "
                        "the file again.",
                        upload_id=given.upload_id,
                    )
                return MessageFile(found.attachment, upload=given)
            case (str() as name, bytes() as content):
                return MessageFile(await asyncio.to_thread(self._describe, name, content), content)
            case str() | Path():
                return await asyncio.to_thread(self._of_path, Path(given))
        raise InvalidMessage(
            "A file is {kind}: give a path, or its name and its content as (str, bytes).", kind=type(given).__name__
        )

    def _of_path(self, path: Path) -> MessageFile:
        try:
            with path.open("rb") as file:
                content = file.read(self.limits.file + 1)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InvalidMessage("The file {path} cannot be read: {reason}.", path=path, reason=why) from error
        return MessageFile(self._describe(path.name, content), content)

    def _describe(self, name: str, content: bytes) -> Attachment:
        # without folders and without characters that are not shown
        name = _UNPRINTABLE.sub("", re.split(r"[/\\]", name)[-1]).strip()[-255:] or "file"
        if not content:
            raise InvalidMessage("The file {name} is empty.", name=name)
        if len(content) > self.limits.file:
            raise InvalidMessage(
                "The file {name} has more than {most} bytes: send a smaller one, or raise SEGUE_FILE_MB.",
                name=name,
                most=self.limits.file,
            )
        media_type = media_type_of(content) or "text/plain"
        counted = IMAGE_TOKENS if kind_of(media_type) == "image" else PDF_TOKENS
        if media_type == "text/plain":
            try:
                counted = tokens(text_of(content))
            except Unreadable as error:
                raise UnsupportedFile(
                    "The file {name} has a type that models cannot read: send text, PNG, JPEG, GIF, WebP or PDF.",
                    name=name,
                ) from error
        digest = sha256(content).hexdigest()
        return Attachment(digest=digest, name=name, media_type=media_type, size=len(content), tokens=counted)

    @asynccontextmanager
    async def kept(self, files: Sequence[MessageFile]) -> AsyncIterator[tuple[list[Json], Uploads]]:
        """Keep the contents while a task that names them is stored; what an upload gave stays if none was.

        Gives the forms of the files, and the uploads that the task takes along.
        """
        pinned: list[tuple[str, str]] = []
        try:
            for file in files:
                if file.upload is None and not file.attachment.url:
                    pinned.append((await self._store.put(file.attachment, file.content), PINS))
            given = [(file.upload.upload_id, file.upload.owner) for file in files if file.upload]
            yield [file.attachment.json() for file in files], [*given, *pinned]
        except BaseException:
            await _unpin(self._store, pinned)
            raise


async def _unpin(store: Files, pinned: Uploads) -> None:
    for upload in pinned:
        await store.discard(*upload)


def check_accepted(files: Sequence[MessageFile], accepted: Collection[str], model: str) -> None:
    """Refuse what the model does not read.

    Raises:
        UnsupportedFile: naming the file and the setting.
    """
    for file in files:
        kind = file.attachment.kind
        if kind != "text" and kind not in accepted:
            raise UnsupportedFile(
                "The model {model} does not accept {kinds}: leave out {name}, choose another model, or, if it does, "
                'set accepts = ["{kind}"] on the agent, or SEGUE_ACCEPTS={kind}.',
                model=model,
                kinds=Clause({"image": "images", "pdf": "PDF files"}[kind]),
                name=file.attachment.name,
                kind=kind,
            )


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
async def imported_files(store: Files, document: Any) -> AsyncIterator[Uploads]:
    """Store a document's files, and keep them until the tasks that name them are stored, which take these along.

    Raises:
        InvalidExport: a file is missing, or its content is not what its digest says; nothing was stored.
    """
    contents = [(attachment, _content(attachment, document)) for attachment in _named(document)]
    pinned: list[tuple[str, str]] = []
    try:
        for attachment, content in contents:
            if content is not None:
                pinned.append((await store.put(attachment, content), PINS))
        yield pinned
    except BaseException:
        await _unpin(store, pinned)
        raise


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
