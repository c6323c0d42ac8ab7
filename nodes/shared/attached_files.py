"""The files of a request's messages: text becomes part of the prompt, images and PDFs are sent as parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from langchain_core.messages import BaseMessage

from segue.core.attachments import ATTACHMENTS, PARTS, Attachment, attached, kind_of, naming
from segue.core.errors import FileUnavailable
from segue.core.models import ModelRequest
from segue.passages import text_of

from .context import NodeContext
from .prompt_budget import truncate

LEAST_TOKENS = 200
"""A text is not truncated to less than this, but only named."""


async def with_files(work: NodeContext, request: ModelRequest) -> ModelRequest:
    """The request with what its messages' files come to.

    All files together have the agent's budget, those of the latest message first. A file that does not fit, that the
    model does not accept, or whose content is lost is named, with the reason.
    """
    if not any(ATTACHMENTS in message.additional_kwargs for message in request.messages):
        return request
    sent = _Sent(work, work.agent.budget.file_tokens)
    messages = [await sent.message(message) for message in reversed(request.messages)]
    return replace(request, messages=messages[::-1], files={**request.files, **sent.contents})


def size_of(forms: Sequence[Mapping[str, Any]], work: NodeContext) -> int:
    """Tokens that files take in a prompt, at most."""
    sent: int = sum(form["tokens"] for form in forms if kind_of(form["media_type"]) in ("text", *work.accepted))
    return min(sent, work.agent.budget.file_tokens)


@dataclass
class _Sent:
    """What is sent so far, the latest message first, and how many tokens are left."""

    work: NodeContext
    left: int
    contents: dict[str, bytes] = field(default_factory=dict)
    """Of the files that are sent as parts."""
    seen: set[str] = field(default_factory=set)

    async def message(self, message: BaseMessage) -> BaseMessage:
        """The message with the text of its files, and the names of the others."""
        if ATTACHMENTS not in message.additional_kwargs:
            return message
        rest = {name: value for name, value in message.additional_kwargs.items() if name != ATTACHMENTS}
        before, files = {*self.contents}, attached(message)
        blocks = [await self._block(file) for file in files]
        parts = [file.json() for file in files if file.digest in self.contents.keys() - before]
        text = "\n\n".join([message.text, *blocks])
        return message.model_copy(update={"content": text, "additional_kwargs": {**rest, **naming(parts, PARTS)}})

    async def _block(self, file: Attachment) -> str:
        name = f'name="{escape(file.name)}"'
        if why := self._why_left_out(file):
            return f'<file {name} omitted="{why}"/>'
        try:
            content = b"" if file.url else await self.work.services.files(file.digest)
        except FileUnavailable as error:
            return f'<file {name} omitted="its content is {error.params["state"]}"/>'
        room, self.left = self.left, max(0, self.left - file.tokens)
        self.seen.add(file.digest)
        if file.kind != "text":
            self.contents[file.digest] = content
            return f'<file {name} type="{file.media_type}"/>'
        text = text_of(content)
        most = len(text) if file.tokens <= room else len(text) * room // file.tokens
        return f"<file {name}>\n{truncate(text, most)}\n</file>"

    def _why_left_out(self, file: Attachment) -> str:
        if file.digest in self.seen:
            return "it is sent with a later message"
        if file.kind != "text" and file.kind not in self.work.accepted:
            return "the model does not accept it"
        least = LEAST_TOKENS if file.kind == "text" else file.tokens
        return "the files in a prompt are limited" if self.left < min(least, file.tokens) else ""
