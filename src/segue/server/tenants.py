"""Tenants and their API keys.

Names of sessions and users are stored with the tenant's prefix, and shown without it. Keys are kept as hashes. A key is
written `name:key`, with roles `name+role+role:key`, and `person@tenant+role:key` where several persons share a tenant.
"""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Self

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from ..core.actor import HTTP, KEY
from ..core.errors import ConfigurationError
from ..core.task import ANYBODY, NAME_CHARACTER, TENANT_NAME

SEPARATOR = ":"
KEY_NAME = re.compile(rf"(?:({TENANT_NAME})@)?({TENANT_NAME})((?:\+{TENANT_NAME})*)")
"""A person, the tenant and the roles: without the separator, so that no tenant's names begin like another's."""


@dataclass(frozen=True)
class Tenant:
    """A tenant, and whose key was used. Without keys the one tenant has no name, and the whole database is its own."""

    name: str = ""
    person: str = field(default="", compare=False)
    """The person whose key it is, if it names one."""
    roles: frozenset[str] | None = field(default=None, compare=False)
    """The roles of the key; None where there are no keys: all of them."""
    is_one_person: bool = field(default=True, compare=False)
    """Whether nobody else is this tenant: not with keys, which several people may have."""

    @classmethod
    def of_key(cls, name: str) -> Self:
        """The tenant of a key by its name, which matches `KEY_NAME`."""
        found = KEY_NAME.fullmatch(name)
        assert found is not None
        person, tenant, roles = found.groups()
        return cls(tenant, person or "", frozenset(roles.split("+")[1:]), is_one_person=False)

    @classmethod
    def of_json(cls, form: Mapping[str, Any]) -> Self:
        """The tenant that `json` wrote."""
        roles = form["roles"]
        is_one_person = not form["name"]
        return cls(form["name"], form["person"], None if roles is None else frozenset(roles), is_one_person)

    def json(self) -> dict[str, Any]:
        """What its requests act with, for what is done later in its name."""
        return {"name": self.name, "person": self.person, "roles": None if self.roles is None else sorted(self.roles)}

    @property
    def actor(self) -> str:
        """In whose name its requests act."""
        holder = f"{self.person}@{self.name}" if self.person else self.name
        return f"{KEY}:{holder}" if self.name else HTTP

    @property
    def prefix(self) -> str:
        return f"{self.name}{SEPARATOR}" if self.name else ""

    def stored(self, name: str) -> str:
        """The name of a session or a user as it is stored."""
        return self.prefix + name

    def knows(self, user_id: str | None) -> bool:
        """Whether a message with that user tells who it is from, so that what they said of themselves is used."""
        return self.is_one_person or user_id not in (None, ANYBODY)

    def shown(self, stored: str) -> str:
        """The name as the tenant knows it."""
        return stored.removeprefix(self.prefix)

    def owns(self, stored: str) -> bool:
        return stored.startswith(self.prefix)

    def without_prefix(self, sentence: str) -> str:
        """A sentence of Segue's with the names in it as the tenant knows them."""
        if not self.name:
            return sentence
        return re.sub(rf"(?<!{NAME_CHARACTER}){re.escape(self.prefix)}(?={NAME_CHARACTER})", "", sentence)


DEFAULT = "default"
"""The tenant of a key that has no name."""
SHORTEST = 16
"""Characters of a key: a hash protects no password that can be guessed."""


class Keys:
    """The tenants' names by the SHA-256 hashes of their keys; without any, everybody is the one tenant."""

    def __init__(self, hashes: Iterable[tuple[str, str]] = ()) -> None:
        self._hashes = tuple((bytes.fromhex(digest), Tenant.of_key(name)) for name, digest in hashes)

    @property
    def tenants(self) -> frozenset[str]:
        """The names of the tenants."""
        return frozenset(tenant.name for _, tenant in self._hashes)

    @property
    def are_several(self) -> bool:
        """Whether there is more than one tenant."""
        return len(self.tenants) > 1

    are_users = False
    """Whether an authentication of one's own says who sends a request."""

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def __repr__(self) -> str:
        return f"Keys({len(self._hashes)})"

    async def find(self, scope: Scope) -> Tenant | None:
        """The tenant that a request comes from; None where it is not known."""
        headers = Headers(scope=scope)
        key = headers.get("x-api-key")  # of LangGraph's clients
        return self.tenant_of(headers.get("authorization") or (f"Bearer {key}" if key else ""))

    def tenant_of(self, authorization: str) -> Tenant | None:
        """The tenant whose key an Authorization header carries; every key is compared, whichever it is."""
        if not self._hashes:
            return Tenant()
        scheme, _, key = authorization.partition(" ")
        given = _digest(key.strip())
        found = [tenant for known, tenant in self._hashes if hmac.compare_digest(known, given)]
        return found[0] if found and scheme.lower() == "bearer" else None


User = str | tuple[str, Iterable[str]] | None
"""The name of a user, also with its roles."""
Authenticate = Callable[[Request], User | Awaitable[User]]
"""Says whose a request is."""
_CODED = re.compile(r".*-[0-9a-f]{16}")


class Users(Keys):
    """Those whom an authentication of one's own lets in; each is a tenant."""

    are_several = True
    are_users = True

    def __init__(self, authenticate: Authenticate) -> None:
        super().__init__()
        self._authenticate = authenticate

    def __bool__(self) -> bool:
        return True

    async def find(self, scope: Scope) -> Tenant | None:
        found = await run_in_threadpool(self._authenticate, Request(scope))
        if isawaitable(found):
            found = await found
        name, roles = found if isinstance(found, tuple) else (found, ())
        return Tenant(_tenant_name(name), roles=frozenset(roles)) if name else None


def _tenant_name(user: str) -> str:
    """The name of a user's tenant: what a key's may not be called, such as an address, ends with a hash."""
    if re.fullmatch(TENANT_NAME, user) and not _CODED.fullmatch(user):
        return user
    code = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9_]+', '-', user)[:15]}-{code}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def hash_keys(text: str) -> str:
    """A list of keys, `name:key` or `key`, comma-separated, as `name:hash`; roles stay part of the name."""
    pairs = [_pair(part) for part in text.split(",") if part.strip()]
    names: dict[str, str] = {}
    for name, digest in pairs:
        if names.setdefault(digest, name) != name:
            raise ConfigurationError(
                "'{other}' and '{name}' have the same API key: use different keys.", other=names[digest], name=name
            )
    return ",".join(f"{name}{SEPARATOR}{digest}" for digest, name in names.items())


def _pair(part: str) -> tuple[str, str]:
    name, colon, key = part.strip().partition(SEPARATOR)
    if not colon:
        name, key = DEFAULT, name
    if not KEY_NAME.fullmatch(name):
        raise ConfigurationError(
            "The name of an API key consists of up to 32 letters, digits, - or _: use name:key, name+role:key for a "
            "role, or person@name:key for a person."
        )
    if len(key) < SHORTEST:
        raise ConfigurationError(
            "The API key of '{name}' is too short: use at least {least} random characters.", name=name, least=SHORTEST
        )
    return name, _digest(key).hex()


def parse_keys(text: str) -> Keys:
    """Keys from what `hash_keys` wrote."""
    pairs = [part.strip().partition(SEPARATOR) for part in text.split(",") if part.strip()]
    if not all(KEY_NAME.fullmatch(name) and _is_digest(digest) for name, _, digest in pairs):
        raise ConfigurationError("SEGUE_API_KEY_SHA256 must be name:hash, with 64 hexadecimal digits.")
    return Keys((name, digest) for name, _, digest in pairs)


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdefABCDEF" for digit in text)
