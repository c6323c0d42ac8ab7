"""Senders of notifications: webhooks to public addresses, commands, and mail and chat services."""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import os
import signal
import socket
import sys
import time
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module

import httpx

from ..core.environment import need_extra
from ..core.errors import ConfigurationError
from ..core.notifications import Notification, Receiver
from ..core.records import Json
from ..prompts.catalogue import terminal_text
from .notifications import Sender, Undelivered, backoff

# HTTP to public addresses only, for requests whose addresses others choose.

_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""What IPv6 addresses of hosts begin with; outside are, among others, mapped IPv4 addresses and those of NAT64."""
_TUNNELS = [ipaddress.ip_network(each) for each in ("192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20")]
"""Addresses that carry others (6to4, Teredo), and those of documentation."""


class NotPublic(httpx.ConnectError):
    """The host has an address that is not public, or none."""


async def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, every one of them public."""
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


# Senders of notifications: webhooks signed as Standard Webhooks asks, commands, and mail and chat services.

MOST_STDERR = 200
"""Characters of what a command that failed wrote last."""


def sender_of(receiver: Receiver, environ: Mapping[str, str] = os.environ) -> Sender:
    """What sends the notifications of a receiver."""
    if receiver.url:
        receiver.check_address()
        return WebhookSender(receiver, receiver.keys(environ))
    if receiver.command:
        return CommandSender(receiver)
    return ServiceSender(receiver, receiver.service(environ))


class _Sender(Sender):
    """How often every receiver of the agents file is tried: one that is slow holds up no other."""

    def again_in(self, attempts: int) -> float | None:
        return backoff(attempts)

    def lane(self, thread_id: str) -> str | None:
        return ""


class WebhookSender(_Sender):
    """POSTs notifications to a URL, signed with every key that the receiver has."""

    def __init__(self, receiver: Receiver, keys: Sequence[bytes]) -> None:
        self._receiver = receiver
        self._keys = keys

    async def send(self, notification: Notification) -> None:
        body = json.dumps(notification.body).encode()
        headers = signature_headers(self._keys, notification.notification_id, int(time.time()), body)
        receiver = self._receiver
        transport = PublicTransport([httpx.URL(receiver.url).host] if receiver.allow_private else [])
        try:
            async with (
                asyncio.timeout(receiver.timeout),
                httpx.AsyncClient(transport=transport, timeout=receiver.timeout) as client,
                client.stream("POST", receiver.url, content=body, headers=headers) as answer,
            ):
                answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            raise Undelivered(f"it answered with status {error.response.status_code}") from None
        except NotPublic as error:
            raise Undelivered(f"{error}: allow_private = true allows it") from None


def signature_headers(keys: Sequence[bytes], notification_id: str, moment: int, body: bytes) -> dict[str, str]:
    """The headers of the Standard Webhooks specification, with a signature for each key."""
    signed = f"{notification_id}.{moment}.".encode() + body
    signatures = [b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys]
    return {
        "content-type": "application/json",
        "user-agent": "segue",
        "webhook-id": notification_id,
        "webhook-timestamp": str(moment),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


class CommandSender(_Sender):
    """Runs a program that reads the notification as JSON from stdin; it is delivered if the program succeeds."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def send(self, notification: Notification) -> None:
        receiver, pipe = self._receiver, asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *receiver.command, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise Undelivered(f"the command cannot be started: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(receiver.timeout):
                _, written = await process.communicate(json.dumps(notification.body).encode())
        except TimeoutError:
            raise Undelivered(f"the command took longer than {receiver.timeout:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    _kill(process)
                await process.wait()
        if process.returncode:
            last = written.decode(errors="replace").strip()[-MOST_STDERR:]
            raise Undelivered(f"the command ended with code {process.returncode}{': ' if last else ''}{last}")


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a command, with what it started where the system has process groups."""
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)


class ServiceSender(_Sender):
    """Sends notifications as short texts, through Apprise."""

    def __init__(self, receiver: Receiver, url: str) -> None:
        need_extra(f"The receiver {receiver.name}", "notify", "apprise")
        self._receiver = receiver
        self._service = import_module("apprise").Apprise()
        if not self._service.add(url):
            raise ConfigurationError(
                "Apprise cannot use the `to` of the receiver {name}: Apprise's documentation lists the URL "
                "of each service.",
                name=receiver.name,
            )

    async def send(self, notification: Notification) -> None:
        title, text = described(notification.body)
        async with asyncio.timeout(self._receiver.timeout):
            if not await self._service.async_notify(title=title, body=text):
                raise Undelivered("the service did not accept it")


def described(body: Json) -> tuple[str, str]:
    """A notification as a title and a text, in the language of its task."""
    data, kind = body["data"], str(body["type"]).removeprefix("task.")
    language = data["language"]
    title = terminal_text(f"notify_{kind}", language, agent=data["agent_id"])
    question = data.get("question", {})
    calls = [
        f"{call['name']} {json.dumps(call.get('arguments', {}), ensure_ascii=False)}"
        for call in question.get("calls", ())
    ]
    found = [data["message"], question.get("question", ""), *calls, data.get("error") or data.get("answer", "")]
    about = terminal_text("notify_about", language, task_id=data["task_id"], session=data["session_id"])
    return title, "\n\n".join(part for part in (*found, about) if part)
