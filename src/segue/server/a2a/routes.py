"""The routes of A2A 1.0 and 0.3, what answers their requests, and push notifications."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, cast

import httpx
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.server.request_handlers.response_helpers import agent_card_to_dict, build_error_response
from a2a.server.routes import ServerCallContextBuilder, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SecurityRequirement,
    SecurityScheme,
    SendMessageConfiguration,
    SendMessageRequest,
    StringList,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.types import Task as A2ATask
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE, VERSION_HEADER, TransportProtocol
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import to_stream_response
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Scope

from ...core.agents import Agent
from ...core.errors import SegueError, UnsupportedFile
from ...core.message import AnswerFormat, ReplyOptions
from ...core.records import Json, Task, Webhook
from ...prompts.catalogue import render_over_http
from ...runtime.senders import NotPublic, PublicTransport, is_named, public_addresses
from ...tools.adapters.a2a import REPEATS_JOIN
from ..errors import Problem, language_of, new_error_id, status_of
from ..run import logger
from ..service import Begun, Service
from ..settings import PUSH_HOSTS
from ..stream import events_of
from ..tenants import Tenant
from ..views import outcome
from .endpoint import CARD, PATH
from .reply import Description, Translation, Update, as_dict, statuses_of
from .request import begin, note_delivered, own_task, refuse_long_id

# Push notifications of A2A: where they may go, and how they are sent.

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
        """Store the config."""
        await self.check(notification_config)
        config = normalize_push_notification_config(task_id, notification_config)
        if not await self._webhooks.put(task_id, config.id, as_dict(config), MAX_CONFIGS):
            raise InvalidParamsError(f"A task has at most {MAX_CONFIGS} push notification configs: delete one first.")
        return config

    async def check(self, config: TaskPushNotificationConfig) -> None:
        """Refuse a config that notifications cannot be sent by."""
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
    """Send the task, as it is now, to the receiver of a webhook."""
    tenant = Tenant(task.session_id.partition(":")[0]) if service.settings.keys else Tenant()
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


# The routes of A2A 1.0, over JSON-RPC and HTTP+JSON, with those of 0.3; and what answers their requests.

VERSIONS = ("1.0", "0.3")
CARD_SECONDS = 300
"""How long a client may keep a card without asking."""
MOVED_SECONDS = 1.0
"""How often a task that waits is looked at, which another process may continue."""
_JSON = "application/json"
_A2A_JSON = "application/a2a+json"
_MODES = {"image": "image/*", "pdf": "application/pdf"}
"""What a card names of the kinds of files that an agent reads."""
_REPEATS_JOIN = AgentExtension(
    uri=REPEATS_JOIN,
    description="A message that is sent again with the same id, context and content joins its task. One without a "
    "context joins a task that stopped over ten minutes ago only if the request names the extension.",
)
_OVER = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
)


@dataclass(frozen=True)
class Caller:
    """Who asks which agent."""

    tenant: Tenant
    agent: str
    request: Request

    @property
    def scope(self) -> Scope:
        return self.request.scope


class _Contexts(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        caller = Caller(request.scope["segue_tenant"], request.path_params["agent"], request)
        extensions = get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER))
        version = {VERSION_HEADER.lower(): each for each in request.query_params.getlist(VERSION_HEADER)}
        state = {"caller": caller, "headers": {**version, **request.headers}}
        return ServerCallContext(state=state, requested_extensions=extensions)


def _caller(context: ServerCallContext) -> Caller:
    caller: Caller = context.state["caller"]
    return caller


def routes(service: Service) -> ASGIApp:
    """Everything below `/a2a/AGENT`, and the default agent's card."""
    handler, contexts, base = Handler(service), _Contexts(), f"{PATH}/{{agent}}"

    async def card(request: Request) -> Response:
        agent = service.agents[request.path_params.get("agent", service.default_agent)]
        answer = JSONResponse(agent_card_to_dict(card_of(service, agent, str(request.base_url).rstrip("/"))))
        tag = f'"{sha256(answer.body).hexdigest()[:32]}"'
        scope = "private" if service.settings.keys else "public"
        headers = {"Cache-Control": f"{scope}, max-age={CARD_SECONDS}", "ETag": tag}
        if tag in [each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        answer.headers.update(headers)
        return answer

    rpc = create_jsonrpc_routes(handler, base, contexts, enable_v0_3_compat=True)
    rest = create_rest_routes(handler, contexts, path_prefix=base)
    return Router(
        [
            Route(CARD, card),
            Route(f"{base}{CARD}", card),
            *map(_of_json, rpc),
            *(_of_json(route, over_http=True) for route in rest if isinstance(route, Route)),  # none below a folder
        ],
        default=JSONResponse(build_rest_error_payload(MethodNotFoundError()), HTTPStatus.NOT_FOUND),
    )


def _of_json(route: Route, *, over_http: bool = False) -> Route:
    """The route, which takes JSON only: a browser sends other types for any page that asks for it."""

    async def answer(request: Request) -> Response:
        kind = request.headers.get("Content-Type", _JSON).partition(";")[0].strip().lower()
        if kind not in (_JSON, _A2A_JSON):
            error = ContentTypeNotSupportedError(f"The Content-Type is {kind}: send {_JSON}.")
            if over_http:
                refused = build_rest_error_payload(error)
                refused["error"]["code"] = HTTPStatus.UNSUPPORTED_MEDIA_TYPE  # as HTTP has it for a whole request
                return JSONResponse(refused, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return JSONResponse(build_error_response(None, error))
        response: Response = await route.endpoint(request)
        return response

    return Route(route.path, answer, methods=[*(route.methods or ())])


def card_of(service: Service, agent: Agent, address: str) -> AgentCard:
    """The card of an agent at an address."""
    url = f"{address}{PATH}/{agent.agent_id}"
    bindings = [(TransportProtocol.JSONRPC, each) for each in VERSIONS] + [(TransportProtocol.HTTP_JSON, VERSIONS[0])]
    texts, accepted = ["text/plain", _JSON], service.app.agents.accepted(agent)
    card = AgentCard(
        name=agent.agent_id,
        description=agent.public_description,
        version=version("segue"),
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=each) for binding, each in bindings
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extensions=[_REPEATS_JOIN]),
        default_input_modes=[*texts, *(mode for kind, mode in _MODES.items() if kind in accepted)],
        default_output_modes=texts,
        skills=[
            AgentSkill(id=agent.agent_id, name=agent.agent_id, description=agent.public_description, tags=["agent"])
        ],
    )
    if service.settings.keys.tenants:
        scheme = HTTPAuthSecurityScheme(scheme="Bearer", description="An API key of the service.")
        card.security_schemes["key"].CopyFrom(SecurityScheme(http_auth_security_scheme=scheme))
        card.security_requirements.append(SecurityRequirement(schemes={"key": StringList()}))
    return card


async def _refuse_unknown_status(request: Request) -> None:
    """Refuse a status that is no state: the protocol's package reads it as none."""
    asked = request.query_params if request.method == "GET" else (await request.json()).get("params", {})
    if asked.get("status") not in (None, "", 0, "0", "TASK_STATE_UNSPECIFIED"):
        raise InvalidParamsError(f"The status is none of: {', '.join(TaskState.keys()[1:])}.")


def _wants_data(configuration: SendMessageConfiguration) -> bool:
    """Whether the client takes JSON and no text."""
    modes = {mode.partition(";")[0].strip().lower() for mode in configuration.accepted_output_modes}
    return _JSON in modes and not any(mode == "*/*" or mode.startswith("text/") for mode in modes)


class Handler(RequestHandler):
    """Answers the requests with Segue's tasks: an A2A task is one of Segue's, its context a session."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._configs = Configs(service)

    @asynccontextmanager
    async def _answering(self, context: ServerCallContext) -> AsyncIterator[Caller]:
        """Give errors the protocol's form."""
        caller = _caller(context)
        try:
            self._service.refuse_while_draining()
            yield caller
        except A2AError:
            raise
        except Problem as problem:
            raise InvalidRequestError(problem.message(language_of(caller.scope))) from None
        except SegueError as error:
            kind: type[A2AError] = InvalidParamsError if status_of(error) < 500 else InternalError
            kind = ContentTypeNotSupportedError if isinstance(error, UnsupportedFile) else kind
            raise kind(caller.tenant.without_prefix(render_over_http(error, language_of(caller.scope)))) from None
        except Exception as error:  # noqa: BLE001  logged with its trace, and answered without
            error_id = new_error_id()
            logger.error("request failed", exc_info=error, extra={"error_id": error_id})
            raise InternalError(f"An internal error, {error_id} in the log.") from None

    @asynccontextmanager
    async def _answering_about(self, context: ServerCallContext, task_id: str) -> AsyncIterator[tuple[Caller, Task]]:
        """Give errors the protocol's form; the task is one of the caller's."""
        async with self._answering(context) as caller:
            yield caller, await own_task(self._service, caller.tenant, caller.agent, task_id)

    # Messages.

    async def _begun(self, caller: Caller, params: SendMessageRequest, context: ServerCallContext) -> Begun:
        validate_history_length(params.configuration)
        caller.scope["segue_count_chat"]()
        joins = REPEATS_JOIN in context.requested_extensions
        config = params.configuration.task_push_notification_config
        if config.url:
            await self._configs.check(config)
        options = ReplyOptions(answer_format=AnswerFormat() if _wants_data(params.configuration) else None)
        row, after = await begin(
            self._service, caller.tenant, caller.agent, params.message, joins=joins, options=options
        )
        if config.url:
            await self._configs.set_info(row.task_id, config, context)
        return row, after

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> A2ATask | Message:
        async with self._answering(context) as caller:
            row, _ = await self._begun(caller, params, context)
            if not params.configuration.return_immediately:
                await self._service.until_stopped(row.task_id)
            return apply_history_length(await self._task(caller, row.task_id), params.configuration)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2ATask | Update, None]:
        async with self._answering(context) as caller, self._stream(caller):
            row, after = await self._begun(caller, params, context)
            async with aclosing(self._updates(caller, row, after)) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2ATask | Update, None]:
        async with self._answering_about(context, params.id) as (caller, row), self._stream(caller):
            if (await self._status(caller, row)).state in _OVER:
                raise UnsupportedOperationError("The task has ended: get it instead.")
            after = await self._service.app.tasks.last_event(row.task_id)
            async with aclosing(self._updates(caller, row, after, to_end=True)) as updates:
                async for update in updates:
                    yield update

    @asynccontextmanager
    async def _stream(self, caller: Caller) -> AsyncIterator[None]:
        self._service.open_stream(caller.tenant)
        responding = cast("asyncio.Task[Any]", asyncio.current_task())
        self._service.streams.add(responding)
        try:
            yield
        finally:
            self._service.streams.discard(responding)
            self._service.close_stream(caller.tenant)

    async def _updates(
        self, caller: Caller, row: Task, after: int, *, to_end: bool = False
    ) -> AsyncGenerator[A2ATask | Update, None]:
        """The task as it is, then what happens after its event of that number until it stops.

        With `to_end` until it ends, whatever it waits for before.
        """
        yield await self._task(caller, row.task_id)
        app = self._service.app
        while True:
            translation = Translation(Description(caller.tenant, row), row.reply_language, after)
            async with aclosing(events_of(self._service, row.task_id, 0, so_far=True)) as events:
                async for event in events:
                    for update in translation.of(event):
                        yield update
                    after = max(after, event.seq)
            row = await app.task(row.task_id)
            result = await outcome(app, caller.tenant, row.task_id)
            await self._note_delivered(caller, row, result)
            for update in translation.finish(result):
                yield update
            over = Description(caller.tenant, row).status(result).state in _OVER
            if over or not to_end or not await self._goes_on(row):
                return

    async def _goes_on(self, row: Task) -> bool:
        """Wait until a task that stopped was continued, here or elsewhere; False where the service stops before."""
        while not self._service.draining:
            now = await self._service.app.task(row.task_id)
            if (now.status, now.updated_at) != (row.status, row.updated_at):
                return True
            await asyncio.sleep(MOVED_SECONDS)
        return False

    async def _note_delivered(self, caller: Caller, row: Task, result: Json) -> None:
        """Note what a task asks as delivered, before it is sent: the answer may come at once. Not if nobody listens."""
        if "question" in result and not await caller.request.is_disconnected():
            await note_delivered(self._service, caller.tenant, row, result)

    # Tasks.

    async def _task(self, caller: Caller, task_id: str, *, in_list: bool = False) -> A2ATask:
        app = self._service.app
        row = await app.task(task_id)
        result = await outcome(app, caller.tenant, task_id)
        if not in_list:
            await self._note_delivered(caller, row, result)
        return Description(caller.tenant, row).task(result, await app.tasks.events(task_id))

    async def _status(self, caller: Caller, row: Task) -> TaskStatus:
        result = await outcome(self._service.app, caller.tenant, row.task_id)
        return Description(caller.tenant, row).status(result)

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> A2ATask:
        validate_history_length(params)
        async with self._answering_about(context, params.id) as (caller, row):
            return apply_history_length(await self._task(caller, row.task_id), params)

    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        validate_history_length(params)
        if params.HasField("page_size"):
            validate_page_size(params.page_size)
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        async with self._answering(context) as caller:
            if params.status == TaskState.TASK_STATE_UNSPECIFIED:
                await _refuse_unknown_status(caller.request)
            which: dict[str, Any] = {
                "agent_id": caller.agent,
                "session_id": caller.tenant.stored(params.context_id) if params.context_id else None,
                "session_prefix": caller.tenant.prefix,
                "statuses": statuses_of(params.status),
                "since": params.status_timestamp_after.ToNanoseconds() / 1e9,
            }
            tasks = self._service.app.tasks
            rows = await tasks.list(**which, limit=size + 1, before=await self._last_shown(caller, params))
            page = [
                apply_history_length(await self._task(caller, row.task_id, in_list=True), params) for row in rows[:size]
            ]
            for task in page if not params.include_artifacts else ():
                task.ClearField("artifacts")
            following = page[-1].id if len(rows) > size else ""
            total = await tasks.count(**which)
            return ListTasksResponse(tasks=page, next_page_token=following, page_size=size, total_size=total)

    async def _last_shown(self, caller: Caller, params: ListTasksRequest) -> str | None:
        """The task that the page before ended with."""
        if not params.page_token:
            return None
        try:
            return (await own_task(self._service, caller.tenant, caller.agent, params.page_token)).task_id
        except TaskNotFoundError:
            raise InvalidParamsError("The page token is not one of this list.") from None

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> A2ATask:
        async with self._answering_about(context, params.id) as (caller, row):
            if (await self._status(caller, row)).state in _OVER:
                raise TaskNotCancelableError
            await self._service.app.cancel(row.task_id)
            return await self._task(caller, row.task_id)

    # Push notifications.

    @validate_request_params
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        async with self._answering_about(context, params.task_id):
            return await self._configs.set_info(params.task_id, params, context)

    @validate_request_params
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        found: TaskPushNotificationConfig
        for found in (await self._listed(params.task_id, context)).configs:
            if found.id == (params.id or params.task_id):
                return found
        raise TaskNotFoundError("The task has no such push notification config.")

    @validate_request_params
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        return await self._listed(params.task_id, context)

    async def _listed(self, task_id: str, context: ServerCallContext) -> ListTaskPushNotificationConfigsResponse:
        async with self._answering_about(context, task_id):
            return ListTaskPushNotificationConfigsResponse(configs=await self._configs.get_info(task_id, context))

    @validate_request_params
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        async with self._answering_about(context, params.task_id):
            await self._configs.delete_info(params.task_id, context, params.id)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        raise ExtendedAgentCardNotConfiguredError
