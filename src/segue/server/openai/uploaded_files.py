"""Files that a client uploaded, and that its messages name by their ids."""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ...core.attachments import Upload
from ...core.errors import InvalidMessage
from ..service import Service
from ..settings import UPLOAD
from ..tenants import Tenant
from .bodies import ChatMessage
from .content_parts import FileData

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
            "The files that the messages name have more than {most} bytes: leave some out, or raise {setting}.",
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
