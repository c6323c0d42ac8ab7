"""The requests that OpenAI's clients send, as far as they are used, and the answers to them.

Source: OpenAI's API reference, "Create chat completion" and "List models".
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ...core.attachments import UPLOAD_SECONDS
from ...core.errors import InvalidMessage
from ..request_body import Items, Texts
from .content_parts import ContentPart, File


def _refuse(value: object) -> object:
    if value not in (None, False, [], {}):
        raise ValueError("it is not supported here, since the agent decides it: leave it out")
    return value


OfAgent = Annotated[Any, AfterValidator(_refuse)]
"""What belongs to the agent."""


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


class StreamOptions(BaseModel):
    """What a stream holds beside the answer."""

    include_usage: bool = False


class ResponseFormat(BaseModel):
    """The form of the answer."""

    type: Literal["text"]


class FunctionSpec(BaseModel):
    """What the model reads of a function."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="a JSON schema of an object")
    strict: bool | None = Field(default=None, description="accepted: arguments are checked in any case")


class FunctionTool(BaseModel):
    """A function that the client carries out."""

    type: Literal["function"]
    function: FunctionSpec


class OwnTools(BaseModel):
    """Whether the agent may call the client's tools, and whether several at once."""

    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: bool | None = None

    def offered(self, functions: Iterable[FunctionSpec]) -> list[dict[str, Any]]:
        """The functions as tools of a task; none where none may be called."""
        if self.tool_choice == "none":
            return []
        parallel = {"parallel": self.parallel_tool_calls is not False}
        return [{**each.model_dump(include={"name", "description", "parameters"}), **parallel} for each in functions]

    def check_with_result(self) -> None:
        """Refuse what a request cannot have that brings results.

        Raises:
            InvalidMessage.
        """
        if self.tool_choice == "none":
            raise InvalidMessage(
                "tool_choice 'none' cannot be honoured with a tool's result: its task was begun with tools."
            )


class CompletionRequest(OwnTools):
    """A conversation whose last message is new.

    `model` is an agent, or an agent and a mode: `support` or `support:plan`. Temperature and other settings of
    sampling belong to the agent and are ignored here.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "travel", "messages": [{"role": "user", "content": "规划北京三日游"}]}]
        }
    )

    model: str = Field(min_length=1, max_length=130)
    messages: Items[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    metadata: Texts | None = Field(default=None, description="`session_id` names the session")
    user: str | None = Field(default=None, description="names the session where nothing else does")
    response_format: ResponseFormat | None = None
    modalities: Items[Literal["text"]] | None = None
    tools: Items[FunctionTool] | None = None
    functions: OfAgent = None
    logprobs: OfAgent = None
    audio: OfAgent = None
    web_search_options: OfAgent = None

    @property
    def client_tools(self) -> list[dict[str, Any]]:
        """The tools that the client carries out, as `App.start` takes them."""
        return self.offered(tool.function for tool in self.tools or ())


class Usage(BaseModel):
    """The tokens of the whole task, as far as the endpoint counted them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class FunctionView(BaseModel):
    """What is called, with the arguments as JSON."""

    name: str
    arguments: str


class CallView(BaseModel):
    """A call of one of the client's functions."""

    id: str
    type: Literal["function"]
    function: FunctionView


class AnswerMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    annotations: list[Any]
    reasoning_content: str | None = None
    tool_calls: list[CallView] | None = None


class Choice(BaseModel):
    """The one answer of a completion."""

    index: Literal[0]
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop", "tool_calls"]


class TaskOfCompletion(BaseModel):
    """The task that answers: its status, and what it asks while it waits for a person."""

    task_id: str
    session_id: str
    status: str
    question: dict[str, Any] | None = None


class CompletionView(BaseModel):
    """A chat completion."""

    id: str = Field(examples=["chatcmpl-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    segue: TaskOfCompletion


Purpose = Literal["user_data", "vision", "assistants"]


class FileTerms(BaseModel):
    """What a file is for, and how long it is kept: the fields beside the file."""

    model_config = ConfigDict(extra="forbid")

    purpose: Purpose = "user_data"
    anchor: Literal["created_at"] = Field(default="created_at", alias="expires_after[anchor]")
    seconds: int = Field(
        default=int(UPLOAD_SECONDS), alias="expires_after[seconds]", ge=1, le=int(UPLOAD_SECONDS), strict=False
    )


class FileView(BaseModel):
    """A file that was uploaded."""

    id: str = Field(examples=["file-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"]


class FileList(BaseModel):
    """A page of the files."""

    object: Literal["list"]
    data: list[FileView]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ModelEntry(BaseModel):
    """An agent, or an agent in a mode."""

    id: str = Field(examples=["travel:plan"])
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """What `model` may be."""

    object: Literal["list"]
    data: list[ModelEntry]
