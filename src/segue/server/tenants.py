"""Tenants: names of sessions and users are stored with the tenant's prefix, and shown without it."""

import re
from dataclasses import dataclass

SEPARATOR = ":"
NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What a tenant may be called: without the separator, so that no tenant's names begin like another's."""


@dataclass(frozen=True)
class Tenant:
    """A key's name. Without keys the one tenant has no name, and the whole database is its own."""

    name: str = ""

    @property
    def prefix(self) -> str:
        return f"{self.name}{SEPARATOR}" if self.name else ""

    def stored(self, name: str) -> str:
        """The name of a session or a user as it is stored."""
        return self.prefix + name

    def shown(self, stored: str) -> str:
        """The name as the tenant knows it."""
        return stored.removeprefix(self.prefix)

    def owns(self, stored: str) -> bool:
        return stored.startswith(self.prefix)

    def without_prefix(self, sentence: str) -> str:
        """A sentence of Segue's with the names in it as the tenant knows them."""
        if not self.name:
            return sentence
        return re.sub(rf"(?<![\w.:@-]){re.escape(self.prefix)}(?=[\w.:@-])", "", sentence)
