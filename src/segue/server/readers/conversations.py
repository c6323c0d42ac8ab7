"""The configuration of a conversation between a user, a bot and an API, and the task that it starts or continues."""

from fastapi.exceptions import RequestValidationError
from pydantic import ConfigDict, Field, ValidationError

from ...app import App
from ...core.conversation import MODE, ConversationConfig
from ...core.origin import MessageOrigin
from ...core.question import TEXTUAL
from ...core.records import RequestKey
from ...core.task_status import TaskStatus
from ...prompts.protocols import answer_of
from ...rehearsal.simulate import start_conversation
from ..request_body import LONGEST, NAME, RequestBody
from ..service import Begun, Service
from ..tenants import Tenant


class Configuration(RequestBody, ConversationConfig):
    """A conversation's configuration; what of it the service allows, the app's `Restrictions` say."""

    @property
    def config(self) -> ConversationConfig:
        """The configuration as it was given."""
        return ConversationConfig(**self.model_dump(include={*ConversationConfig.model_fields}, exclude_unset=True))


class ConversationRequest(Configuration):
    """A conversation to start."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"workflow": "travel_change", "seed": 1},
                {"user_mode": "input_user", "bot_mode": "segue:react", "bot_agent": "travel", "api_mode": "tools"},
            ]
        }
    )

    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST, description="a new one without it")
    user_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)


def read_message(app: App, message: str, agent_id: str, model: str) -> ConversationConfig:
    """The configuration that a chat message is as JSON; other text is the goal of a user whom a model plays.

    That user talks with the agent in its own mode, and a model answers the agent's calls, so that nothing runs.

    Raises:
        RequestValidationError: it is not a configuration.
        UnknownAgent.
    """
    if not message.lstrip().startswith("{"):
        agent = app.agents.agent(agent_id)
        return ConversationConfig(
            user_mode="llm_profile",
            goal=message,
            bot_agent=agent.agent_id,
            bot_mode=f"segue:{agent.mode}",
            bot_model=model,
            api_mode="llm",
        )
    try:
        config = Configuration.model_validate_json(message).config
    except ValidationError as error:
        found = [{**each, "loc": ("body", "message", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None
    about = {"bot_agent": config.bot_agent or agent_id, "bot_model": config.bot_model or model}
    return config.model_copy(update=about)


async def begin(
    service: Service,
    tenant: Tenant,
    config: ConversationConfig,
    thread_id: str,
    user: str,
    key: RequestKey | None,
    origin: MessageOrigin = "api",
) -> Begun:
    """Start a conversation as a task of a new session.

    Raises:
        ConfigurationError: it names what is not there, or what the service does not allow.
        ThreadExists: there is a session of that name.
    """
    with service.starting_task(tenant, thread_id):
        user_id = tenant.stored(user)
        row, _ = await start_conversation(service.app, config, thread_id, user_id=user_id, key=key, origin=origin)
    return row, 0


async def answer_waiting(
    service: Service, tenant: Tenant, thread_id: str, message: str, key: RequestKey | None
) -> Begun | None:
    """Answer the session's conversation with a message, if it waits for a person; None if it does not.

    A message only says something: what is decided, such as an approval, is asked again.
    """
    latest = await service.app.tasks.newest(thread_id)
    if latest is None or latest.mode != MODE or latest.status != TaskStatus.WAITING:
        return None
    question = await service.app.question(latest.task_id)
    if question["kind"] not in TEXTUAL:
        return latest, await service.app.tasks.before_question(latest)
    return await service.answer(tenant, latest, question, answer_of(question, message), key)
