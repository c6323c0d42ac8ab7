"""Push notifications of A2A: where they may go, and how they are sent."""

import httpx
from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender, PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.push_url_validator import validate_push_notification_url
from google.protobuf.json_format import ParseDict

from ..core.records import Task
from .protocols.a2a import Description, as_dict
from .service import Service
from .settings import PUSH_HOSTS
from .tenants import Tenant
from .views import outcome

SECONDS = 10.0
"""How long a receiver may take."""


class Configs(PushNotificationConfigStore):
    """The configs of tasks that the caller was found to own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._webhooks = service.app.tasks.webhooks

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store the config.

        Raises:
            InvalidParamsError: as `check` does.
        """
        await self.check(notification_config)
        config = normalize_push_notification_config(task_id, notification_config)
        await self._webhooks.put(task_id, config.id, as_dict(config))
        return config

    async def check(self, config: TaskPushNotificationConfig) -> None:
        """Refuse a config that notifications cannot be sent by.

        Raises:
            InvalidParamsError: its address is not public, and the service does not allow it.
        """
        if not await self.may_reach(config.url):
            raise InvalidParamsError(
                f"The push notification URL is not a public http or https address; {PUSH_HOSTS} of the service "
                "names the other hosts that are allowed."
            )

    async def may_reach(self, url: str) -> bool:
        """Whether notifications may go to the address."""
        try:
            asked = httpx.URL(url)
        except httpx.InvalidURL:
            return False
        named = {asked.host, asked.netloc.decode()}
        if asked.scheme in ("http", "https") and named & set(self._service.settings.push_hosts):
            return True
        return await validate_push_notification_url(url)

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        return await self.get_info_for_dispatch(task_id)

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        return [ParseDict(form, TaskPushNotificationConfig()) for form in await self._webhooks.list(task_id)]

    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        await self._webhooks.delete(task_id, config_id or task_id)


async def report(service: Service, task: Task) -> None:
    """Send the task, as it is now, to those who asked for it. A receiver that cannot be reached is only logged."""
    configs = Configs(service)
    tenant = Tenant(task.thread_id.partition(":")[0]) if service.settings.keys else Tenant()
    row = await service.app.tasks.get(task.task_id)
    result = await outcome(service.app, tenant, task.task_id)
    sent = Description(tenant, row).task(result, await service.app.tasks.events(task.task_id))
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        sender = BasePushNotificationSender(client, configs, push_url_validator=configs.may_reach)
        await sender.send_notification(task.task_id, sent)
