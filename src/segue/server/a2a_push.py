"""Push notifications of A2A: where they may go, and how they are sent."""

import asyncio
import ipaddress
import socket
from collections.abc import Collection

import httpx
from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict, ParseDict

from ..core.records import Task, Webhook
from .protocols.a2a import Description, as_dict
from .readers.a2a import refuse_long_id
from .service import Service
from .settings import PUSH_HOSTS
from .tenants import Tenant
from .views import outcome

SECONDS = 10.0
"""How long a receiver may take."""
MAX_CONFIGS = 10
"""Configs of a task."""
MOST_BYTES = 8_000
"""Of a config."""
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


def _is_named(url: httpx.URL, hosts: Collection[str]) -> bool:
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
        if _is_named(url, self._hosts):
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


class Configs(PushNotificationConfigStore):
    """The configs of tasks that the caller was found to own."""

    def __init__(self, service: Service) -> None:
        self._hosts = service.settings.push_hosts
        self._webhooks = service.app.tasks.webhooks

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store the config.

        Raises:
            InvalidParamsError: as `check` does, or the task has too many.
        """
        await self.check(notification_config)
        config = normalize_push_notification_config(task_id, notification_config)
        if not await self._webhooks.put(task_id, config.id, as_dict(config), MAX_CONFIGS):
            raise InvalidParamsError(f"A task has at most {MAX_CONFIGS} push notification configs: delete one first.")
        return config

    async def check(self, config: TaskPushNotificationConfig) -> None:
        """Refuse a config that notifications cannot be sent by.

        Raises:
            InvalidParamsError: it or its id is too long, or its address is neither public nor allowed by the service.
        """
        refuse_long_id("The id of a push notification config", config.id)
        if config.ByteSize() > MOST_BYTES:
            raise InvalidParamsError(f"A push notification config has at most {MOST_BYTES:,} bytes.")
        try:
            url = httpx.URL(config.url)
            if url.scheme not in ("http", "https"):
                raise NotPublic("it is no http address")
            if not _is_named(url, self._hosts):
                await public_addresses(url.host, url.port or 443)
        except (httpx.InvalidURL, NotPublic):
            raise InvalidParamsError(
                f"The push notification URL is not a public http or https address; {PUSH_HOSTS} of the service "
                "names the other hosts that are allowed."
            ) from None

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        return await self.get_info_for_dispatch(task_id)

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        return [ParseDict(form, TaskPushNotificationConfig()) for form in await self._webhooks.list(task_id)]

    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        await self._webhooks.delete(task_id, config_id or task_id)


async def send(service: Service, task: Task, webhook: Webhook) -> None:
    """Send the task, as it is now, to the receiver of a webhook.

    Raises:
        httpx.HTTPError: it cannot be reached, or does not answer with success.
    """
    tenant = Tenant(task.thread_id.partition(":")[0]) if service.settings.keys else Tenant()
    result = await outcome(service.app, tenant, task.task_id)
    event = Description(tenant, task).task(result, await service.app.tasks.events(task.task_id))
    config = ParseDict(webhook.config, TaskPushNotificationConfig())
    async with httpx.AsyncClient(transport=PublicTransport(service.settings.push_hosts), timeout=SECONDS) as client:
        form = MessageToDict(to_stream_response(event))
        async with (
            asyncio.timeout(SECONDS),
            client.stream("POST", config.url, json=form, headers=_headers(config)) as answer,
        ):
            answer.raise_for_status()


def _headers(config: TaskPushNotificationConfig) -> dict[str, str]:
    headers = {"X-A2A-Notification-Token": config.token} if config.token else {}
    given = config.authentication
    if given.scheme and given.credentials:
        headers["Authorization"] = f"{given.scheme} {given.credentials}"
    return headers
