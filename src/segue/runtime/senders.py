"""Senders of notifications: webhooks signed as Standard Webhooks asks, commands, and mail and chat services."""

import asyncio
import hashlib
import hmac
import json
import os
import signal
import sys
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module

import httpx

from ..core.environment import need_extra
from ..core.errors import ConfigurationError
from ..core.notifications import Notification, Receiver
from ..core.records import Json
from ..prompts.catalogue import sentence
from .notifications import Sender, Undelivered, backoff
from .public_transport import NotPublic, PublicTransport

MOST_STDERR = 200
"""Characters of what a command that failed wrote last."""


def sender_of(receiver: Receiver, environ: Mapping[str, str] = os.environ) -> Sender:
    """What sends the notifications of a receiver.

    Raises:
        ConfigurationError: its secret or URL is missing, or its address is not allowed.
        MissingExtra: it is a mail or chat service, and the package for these is not installed.
    """
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
    title = sentence(f"notify_{kind}", language, agent=data["agent_id"])
    question = data.get("question", {})
    calls = [
        f"{call['name']} {json.dumps(call.get('arguments', {}), ensure_ascii=False)}"
        for call in question.get("calls", ())
    ]
    found = [data["message"], question.get("question", ""), *calls, data.get("error") or data.get("answer", "")]
    about = sentence("notify_about", language, task_id=data["task_id"], session=data["session_id"])
    return title, "\n\n".join(part for part in (*found, about) if part)
