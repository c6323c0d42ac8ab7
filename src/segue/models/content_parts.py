"""The parts of a message that are images and PDFs, in the form that LangChain's chat models translate."""

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.attachments import PARTS, Attachment, attached
from ..core.models import ModelRequest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


def messages_with_parts(request: ModelRequest) -> "list[BaseMessage]":
    """The request's messages, with the contents of the files that are sent as parts."""
    return [_with_parts(message, request.files) for message in request.messages]


def _with_parts(message: "BaseMessage", contents: Mapping[str, bytes]) -> "BaseMessage":
    files = attached(message, PARTS)
    if not files:
        return message
    text = {"type": "text", "text": message.text}
    parts = [text, *(_part(file, contents[file.digest]) for file in files)]
    return message.model_copy(update={"content": parts, "additional_kwargs": {}})


def _part(file: Attachment, content: bytes) -> dict[str, Any]:
    data = {"base64": b64encode(content).decode(), "mime_type": file.media_type}
    if file.kind == "image":
        return {"type": "image", **data}
    return {"type": "file", **data, "filename": file.name}
