"""HTTP to public addresses only, for requests whose addresses others choose."""

import asyncio
import ipaddress
import socket
from collections.abc import Collection

import httpx

_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""What IPv6 addresses of hosts begin with; outside are, among others, mapped IPv4 addresses and those of NAT64."""
_TUNNELS = [ipaddress.ip_network(each) for each in ("192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20")]
"""Addresses that carry others (6to4, Teredo), and those of documentation."""


class NotPublic(httpx.ConnectError):
    """The host has an address that is not public, or none."""


async def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, every one of them public.

    Raises:
        NotPublic: one is not, or there is none.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotPublic("the host has no address") from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if not addresses or not all(map(_is_public, addresses)):
        raise NotPublic("the host has an address that is not public")
    return addresses


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if ip.version == 6 and ip not in _GLOBAL_UNICAST:
        return False
    return ip.is_global and not ip.is_multicast and not any(ip in tunnel for tunnel in _TUNNELS)


def is_named(url: httpx.URL, hosts: Collection[str]) -> bool:
    return url.host in hosts or url.netloc.decode() in hosts


class PublicTransport(httpx.AsyncBaseTransport):
    """Sends requests to the public addresses that their hosts have at the time, and to the hosts that are named.

    A name is resolved once, and the connection is made to an address that was checked.
    """

    def __init__(self, hosts: Collection[str], inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._hosts = hosts
        unshared = httpx.Limits(max_keepalive_connections=0)  # a connection is one host's, not its address's
        self._inner = inner or httpx.AsyncHTTPTransport(limits=unshared, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if is_named(url, self._hosts):
            return await self._inner.handle_async_request(request)
        addresses = await public_addresses(url.host, url.port or (443 if url.scheme == "https" else 80))
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        for last, address in enumerate(addresses, 1 - len(addresses)):
            request.url = url.copy_with(host=address)
            try:
                return await self._inner.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if not last:
                    raise
        raise AssertionError  # there is an address

    async def aclose(self) -> None:
        await self._inner.aclose()
