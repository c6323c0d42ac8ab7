"""The configuration of a conversation between a user, a bot and an API, and the task that it starts or goes on with."""

from fastapi.exceptions import RequestValidationError
from pydantic import ConfigDict, Field, ValidationError

from ...app import App
from ...core.conversation import ACTION_LIMIT, MODE, RETRY_LIMIT, USER_LIMIT, ConversationConfig
from ...core.errors import UnknownWorkflow
from ...core.records import RequestKey
from ...core.task_status import TaskStatus
from ...prompts.protocols import answer_of
from ...rehearsal.simulate import start_conversation
from ...rehearsal.workflows import shipped_names, with_workflow
from ..request_body import LONGEST, MODEL, NAME, RequestBody
from ..service import Begun, Service
from ..tenants import Tenant

MOST_TURNS, MOST_ACTIONS, MOST_RETRIES = 200, 100, 10
MOST_SECONDS = 300.0
_MODEL = f"^{MODEL}?$"


class Configuration(RequestBody, ConversationConfig):
    """A conversation's configuration, within what a client of the service may ask for."""

    conversation_turn_limit: int = Field(default=USER_LIMIT, ge=1, le=MOST_TURNS)
    bot_action_limit: int = Field(default=ACTION_LIMIT, ge=0, le=MOST_ACTIONS)
    retry_limit: int = Field(default=RETRY_LIMIT, ge=1, le=MOST_RETRIES)
    api_timeout: float = Field(default=30.0, gt=0, le=MOST_SECONDS)
    user_model: str = Field(default="", pattern=_MODEL)
    bot_model: str = Field(default="", pattern=_MODEL)
    api_model: str = Field(default="", pattern=_MODEL)

    @property
    def config(self) -> ConversationConfig:
        """The configuration, with what its workflow and scenario fill in.

        Raises:
            UnknownWorkflow: it is none of those that come with Segue; files of the machine are not read.
            UnknownScenario.
        """
        if self.workflow and self.workflow not in shipped_names():
            raise UnknownWorkflow(self.workflow, shipped_names())
        given = self.model_dump(include={*ConversationConfig.model_fields}, exclude_unset=True)
        return with_workflow(ConversationConfig(**given))


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
        UnknownAgent, UnknownWorkflow, UnknownScenario.
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
    service: Service, tenant: Tenant, config: ConversationConfig, thread_id: str, user: str, key: RequestKey | None
) -> Begun:
    """Start a conversation as a task of a new session.

    Raises:
        ConfigurationError: it names what is not there, or what the service does not allow.
        ThreadExists: there is a session of that name.
    """
    with service.starting_task(tenant, thread_id):
        row, _ = await start_conversation(service.app, config, thread_id, user_id=tenant.stored(user), key=key)
    return row, 0


async def answer_waiting(
    service: Service, tenant: Tenant, thread_id: str, message: str, key: RequestKey | None
) -> Begun | None:
    """Answer the session's conversation with a message, if it waits for a person; None if it does not."""
    latest = await service.app.tasks.newest(thread_id)
    if latest is None or latest.mode != MODE or latest.status != TaskStatus.WAITING:
        return None
    question = await service.app.question(latest.task_id)
    return await service.answer(tenant, latest, question, answer_of(question, message), key)
