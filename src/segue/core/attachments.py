"""Files of a message: their records and kinds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, with_config

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

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
    """The attachment of its form.

    Raises:
        ValueError: it is none.
    """
    return _FORM.validate_python(dict(form))


def kind_of(media_type: str) -> Kind:
    return "text" if media_type == "text/plain" else "pdf" if media_type == "application/pdf" else "image"


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
