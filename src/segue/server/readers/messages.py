"""Messages of OpenAI's clients: their texts, images and files."""

import binascii
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field

from ...core.attachments import Upload
from ...core.errors import InvalidMessage
from ...runtime.message_files import ImageUrl
from ..request_body import Items
from ..service import Service
from ..settings import UPLOAD
from ..tenants import Tenant

File = tuple[str, bytes] | ImageUrl
"""A name and a content, or the address of an image."""
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")
_NAMES = {
    "image/png": "image.png",
    "image/jpeg": "image.jpg",
    "image/gif": "image.gif",
    "image/webp": "image.webp",
    "application/pdf": "file.pdf",
}


class ImagePart(BaseModel):
    """An image as a data: URL, or at an https address, which the model's endpoint fetches."""

    url: str


class FileData(BaseModel):
    """A file as a data: URL, or in base64; or one that was uploaded."""

    file_data: str = ""
    file_id: str = Field(default="", max_length=100)
    filename: str = "file"


class ContentPart(BaseModel):
    """A part of a message."""

    type: Literal["text", "image_url", "file"]
    text: str = ""
    image_url: ImagePart | None = None
    file: FileData | None = None

    @property
    def content(self) -> File | None:
        """The file that the part is.

        Raises:
            InvalidMessage: it is an address, it has no content, or that is not valid base64.
        """
        if self.type == "image_url":
            return image_of(self.image_url.url if self.image_url else "", "")
        if self.type == "file":
            return file_of(self.file.file_data, self.file.filename) if self.file else file_of("", "")
        return None


def refuse_files(files: Sequence[File]) -> None:
    """Refuse files with an answer.

    Raises:
        InvalidMessage.
    """
    if files:
        raise InvalidMessage(
            "Files cannot be added to an unfinished task: wait for its answer, or cancel it, then send them again."
        )


def image_of(url: str, name: str) -> File:
    """The image at an https address, which the model's endpoint fetches, or that of a data: URL.

    Raises:
        InvalidMessage: as those of `file_of`.
    """
    return ImageUrl(url) if url.startswith("https://") else file_of(url, name)


def file_of(data: str, name: str) -> tuple[str, bytes]:
    """The file of a data: URL or of base64; one without a name is called by its type.

    Raises:
        InvalidMessage: it is an address, it is empty, or it is not valid base64.
    """
    if not data:
        raise InvalidMessage("The file has no content: send it as a data: URL, or upload it.")
    if re.match(r"(?!data:)[a-z][a-z0-9+.-]*:", data[:20], re.IGNORECASE):
        raise InvalidMessage("Segue does not fetch {url}: send the content as a data: URL.", url=data[:200])
    head = _DATA.match(data[:200])
    try:
        content = b64decode(data[head.end() :] if head else data, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidMessage(
            "A data: URL of a file is not valid base64: write data:MEDIA/TYPE;base64,CONTENT."
        ) from error
    media_type = (head[1] or "") if head else ""
    return name or _NAMES.get(media_type, "file"), content


class MadeCall(BaseModel):
    """A call that the client carried out; the session knows the rest of it."""

    id: str


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Items[ContentPart] | None = None
    tool_calls: Items[MadeCall] | None = Field(default=None, description="of an assistant's message")
    tool_call_id: str | None = Field(default=None, description="of a tool's message: the call that it is the result of")

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""

    @property
    def files(self) -> list[File]:
        """The files of the message.

        Raises:
            InvalidMessage: one is an address, or not valid base64.
        """
        parts = self.content if isinstance(self.content, list) else []
        return [file for part in parts if (file := part.content)]


_PREFIX = "file-"


def file_id_of(upload_id: str) -> str:
    """OpenAI's id of an upload."""
    return f"{_PREFIX}{upload_id}"


def upload_id_of(file_id: str) -> str:
    """The upload that OpenAI's id names."""
    return file_id.removeprefix(_PREFIX)


async def with_contents(service: Service, tenant: Tenant, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages with the contents of the files that they name by id.

    Raises:
        InvalidMessage: there is no such file, or they are more than a body may hold.
    """
    named = Counter(file_id for message in messages for file_id in _named(message))
    uploads = {file_id: await _upload(service, tenant, file_id) for file_id in named}
    most = service.settings.upload_bytes
    if sum(uploads[file_id].attachment.size * times for file_id, times in named.items()) > most:
        raise InvalidMessage(
            "The files of the messages have more than {most} bytes: leave some out, or raise {setting}.",
            most=most,
            setting=UPLOAD,
        )
    files = {file_id: await _with_content(service, upload) for file_id, upload in uploads.items()}
    return [_filled(message, files) for message in messages]


def _named(message: ChatMessage) -> Iterator[str]:
    parts = message.content if isinstance(message.content, list) else ()
    return (part.file.file_id for part in parts if part.file and part.file.file_id)


async def _upload(service: Service, tenant: Tenant, file_id: str) -> Upload:
    upload = await service.app.files.uploaded(upload_id_of(file_id), tenant.prefix)
    if upload is None:
        raise InvalidMessage(
            "There is no file {file_id}: it was deleted, or is older than a day. Upload it again.", file_id=file_id
        )
    return upload


async def _with_content(service: Service, upload: Upload) -> FileData:
    content = await service.app.files.get(upload.attachment.digest)
    return FileData(file_data=b64encode(content).decode(), filename=upload.attachment.name)


def _filled(message: ChatMessage, files: Mapping[str, FileData]) -> ChatMessage:
    if not isinstance(message.content, list):
        return message
    parts = [
        part.model_copy(update={"file": files[part.file.file_id]}) if part.file and part.file.file_id else part
        for part in message.content
    ]
    return message.model_copy(update={"content": parts})
