"""What a request of OpenAI's clients asks of the reply: the fields that chat completions and responses share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from ...core.records import Json
from ...core.reply_options import AnswerFormat, ModelSettings, ReplyOptions, check_choice, check_schema
from ..request_body import Items

MOST_TOKENS = 10_000_000


def _refuse(value: object) -> object:
    if value not in (None, False, [], {}):
        raise ValueError("it is not supported here, since the agent decides it: leave it out")
    return value


OfAgent = Annotated[Any, AfterValidator(_refuse)]
"""What belongs to the agent."""
Ignored = Annotated[Any, Field(description="accepted, without effect")]
Tokens = Annotated[int | None, Field(ge=1, le=MOST_TOKENS)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
SchemaForm = Annotated[dict[str, Any], AfterValidator(check_schema)]


class FunctionSpec(BaseModel):
    """What the model reads of a function."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="a JSON schema of an object")
    strict: bool | None = Field(default=None, description="accepted: arguments are checked in any case")


class NamedFunction(BaseModel):
    """The name of one of the request's functions."""

    name: str


class FunctionChoice(BaseModel):
    """One of the request's functions: chat completions name it in `function`, responses in `name`."""

    type: Literal["function"] = "function"
    name: str = ""
    function: NamedFunction | None = None

    @property
    def named(self) -> str:
        return self.function.name if self.function else self.name


class AllowedTools(BaseModel):
    """The functions that may be called, or of which one has to be."""

    mode: Literal["auto", "required"] = "auto"
    tools: Items[FunctionChoice] = []


class ToolChoice(AllowedTools):
    """A function that has to be called, or `allowed_tools`."""

    type: Literal["function", "allowed_tools"]
    name: str = ""
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.type == "function" and not (self.name or self.function):
            raise ValueError("it names no function")
        return self

    @property
    def allowed(self) -> AllowedTools:
        return self.allowed_tools or self


class JsonSchema(BaseModel):
    """A schema of the answer."""

    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    schema_: SchemaForm | None = Field(default=None, alias="schema")
    strict: bool | None = None

    @property
    def answer_format(self) -> AnswerFormat:
        given = {"json_schema": self.schema_} if self.schema_ else {}
        return AnswerFormat(name=self.name, strict=bool(self.strict), **given)


class ReplyFields(BaseModel):
    """The fields of both surfaces."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    tool_choice: Literal["auto", "none", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: OfAgent = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None

    def _functions(self) -> Sequence[FunctionSpec]:
        """The functions that the client carries out."""
        return ()

    def _answer_format(self) -> AnswerFormat | None:
        """The form of the answer, where it is not plain text."""
        return None

    def _settings(self) -> Mapping[str, Any]:
        """Settings of the model that are named differently on each surface."""
        return {}

    @property
    def client_tools(self) -> list[Json]:
        """The tools that the client carries out, as `App.start` takes them; none where none may be called.

        Raises:
            InvalidReplyOption: the request allows tools that it does not have.
        """
        functions: Iterable[FunctionSpec] = self._functions()
        if self.tool_choice == "none":
            return []
        if isinstance(self.tool_choice, ToolChoice) and self.tool_choice.type == "allowed_tools":
            allowed = [choice.named for choice in self.tool_choice.allowed.tools]
            known = {each.name: each for each in functions}
            check_choice(allowed, known)
            functions = [known[name] for name in allowed]
        parallel = {"parallel": self.parallel_tool_calls is not False}
        return [{**each.model_dump(include={"name", "description", "parameters"}), **parallel} for each in functions]

    def reply_options(self, instructions: Sequence[str]) -> ReplyOptions:
        """What is asked of the reply; `instructions` are the texts of the system messages."""
        shared = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
        return ReplyOptions(
            instructions=[text for text in instructions if text.strip()],
            answer_format=self._answer_format(),
            tool_choice=self._choice(),
            settings=ModelSettings(**{name: getattr(self, name) for name in shared}, **self._settings()),
        )

    def _choice(self) -> str:
        choice = self.tool_choice
        if not isinstance(choice, ToolChoice):
            return "" if choice in (None, "auto") else choice
        if choice.type == "function":
            return choice.function.name if choice.function else choice.name
        return "required" if choice.allowed.mode == "required" else ""
