"""The requests of OpenAI's responses and conversations, as far as they are used, and the answers to them.

Source: OpenAI's API reference, "Responses" and "Conversations".
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ..openai.bodies import ChatMessage, FunctionSpec, OfAgent, OwnTools
from ..openai.content_parts import ContentPart, FileData, ImageUrl
from ..request_body import Items, RequestBody, refuse_many_fields
from ..routes.dependencies import LONGEST, NAME

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
    BeforeValidator(refuse_many_fields),
]
ResponseId = Annotated[str, Field(max_length=200)]


def _no_items(value: object) -> object:
    if value:
        raise ValueError("a conversation is created empty: send its first message with its first response")
    return value


def _must_store(value: bool | None) -> bool | None:
    if value is False:
        raise ValueError(
            "a response is a task, which is stored: leave it out, and delete the conversation when it is read"
        )
    return value


Ignored = Annotated[Any, Field(description="accepted, without effect")]


class Part(BaseModel):
    """A part of an item."""

    type: Literal[
        "input_text", "input_image", "input_file", "output_text", "text", "refusal", "reasoning_text", "summary_text"
    ]
    text: str = ""
    image_url: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = Field(default=None, max_length=100)
    filename: str = "file"

    @property
    def chat_part(self) -> ContentPart:
        """The part as chat completions have it."""
        if self.file_id:
            return ContentPart(type="file", file=FileData(file_id=self.file_id))
        if self.type == "input_image":
            return ContentPart(type="image_url", image_url=ImageUrl(url=self.image_url or ""))
        if self.type == "input_file":
            return ContentPart(
                type="file", file=FileData(file_data=self.file_data or self.file_url or "", filename=self.filename)
            )
        return ContentPart(type="text", text=self.text)


class InputItem(BaseModel):
    """A message, a person's decision, a result, or an item of an earlier response, which is known by its id."""

    type: Literal[
        "message",
        "mcp_approval_response",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "reasoning",
        "function_call",
        "function_call_output",
        "item_reference",
    ] = "message"
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"] = "user"
    content: str | Items[Part] | None = None
    approval_request_id: str | None = Field(default=None, description="null in a call that nobody had to approve")
    approve: bool = False
    reason: str | None = None
    call_id: str = ""
    output: str | Items[Part] | None = Field(default=None, description="of a function_call_output: the result")

    @property
    def message(self) -> ChatMessage:
        """The message, or the result as a tool's message."""
        if self.type == "function_call_output":
            return ChatMessage(role="tool", content=_content(self.output), tool_call_id=self.call_id)
        return ChatMessage(role=self.role, content=_content(self.content))


def _content(given: str | list[Part] | None) -> str | list[ContentPart]:
    return given if isinstance(given, str) else [part.chat_part for part in given or ()]


class ConversationName(BaseModel):
    """A conversation, which is a session."""

    id: str = Field(pattern=NAME, max_length=LONGEST)


class TextFormat(BaseModel):
    """The form of the answer."""

    type: Literal["text"] = "text"


class TextConfig(BaseModel):
    """The form of the answer."""

    format: TextFormat | None = None
    verbosity: Ignored = None


class ReasoningConfig(BaseModel):
    """How the agent's thoughts are shown: as they are."""

    effort: OfAgent = None
    summary: Ignored = None


class ResponseTool(FunctionSpec):
    """A function that the client carries out."""

    type: Literal["function"]


class ResponseRequest(RequestBody, OwnTools):
    """What is asked of an agent: a message, a person's decisions on the calls that wait, or results of its tools."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "travel", "input": "你好"}]})

    model: str = Field(min_length=1, max_length=130)
    input: str | Items[InputItem] = Field(min_length=1)
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    previous_response_id: ResponseId | None = None
    conversation: Annotated[str, Field(pattern=NAME, max_length=LONGEST)] | ConversationName | None = None
    metadata: Metadata | None = None
    user: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)
    store: Annotated[bool | None, AfterValidator(_must_store)] = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    tools: Items[ResponseTool] | None = None
    temperature: OfAgent = None
    top_p: OfAgent = None
    top_logprobs: OfAgent = None
    max_output_tokens: OfAgent = None
    max_tool_calls: OfAgent = None
    prompt: OfAgent = None
    context_management: OfAgent = None
    moderation: OfAgent = None
    include: Ignored = None
    truncation: Ignored = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_options: Ignored = None
    prompt_cache_retention: Ignored = None
    stream_options: Ignored = None

    @property
    def client_tools(self) -> list[dict[str, Any]]:
        """The tools that the client carries out, as `App.start` takes them."""
        return self.offered(self.tools or ())

    @property
    def session_id(self) -> str | None:
        """The conversation that it names."""
        return self.conversation.id if isinstance(self.conversation, ConversationName) else self.conversation


class TaskOfResponse(BaseModel):
    """The task of a response: its status, and what it asks while it waits for a person."""

    task_id: str
    session_id: str
    status: str
    question: dict[str, Any] | None


class ResponseView(BaseModel, extra="allow"):
    """A response."""

    id: str = Field(examples=["resp_2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["response"]
    created_at: int
    model: str
    status: Literal["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]
    output: list[dict[str, Any]]
    previous_response_id: str | None
    conversation: ConversationName
    segue: TaskOfResponse


class ItemList(BaseModel):
    """A page of items."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(BaseModel):
    """What was deleted."""

    id: str
    object: Literal["response", "conversation.deleted", "file"]
    deleted: Literal[True]


class ConversationRequest(RequestBody):
    """A new conversation; its first message begins its first response."""

    metadata: Metadata | None = None
    items: Annotated[list[Any] | None, AfterValidator(_no_items)] = None


class ConversationChange(RequestBody):
    """The metadata that a conversation has from here on."""

    metadata: Metadata


class ConversationView(BaseModel):
    """A conversation, which is a session."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]
