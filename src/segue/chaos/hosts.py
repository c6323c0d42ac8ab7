"""Hosts that are never reached: a process ends, or an error is raised, before it connects to one."""

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from ..core.agents import refused_hosts
from ..core.errors import ConfigurationError
from .traps import Journal

REFUSED = 75
"""The exit code of a process that reached for a host that is never to be reached."""

_REACHING = (
    *("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"),
)
_LOOKS_UP = ("socket.getaddrinfo", "socket.gethostbyname")
_NAME = re.compile(r"[\w.-]+")


def hosts_of(refused: Sequence[str], agents: str) -> list[str]:
    """The hosts that an option and the agents file refuse.

    Raises:
        ConfigurationError: one is no host, or the file cannot be read.
    """
    return [*dict.fromkeys(host_of(text) for text in (*refused, *refused_hosts(agents)))]


def host_of(text: str) -> str:
    """The host of a name, an address or a URL, with or without a port; subdomains belong to it anyway.

    Raises:
        ConfigurationError: there is none.
    """
    with suppress(ValueError):
        bare = text.strip().removeprefix("*.")
        address = f"[{bare}]" if bare.count(":") > 1 and "[" not in bare else bare
        found = urlsplit(bare if "://" in bare else f"//{address}")
        host = (found.hostname or "").rstrip(".")
        is_network = found.path and not found.scheme
        if not is_network and (_NAME.fullmatch(host) or _address(host)):
            return host
    raise ConfigurationError("{text} is not a valid host: use one such as api.example.com.", text=repr(text))


def with_addresses(hosts: Sequence[str]) -> Iterator[str]:
    """The hosts, and the addresses that their names have now."""
    yield from hosts
    for host in hosts:
        with suppress(OSError, UnicodeError):
            yield from {str(found[4][0]) for found in socket.getaddrinfo(host, None)} - {host}


def refuse(hosts: Sequence[str], journal: Journal) -> None:
    """From now on, end this process before it connects to one of these hosts, or looks its name up.

    It sees what Python code asks for, and the arguments of programs that it starts; not connections of a C library.
    """

    def end(host: str) -> None:
        journal.write("refused", host=host)
        os._exit(REFUSED)

    if hosts:
        sys.addaudithook(_watch(hosts, end))


@contextmanager
def refusing(hosts: Sequence[str]) -> Iterator[None]:
    """Meanwhile, raise an error in this process, where the world is, before it does so.

    Raises:
        ConfigurationError: it was about to.
    """
    watching = True

    def complain(host: str) -> None:
        if watching:
            raise ConfigurationError(
                "The world, or code loaded by the agents file, tried to connect to {host}, which is "
                "refused. No connection was made: use a staging system.",
                host=host,
            )

    if hosts:
        sys.addaudithook(_watch(hosts, complain))  # it cannot be removed again
    try:
        yield
    finally:
        watching = False


def _watch(hosts: Sequence[str], act: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _REACHING and (host := refused_in(_asked(event, arguments), hosts)):
            act(host)

    return watch


def _asked(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """The hosts that an event names, or the words of a command."""
    asked = arguments[0] if event in (*_LOOKS_UP, "os.system") else arguments[1]
    if event.startswith(("subprocess", "os.")):
        words = [asked] if isinstance(asked, str | bytes | os.PathLike) else asked
        return [os.fsdecode(word) for word in words]
    host = asked[0] if isinstance(asked, tuple) else asked
    return [host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)]


def refused_in(asked: Sequence[str], hosts: Sequence[str]) -> str:
    """The first of the hosts that is named in a text, as itself or with a subdomain; empty if none is."""
    for host in hosts:
        pattern = re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w.-]*\w)", re.IGNORECASE)
        address = _address(host)
        if any(pattern.search(text) or (address and _address(text) == address) for text in asked):
            return host
    return ""


def _address(text: str) -> str:
    """An IP address in its one usual form; empty if the text is none."""
    with suppress(ValueError):
        found = ip_address(text.partition("%")[0])
        return str(getattr(found, "ipv4_mapped", None) or found)
    with suppress(ValueError, OSError):
        return socket.inet_ntoa(socket.inet_aton(text))
    return ""
