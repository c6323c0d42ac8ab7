"""Push notifications of A2A: where they may go, and how they are sent."""

import asyncio

import httpx
from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict, ParseDict

from ..core.records import Task, Webhook
from ..runtime.public_transport import NotPublic, PublicTransport, is_named, public_addresses
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
            if not is_named(url, self._hosts):
                await public_addresses(url.host, url.port or 443)
        except (httpx.InvalidURL, NotPublic):
            raise InvalidParamsError(
                f"The push notification URL is not a public http or https address; {PUSH_HOSTS} of the service "
                "names the other hosts that are allowed."
            ) from None

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        return await self.get_info_for_dispatch(task_id)

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        return [ParseDict(each.config, TaskPushNotificationConfig()) for each in await self._webhooks.list(task_id)]

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
