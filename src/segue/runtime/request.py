"""A message and its options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, Self, TypedDict

from ..checkpoints.tables.request_keys import RequestKeys
from ..core.errors import InvalidMessage, KeyUsed, UnknownOption
from ..core.records import KnownRequest, RequestKey
from .message_files import FileInput, fingerprint


class MessageOptions(TypedDict, total=False):
    """The options of `App.start`, `App.chat` and `App.ask`."""

    session_id: str | None
    """The conversation; a new one where none is named."""
    agent: str
    """The id of a registered agent; empty: the first one."""
    mode: str
    """A built-in mode, one of your own, or auto; empty: the user's preferred mode, then the agent's."""
    user_id: str
    """Whose preferences apply."""
    model: str
    """A model in place of the agent's own."""
    wait: float
    """Seconds to wait if the session is busy."""
    steer: bool
    """Add the message to the session's unfinished task, if there is one."""
    idempotency_key: str | RequestKey
    """The same key with the same message again gives the task that it began, instead of another one."""
    files: Sequence[FileInput]
    """Files that go along: paths, pairs of a name and the content, or uploads."""
    language: str
    """zh or en, where the agent names none; empty: SEGUE_LANGUAGE, else that of the message."""
    client_tools: Sequence[Mapping[str, Any]]
    """Tools that the caller carries out, each {"name", "description", "parameters"}: a call waits as a question, whose
    answer is the result."""


_TEXTS = ("session_id", "agent", "mode", "user_id", "model", "language")
_KINDS: Mapping[str, tuple[type, ...]] = {**dict.fromkeys(_TEXTS, (str, Enum)), "wait": (float, int)}


@dataclass(frozen=True)
class Request:
    """A message and its options."""

    message: str
    session_id: str | None = None
    agent: str = ""
    mode: str = ""
    user_id: str = "default"
    model: str = ""
    wait: float = 0.0
    steer: bool = False
    key: RequestKey | None = None
    files: Sequence[FileInput] = ()
    language: str = ""
    client_tools: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, message: Any, options: Mapping[str, Any]) -> Self:
        """What a caller asks for; a member of an enum stands for its value.

        Raises:
            InvalidMessage, UnknownOption.
        """
        if not isinstance(message, str):
            raise InvalidMessage("The message is {kind}, not text: pass a str.", kind=type(message).__name__)
        known = [*MessageOptions.__annotations__]
        if unknown := sorted(options.keys() - set(known)):
            raise UnknownOption(unknown[0], known)
        for name, value in options.items():
            kinds = _KINDS.get(name)
            if kinds and value is not None and not isinstance(value, kinds):
                raise InvalidMessage(
                    "The option {name} is {kind}: pass {expected}.",
                    name=name,
                    kind=type(value).__name__,
                    expected=kinds[0].__name__,
                )
        given = {name: value.value if isinstance(value, Enum) else value for name, value in options.items()}
        if isinstance(key := given.pop("idempotency_key", None), str):
            whole = "\0".join([message, *map(fingerprint, given.get("files") or ())])
            key = RequestKey(key, sha256(whole.encode(errors="surrogatepass")).hexdigest()) if key else None
        return cls(message, key=key, **{name: value for name, value in given.items() if value is not None})


async def known_request(requests: RequestKeys, key: RequestKey | None) -> KnownRequest | None:
    """What the request with an idempotency key did; None where there was none.

    Raises:
        KeyUsed: the key was used for another request.
    """
    known = await requests.get(key.key) if key else None
    if key and known and known.digest not in (key.digest, ""):  # keys of an older database have no digest
        raise KeyUsed(key.key)
    return known
