"""The parts of a client's message: text, images and files."""

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from ...core.errors import InvalidMessage

File = tuple[str, bytes]
"""A name and a content."""
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")
_NAMES = {
    "image/png": "image.png",
    "image/jpeg": "image.jpg",
    "image/gif": "image.gif",
    "image/webp": "image.webp",
    "application/pdf": "file.pdf",
}


class ImageUrl(BaseModel):
    """An image as a data: URL; other addresses are not fetched."""

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
    image_url: ImageUrl | None = None
    file: FileData | None = None

    @property
    def content(self) -> File | None:
        """The file that the part is.

        Raises:
            InvalidMessage: it is an address, it has no content, or that is not valid base64.
        """
        if self.type == "image_url":
            return file_of(self.image_url.url if self.image_url else "", "")
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
            "Files cannot join an unfinished task: wait for its answer, or cancel it, then send them again."
        )


def file_of(data: str, name: str) -> File:
    """The file of a data: URL or of base64; one without a name is called by its type.

    Raises:
        InvalidMessage: it is an address, it is empty, or it is not valid base64.
    """
    if not data:
        raise InvalidMessage("The file has no content: send it as a data: URL, or upload it.")
    if re.match(r"(?!data:)[a-z][a-z0-9+.-]*:", data[:20], re.IGNORECASE):
        raise InvalidMessage(
            "{url} is an address: Segue fetches none. Send the content as a data: URL.", url=data[:200]
        )
    head = _DATA.match(data[:200])
    try:
        content = b64decode(data[head.end() :] if head else data, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidMessage(
            "A data: URL of a file is not valid base64: write data:MEDIA/TYPE;base64,CONTENT."
        ) from error
    media_type = (head[1] or "") if head else ""
    return name or _NAMES.get(media_type, "file"), content
