"""What goes along with a message: files, and what it asks of its reply: instructions, a form, calls, settings."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, with_config

from .decision import check_storable, read_object
from .errors import InvalidMessage, InvalidReplyOption, UnreadableReply
from .json import Outline, inlined

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


# Files of a message: their records and kinds.

Kind = Literal["text", "image", "pdf"]
MediaType = Literal["text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]

ATTACHMENTS = "attachments"
"""Where a message of the state names its files."""
PARTS = "parts"
"""Where a message of a request names the files that are sent as parts of it."""
IMAGE_TOKENS = 1_000
"""Tokens that an image counts for."""
PDF_TOKENS = 4_000
"""Tokens that a PDF counts for."""
UPLOAD_SECONDS = 24 * 3600.0
"""How long an upload is kept that no message names."""

USER_DATA = "user_data"
"""What an upload is for that does not say so."""

_BY_SUFFIX: Final[Mapping[str, MediaType]] = {".png": "image/png", ".gif": "image/gif", ".webp": "image/webp"}
_SIGNATURES: Final[tuple[tuple[bytes, MediaType], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_TEXTS = re.compile(
    r"(text/.+|application/((x-)?(yaml|toml|ndjson|javascript|sh|sql)|json|xml|octet-stream|.+\+(json|xml|yaml)))?"
)
"""The media types of texts, of none, and of any content."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file of a message. Its content is stored once, by its digest; an image at an https `url` is not stored.

    `tokens` is about what it counts for in a prompt.
    """

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: Annotated[str, Field(min_length=1, max_length=255)]
    media_type: MediaType
    size: Annotated[int, Field(ge=0, lt=2**40)]
    tokens: Annotated[int, Field(ge=0, lt=2**40)]
    url: Annotated[str, Field(pattern=r"^(https://.*)?$")] = ""

    @classmethod
    def at(cls, url: str) -> Self:
        """An image at an address, whose type its name tells as far as it does."""
        name = PurePosixPath(unquote(urlsplit(url).path)).name[-255:] or "image"
        digest = sha256(url.encode(errors="surrogatepass")).hexdigest()
        media_type = _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), "image/jpeg")
        return cls(digest=digest, name=name, media_type=media_type, size=0, tokens=IMAGE_TOKENS, url=url)

    @property
    def kind(self) -> Kind:
        return kind_of(self.media_type)

    def json(self) -> dict[str, Any]:
        """The form in rows, states and responses."""
        form = asdict(self)
        return form if self.url else {name: value for name, value in form.items() if name != "url"}


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded for messages to come, in Unix seconds."""

    upload_id: str
    attachment: Attachment
    created_at: float
    purpose: str = USER_DATA
    seconds: float = UPLOAD_SECONDS
    """How long it is kept."""

    @property
    def expires_at(self) -> float:
        return self.created_at + self.seconds


@dataclass(frozen=True)
class FilesReport:
    """The contents that tasks name; `missing` and `damaged` are names of files, with their sessions."""

    place: str
    count: int = 0
    size: int = 0
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


_FORM: TypeAdapter[Attachment] = TypeAdapter(Attachment)


def read_attachment(form: Any) -> Attachment:
    return _FORM.validate_python(dict(form))


def kind_of(media_type: str) -> Kind:
    return "text" if media_type == "text/plain" else "pdf" if media_type == "application/pdf" else "image"


def declared_kind(media_type: str) -> Kind | None:
    """The kind of a part by the type that its sender declares; None for a type that no model reads.

    A type that says nothing of its content is a text until `media_type_of` has seen it.
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        return "image"
    if kind == "application/pdf":
        return "pdf"
    return "text" if _TEXTS.fullmatch(kind) else None


def media_type_of(content: bytes) -> MediaType | None:
    """The type of an image or a PDF by its first bytes; None for anything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _SIGNATURES if content.startswith(signature)), None)


def attached(message: "BaseMessage", where: str = ATTACHMENTS) -> list[Attachment]:
    """The files that a message names."""
    return [read_attachment(form) for form in message.additional_kwargs.get(where, ())]


def naming(forms: Sequence[Mapping[str, Any]], where: str = ATTACHMENTS) -> dict[str, Any]:
    """What a message holds beside its text to name files."""
    return {where: [dict(form) for form in forms]} if forms else {}


# What a message asks of its reply: instructions, the form of the answer, required calls, and a model's settings.

_MOST_SCHEMA_BYTES = 64 * 1024
_MOST_SCHEMA_VALUES = 2000
_MOST_COMPARISONS = 500_000
"""Of an answer with its schema, which may refer to itself: they take about half a second."""
_KEYWORD = 20
"""Comparisons that take as long as one keyword of a schema."""
_UNCHECKED = ("pattern", "format")
"""Keywords of a schema that are not checked: a regular expression from elsewhere may take forever."""
_UNSUPPORTED = (
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$anchor",
    "$dynamicAnchor",
)
_OF_WHOLE = ("$schema", "$id")
"""Keywords that only a whole schema may have, where they have no effect."""
_CALLING = ("react", "plan_react", "auto")
"""Modes in which a reply can be required to call a tool."""
_UNPLANNED = ("direct", "lifecycle")
"""Modes without a plan that a person could review."""
_ONLY_OBJECTS = {"type": "object"}


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer, if it can be used."""
    try:
        check_storable(schema)
        text = json.dumps(schema, ensure_ascii=False).encode()
        if len(text) > _MOST_SCHEMA_BYTES or Outline.of(text, _MOST_SCHEMA_VALUES).values > _MOST_SCHEMA_VALUES:
            raise ValueError(f"it has more than {_MOST_SCHEMA_BYTES} bytes or {_MOST_SCHEMA_VALUES} values")
        _check_text(text)
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"it is not a JSON schema: {error}") from None
    return schema


@lru_cache(maxsize=64)
def _check_text(text: bytes) -> None:
    """Refuse a schema; one that is not is remembered, as each request of its task reads it again."""
    from jsonschema import Draft202012Validator, SchemaError

    schema = json.loads(text)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"it is not a JSON schema: {error.message[:200]}") from None
    _check_keywords(schema)
    inlined(schema)


def _check_keywords(schema: dict[str, Any]) -> None:
    """Refuse keywords that are not supported, and references that lead to no schema."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    parts: list[Any] = [schema]
    for part in parts:  # grows
        if isinstance(part, Mapping):
            parts += DRAFT202012.subresources_of(part)
    known = {id(part) for part in parts}
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(_whole(schema)))
    for part in (part for part in parts if isinstance(part, Mapping)):
        for keyword in part.keys() & {*_UNSUPPORTED, *(_OF_WHOLE if part is not schema else ())}:
            raise ValueError(f"{keyword} is not supported{' inside a schema' if keyword in _OF_WHOLE else ''}")
        try:
            reachable = "$ref" not in part or part["$ref"] == "#" or id(resolver.lookup(part["$ref"]).contents) in known
        except (Unresolvable, ValueError):
            reachable = False
        if not reachable:
            raise ValueError(f"the $ref {part['$ref'][:100]} does not lead to a schema inside this one")


def _whole(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword not in _OF_WHOLE}


def check_choice(names: Iterable[str], client_tools: Collection[str]) -> None:
    """Refuse a choice of tools that the request does not have."""
    for name in names:
        if name not in client_tools:
            raise InvalidReplyOption(
                "The tool_choice is {name}, which is not a tool of the request.", option="tool_choice", name=name
            )


class AnswerFormat(BaseModel):
    """The JSON that the answer is to be: an object that fits `json_schema`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "answer"
    json_schema: Annotated[dict[str, Any], AfterValidator(check_schema)] = Field(
        default_factory=lambda: dict(_ONLY_OBJECTS)
    )
    strict: bool = False
    """Whether an endpoint that can is told to keep to the schema. The answer is checked in either case."""

    def read(self, text: str) -> dict[str, Any]:
        """The object of an answer."""
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        found = read_object(text)
        token = _comparisons.set(iter(range(_MOST_COMPARISONS)))
        try:
            error = best_match(_validator(self.json_schema).iter_errors(found))
        except (Unresolvable, RecursionError) as unusable:
            raise UnreadableReply(f"The schema of the answer cannot be used: {unusable}.") from unusable
        finally:
            _comparisons.reset(token)
        if error is not None:
            raise UnreadableReply(f"{error.json_path}: {error.message[:500]}")
        return found


def _validator(schema: Mapping[str, Any]) -> Any:
    from referencing import Registry

    return _rules()(_whole(schema), registry=Registry())


_comparisons: ContextVar[Iterator[int]] = ContextVar("_comparisons")
"""Those that are left for an answer."""


def _count(number: int) -> None:
    """Count comparisons, or what takes as long."""
    if next(islice(_comparisons.get(), number, None), None) is None:
        raise UnreadableReply(
            f"Its check against the schema takes more than {_MOST_COMPARISONS:,} comparisons: write a shorter answer."
        )


def _counted(check: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterator[Any]]:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _count(_KEYWORD + sum(len(each) for each in (value, instance) if isinstance(each, list | dict)))
        for error in check(validator, value, instance, schema) or ():
            _count(len(error.message) // 100)
            yield error

    return counted


def _check_unique(validator: Any, value: bool, instance: Any, schema: Any) -> Iterator[Any]:
    """As jsonschema does, which takes a time that grows with the square of the number of items."""
    from jsonschema import ValidationError

    items = instance if value and isinstance(instance, list) else []
    if len({json.dumps(item, sort_keys=True) for item in items}) < len(items):
        yield ValidationError("it has items that are equal")


@lru_cache(maxsize=1)
def _rules() -> Any:
    """A validator that fetches nothing, matches no patterns, and counts what it does."""
    from jsonschema import Draft202012Validator, validators

    checked = {name: check for name, check in Draft202012Validator.VALIDATORS.items() if name not in _UNCHECKED}
    rules = {name: _counted(check) for name, check in {**checked, "uniqueItems": _check_unique}.items()}
    return validators.create(Draft202012Validator.META_SCHEMA, rules, type_checker=Draft202012Validator.TYPE_CHECKER)


class ModelSettings(BaseModel):
    """Settings of the model calls of a task, in place of the agent's; None leaves one as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: list[str] | None = None
    max_tokens: int | None = None
    """Of each reply. An answer that reaches it ends there."""
    reasoning_effort: str | None = None
    verbosity: str | None = None

    def given(self) -> dict[str, Any]:
        """Those that are set, by their names in chat completions."""
        return self.model_dump(exclude_none=True)


_MOST_MEMORY_FILES = 50
"""Memory files that a caller may name."""
MemoryPaths = Annotated[dict[str, str], Field(max_length=_MOST_MEMORY_FILES)]
"""The paths of memory files by their names, as a body or an agents file gives them."""


def check_memory_files(given: Any) -> dict[str, str]:
    """The paths of memory files by their names, as a caller gives them."""
    files = {} if given is None else given
    texts = [*files, *files.values()] if isinstance(files, Mapping) else [None]
    if not all(isinstance(text, str) and text for text in texts) or len(files) > _MOST_MEMORY_FILES:
        raise InvalidMessage(
            "The memory_files cannot be read: give the paths of at most {most} files by their names, such as {form}.",
            most=_MOST_MEMORY_FILES,
            form='{"rules": "rules.md"}',
        )
    return dict(files)


PERSONS = ("ask_user", "review_plan")
"""The options of `ReplyOptions` that say what a task asks a person, which a message may name by themselves."""


class ReplyOptions(BaseModel):
    """What a message asks of its reply, for every model call of its task.

    `tool_choice` is empty where the model decides, `none` where it may call none of the client's tools, `required`
    where its reply has to call one of them, and the name of the one that it has to call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    instructions: list[str] = []
    """System messages that follow the agent's own prompt."""
    answer_format: AnswerFormat | None = None
    tool_choice: str = ""
    settings: ModelSettings = ModelSettings()
    most_calls: int | None = None
    """Tool calls at most, where the task is part of another one's budget."""
    most_seconds: float | None = None
    """Seconds at most, where the task is part of another one's budget."""
    memory_files: dict[str, str] = {}
    """The paths of memory files by their names, for the flow that carries the task."""
    ask_user: bool | None = None
    """Whether the task may ask the user a question; None: as its agent does."""
    review_plan: bool | None = None
    """Whether a person reviews its plan before it runs; None: as its agent says."""
    remember: bool = True
    """Whether what the message says of its user is remembered."""
    known: list[str] = []
    """What the user said of themselves before, as every prompt of the task has it."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        return cls.model_validate(stored)

    def json(self) -> dict[str, Any]:  # type: ignore[override]
        """The form in rows; empty where nothing is asked."""
        return self.model_dump(exclude_defaults=True)

    @property
    def required_tool(self) -> str:
        """`required`, the name of a tool, or empty where no call is required."""
        return "" if self.tool_choice == "none" else self.tool_choice

    @property
    def for_part(self) -> Self:
        """What holds for a part of the task, whose answer is not the task's."""
        return self.model_copy(update={"answer_format": None, "tool_choice": "", "memory_files": {}})

    def may_ask(self, agent_asks: bool) -> bool:
        """Whether the task may ask the user a question: the message decides, else the agent."""
        return agent_asks if self.ask_user is None else self.ask_user

    def check(self, agent_id: str, protocol: str, mode: str, client_tools: Collection[str]) -> None:
        """Refuse what cannot be done by an agent with this protocol in a mode."""
        if self.review_plan and mode in _UNPLANNED:
            raise InvalidReplyOption(
                "The mode {mode} makes no plan to review: use the mode plan, plan_react or react, or leave out "
                "review_plan.",
                option="review_plan",
                mode=mode,
            )
        required = self.required_tool
        if required and mode not in _CALLING:
            raise InvalidReplyOption(
                "The mode {mode} cannot be required to call a tool: use the mode react, or tool_choice auto.",
                option="tool_choice",
                mode=mode,
            )
        if required and not client_tools:
            raise InvalidReplyOption(
                "The tool_choice requires a call, but the request has no tools.", option="tool_choice"
            )
        if required not in ("", "required"):
            check_choice([required], client_tools)
        if self.settings.stop and protocol == "json" and mode not in ("direct", "plan"):
            raise InvalidReplyOption(
                "The replies of agent {agent} in mode {mode} are JSON, which stop would truncate: leave "
                'out stop, set protocol = "native" on the agent, or use the mode direct.',
                option="stop",
                agent=agent_id,
                mode=mode,
            )

    def after(self, earlier: Self) -> Self:
        """The options of a request that continues a task: its instructions stay unless there are new ones."""
        of_task = ("memory_files", "remember", "known", *PERSONS)
        kept: dict[str, Any] = {name: getattr(earlier, name) for name in of_task}
        return self.model_copy(update={**kept, "instructions": self.instructions or earlier.instructions})
