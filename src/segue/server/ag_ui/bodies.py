"""The request that AG-UI's clients send, as far as it is used.

Source: `RunAgentInput` of the package `ag-ui-protocol` 1.0.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ..openai.content_parts import File, file_of
from ..request_body import Items
from ..routes.dependencies import LONGEST, NAME

_CAMEL = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class PartSource(BaseModel):
    """Where the content of a part is: in base64 in `value`, or at an address."""

    model_config = _CAMEL

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None

    @property
    def url(self) -> str:
        """The content as a data: URL, or its address; empty for a file that a provider keeps."""
        if self.type == "data":
            return f"data:{(self.mime_type or '').split(';')[0]};base64,{self.value}"
        return self.value if self.type == "url" else ""


class MessagePart(BaseModel):
    """A part of a user's message; `binary` is that of clients before 1.0."""

    model_config = _CAMEL

    type: Literal["text", "image", "document", "audio", "video", "binary"]
    text: str = ""
    source: PartSource | None = None
    metadata: Any = Field(default=None, description="of a file {filename}")
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    filename: str | None = None

    @property
    def file(self) -> File | None:
        """The file that the part is.

        Raises:
            InvalidMessage: it is an address, it has no content, or that is not valid base64.
        """
        if self.type == "text":
            return None
        source = self.source
        if source is None:
            kind: Literal["data", "url"] = "data" if self.data else "url"
            source = PartSource(type=kind, value=self.data or self.url or "", mime_type=self.mime_type)
        named = self.metadata.get("filename") if isinstance(self.metadata, dict) else self.filename
        return file_of(source.url, named if isinstance(named, str) else "")


class RunMessage(BaseModel):
    """A message of the thread; the session knows the earlier ones."""

    model_config = _CAMEL

    role: str
    content: str | Items[MessagePart] | dict[str, Any] | None = None
    tool_call_id: str | None = Field(default=None, description="of a tool's message: the call that it is the result of")
    error: str | None = Field(default=None, description="of a tool's message: why the call failed")

    @property
    def text(self) -> str:
        """The text of a user's message."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content if isinstance(self.content, str) else ""

    @property
    def files(self) -> list[File]:
        """The files of a user's message.

        Raises:
            InvalidMessage: as those of its parts.
        """
        parts = self.content if isinstance(self.content, list) else []
        return [file for part in parts if (file := part.file)]


class ResumeEntry(BaseModel):
    """The answer to an interrupt that ended an earlier run."""

    model_config = _CAMEL

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = Field(default=None, description="to an approval {verdict, reason}, to a question {answer} or a text")


class FrontendTool(BaseModel):
    """A tool that the front end carries out."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = Field(default=None, description="a JSON schema of an object")


class ContextEntry(BaseModel):
    """What the application tells the agent beside the message."""

    description: str
    value: str


class ForwardedProps(BaseModel):
    """What the application passes to the agent."""

    mode: str | None = Field(default=None, max_length=64)


class RunInput(BaseModel):
    """A run: the last message is new, or `resume` answers what the last run ended with."""

    model_config = ConfigDict(
        **_CAMEL,
        json_schema_extra={
            "examples": [
                {"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "你好"}]}
            ]
        },
    )

    thread_id: str = Field(pattern=NAME, max_length=LONGEST, description="the session")
    run_id: str = Field(min_length=1, max_length=200, description="the same run again streams the same task")
    messages: Items[RunMessage]
    resume: Items[ResumeEntry] | None = None
    tools: Items[FrontendTool] | None = None
    context: Items[ContextEntry] | None = Field(default=None, description="goes along with the message as a file")
    state: Any = Field(default=None, description="an object is part of each STATE_SNAPSHOT")
    forwarded_props: ForwardedProps | None = None

    @property
    def context_file(self) -> list[File]:
        """The context as a file of the message; none where it is empty."""
        text = "\n\n".join(f"## {entry.description}\n\n{entry.value}" for entry in self.context or ())
        return [("context.md", text.encode())] if text else []

    @property
    def own_state(self) -> dict[str, Any]:
        """The application's state, where it is an object."""
        return self.state if isinstance(self.state, dict) else {}
