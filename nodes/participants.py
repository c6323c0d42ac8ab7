"""The participants of a conversation: bots, users and simulated APIs, and the roles that they play."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NoReturn, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.config import get_config
from langgraph.types import interrupt

from segue.core.actor import OPERATOR
from segue.core.agents import Agent
from segue.core.calls import BY_SEGUE, Tool
from segue.core.context import RunContext
from segue.core.conversation import (
    API,
    END,
    APIOutput,
    Bot,
    BotOutput,
    BotOutputType,
    Controller,
    Conversation,
    ConversationConfig,
    EndReason,
    Participants,
    Restrictions,
    Role,
    RunsTools,
    Setting,
    Table,
    User,
    UserOutput,
    Utterance,
    as_text,
    build,
    check_specs,
    factory_of,
    line_of,
    specs_of,
    spoken,
    transcript,
    without_end,
)
from segue.core.decision import call_name, check_storable, read_object
from segue.core.errors import ConfigurationError, UnreadableReply
from segue.core.events import Token, Uttered
from segue.core.models import ModelRequest
from segue.prompts.catalogue import agent_prompt, error_text, render, task_text

from .context import NodeContext, announce, described_specs, truncate
from .model_call import Listener, ask_model, refuse_unreadable
from .participant_apis import HttpAPI, ToolsAPI, offered, refused
from .task import Records, TaskState

# State of the conversation graph, and the conversation that it amounts to.


class ConversationState(TaskState, total=False):
    """The graph's channels; a node returns those that it changes. INIT resets every one that belongs to a task.

    The message is the configuration as JSON; FINISH adds the transcript.
    """

    config: dict[str, Any]
    """A `ConversationConfig`. INIT."""
    calls: list[dict[str, Any]]
    """The bot's call of a tool, as `PendingCall.json`, while it is decided about or waits for its result. INIT, API."""
    utterances: Records
    """The transcript, as `Utterance.json`. USER, BOT, API."""
    kept: dict[str, Any]
    """What participants keep, by role; that of API is the backend's. INIT, USER, BOT, API."""
    end_reason: str
    """An `EndReason`; empty while the conversation continues. USER, BOT."""


class ConversationForm(dict[str, Any]):
    """The fields of a `ConversationConfig`, each a channel that a run without the app is invoked with."""

    __annotations__ = dict.fromkeys(ConversationConfig.model_fields, Any)


def conversation_of(state: ConversationState) -> Conversation:
    """The conversation so far."""
    thread = str(get_config().get("configurable", {}).get("thread_id", ""))
    return Conversation(
        conversation_id=thread or state["task_id"],
        config=ConversationConfig(**state["config"]),
        utterances=tuple(Utterance.of(form) for form in state["utterances"]),
        state=state["kept"],
        language=state["language"],
        task_id=state["task_id"],
    )


def announced(utterance: Utterance, conversation: Conversation, work: NodeContext) -> list[dict[str, Any]]:
    """Its event; its line of the transcript is streamed, since the transcript is the answer."""
    if text := line_of(utterance):
        work.emit(Token(task_id=conversation.task_id, content=f"\n{text}" if conversation.utterances else text))
    return announce(Uttered(task_id=conversation.task_id, utterance=utterance.json()))


def with_participant_state(state: ConversationState, role: Role, value: dict[str, Any] | None) -> dict[str, Any]:
    """What participants keep, with this role's new value if it has one."""
    return state["kept"] if value is None else {**state["kept"], role.value: value}


# Model calls of participants: attempts at a reply that can be read.

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Completion:
    """The outcome of a model's attempts: `value` is None, and `error` says why, where no attempt could be read."""

    value: Any
    usage: dict[str, Any] = field(default_factory=dict)
    error: str = ""


async def complete(
    setting: Setting,
    conversation: Conversation,
    messages: Sequence[BaseMessage],
    read: Callable[[str], Reading],
    schema: Mapping[str, Any] | None = None,
) -> Completion:
    """Ask the participant's model; a reply that cannot be read is asked for again, with the reason."""
    work = model_context(setting)
    asked, usage, why = list(messages), dict[str, Any](), ""
    for attempt in range(setting.config.retry_limit):
        seed = seed_of(setting, conversation, attempt)
        request = ModelRequest(purpose="converse", messages=asked, schema=schema, seed=seed)
        done = await ask_model(work, request, Listener, usage, {"task_id": conversation.task_id}, setting.language)
        usage = dict(done.usage)
        try:
            refuse_unreadable(done.reply)
            return Completion(read(done.reply.text), usage)
        except UnreadableReply as error:
            why = error_text(error, setting.language)
            hint = HumanMessage(task_text("reply_unread", setting.language, why=why))
            asked = [*asked, AIMessage(done.reply.text or "…"), hint]
    return Completion(None, usage, task_text("none_read", setting.language, n=setting.config.retry_limit, why=why))


def model_context(setting: Setting) -> NodeContext:
    """The context of a participant's model calls."""
    work = NodeContext(setting.services, RunContext(model=setting.model), setting.agent)
    if not work.model.is_language_model:
        role = setting.role.value.lower()
        raise ConfigurationError(
            "The {role} of this conversation needs a language model and would have {model}: name one as "
            '{role}_model, such as "openai:<name>".',
            role=role,
            model=work.model.name,
        )
    return work


def seed_of(setting: Setting, conversation: Conversation, attempt: int = 0) -> int | None:
    """The seed of one model call: another one for every role, utterance and attempt; None without a seed."""
    if setting.config.seed is None:
        return None
    return random_of(setting, conversation, str(attempt)).randrange(2**31)


def random_of(setting: Setting, conversation: Conversation, purpose: str) -> Random:
    """Randomness that is the same whenever this utterance is made again."""
    seed = conversation.conversation_id if setting.config.seed is None else setting.config.seed
    return Random(f"{seed}/{setting.role}/{len(conversation.utterances)}/{purpose}")


# The bot that thinks and acts in text, and the parser of that text.


class ReactBot:
    """Follows its agent's prompt, or the instructions that it is given."""

    def __init__(self, setting: Setting, instructions: str = "") -> None:
        model_context(setting)  # it is refused here, before the conversation begins
        self._setting = setting
        self._instructions = instructions

    async def process(self, conversation: Conversation) -> BotOutput:
        messages = [SystemMessage(self._system(conversation)), *self._dialogue(conversation)]
        done = await complete(self._setting, conversation, messages, self._read)
        if done.error:
            return BotOutput(action_type=BotOutputType.RESPONSE, usage=done.usage, error=done.error)
        output: BotOutput = done.value
        return BotOutput(**{**vars(output), "usage": done.usage})

    def _system(self, conversation: Conversation) -> str:
        setting = self._setting
        said = " ".join(u.text for u in conversation.utterances if u.role is Role.USER)
        own = self._instructions or agent_prompt(setting.agent, setting.language, said)
        return render(
            "react_bot", setting.language, instructions=own, apis=described_specs(setting.specs, setting.language)
        )

    def _read(self, text: str) -> BotOutput:
        return read_output(text)

    def _dialogue(self, conversation: Conversation) -> Iterator[BaseMessage]:
        most = self._setting.agent.budget.result_chars
        for utterance in conversation.utterances:
            match utterance.role:
                case Role.USER:
                    yield HumanMessage(utterance.text)
                case Role.BOT:
                    yield AIMessage(_written(utterance))
                case Role.API:
                    yield HumanMessage(f"Observation: {truncate(as_text(utterance.data), most)}")


def _written(utterance: Utterance) -> str:
    """A bot's utterance in its text form."""
    thought = f"Thought: {utterance.thought}\n" if utterance.thought else ""
    if not utterance.is_action:
        return f"{thought}Response: {utterance.text}"
    arguments = json.dumps(utterance.action_input, ensure_ascii=False)
    return f"{thought}Action: {utterance.action}\nAction Input: {arguments}"


_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$\n?", re.MULTILINE)
_LABEL = re.compile(
    r"^[ \t]*\**(Thought|Response|Action[ _]?Input|Action|Observation)\**[ \t]*[:：][ \t]*\**",
    re.IGNORECASE | re.MULTILINE,
)
_PLACEHOLDER = re.compile(r"<[^<>]*>")
_PREFIX = "API_"


def read_output(text: str) -> BotOutput:
    """Read a reply: fences and a trailing [END] are dropped, and only the last block of several counts.

    A text without any label is a response.
    """
    plain = without_end(_FENCE.sub("", text)).strip()
    if not plain:
        raise UnreadableReply("The reply is empty.")
    labels = list(_LABEL.finditer(plain))
    if not labels:
        return BotOutput(action_type=BotOutputType.RESPONSE, text=plain)
    return _output(_last_block(plain, labels))


def _last_block(text: str, labels: list[re.Match[str]]) -> dict[str, str]:
    """The parts of the last block by label; a block begins with a thought, or with the first label."""
    block: dict[str, str] = {}
    ends = [*(label.start() for label in labels[1:]), len(text)]
    for label, end in zip(labels, ends, strict=True):
        name = re.sub(r"[ _]", "", label[1].lower())
        if name == "thought":
            block = {}
        block.setdefault(name, text[label.end() : end].strip())
    return block


def _output(block: dict[str, str]) -> BotOutput:
    if any(_PLACEHOLDER.fullmatch(block.get(name, "")) for name in ("action", "response")):
        raise UnreadableReply("It repeats the <placeholders> of the form: put your own text in their place.")
    thought, action = block.get("thought", ""), block.get("action", "").strip("`*\"' ")
    if action and action.lower() != "none":
        return BotOutput(
            action_type=BotOutputType.ACTION,
            thought=thought,
            action=call_name(action.removeprefix(_PREFIX)),
            action_input=_arguments(block.get("actioninput")),
        )
    if response := without_end(block.get("response", "")).strip():
        return BotOutput(action_type=BotOutputType.RESPONSE, thought=thought, text=response)
    raise UnreadableReply("It has neither a Response nor an Action.")


def _arguments(text: str | None) -> dict[str, Any]:
    if not text:
        raise UnreadableReply(
            "The Action Input is missing: write a JSON object, an empty one where there are no arguments."
        )
    try:
        value = json.loads(text, parse_constant=_refuse)
        check_storable(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableReply("The Action Input is not valid JSON ({error}).", error=error) from error
    if not isinstance(value, dict):
        raise UnreadableReply("The Action Input is not a JSON object.")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


# Participants without a model: the dummies, a scripted user, and a person.

TURNS = 2
"""Turns after which the dummy user ends the conversation."""


class DummyUser:
    """Asks twice and ends."""

    def __init__(self, setting: Setting) -> None:
        pass

    async def process(self, conversation: Conversation) -> UserOutput:
        return UserOutput(text="user query..." if conversation.turn < TURNS else END)


class DummyBot:
    """Answers the first turn at once, and every later one after a call."""

    def __init__(self, setting: Setting) -> None:
        pass

    async def process(self, conversation: Conversation) -> BotOutput:
        if conversation.turn > 1 and not conversation.actions:
            return BotOutput(action_type=BotOutputType.ACTION, text="bot action...", action="dummy_action")
        return BotOutput(action_type=BotOutputType.RESPONSE, text="bot response...")


class DummyAPI:
    """Says that it is called."""

    def __init__(self, setting: Setting) -> None:
        self.specs: Sequence[Mapping[str, Any]] = offered(setting)

    async def process(self, conversation: Conversation) -> APIOutput:
        return APIOutput(data="api calling...")


class ScriptedUser:
    """Says one line of `script` a turn, whatever the bot answers, and ends the conversation after the last."""

    def __init__(self, setting: Setting) -> None:
        self._script = setting.config.script

    async def process(self, conversation: Conversation) -> UserOutput:
        said = conversation.turn
        return UserOutput(text=self._script[said] if said < len(self._script) else END)


KIND = "question"
"""The kind of interrupt that a person answers with a text."""
_ENDS = ("END", END)
_CALL = re.compile(r"\A\s*(\w[\w.-]*)\s*\((\{.*\})?\)\s*\Z", re.DOTALL)


class PersonUser:
    """A person writes; END ends the conversation."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    async def process(self, conversation: Conversation) -> UserOutput:
        text = _ask(self._setting, conversation)
        return UserOutput(text=END if text.strip() in _ENDS else text)


class PersonBot:
    """A person answers, or calls an API as `name({"argument": …})`."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._names = {spec["function"]["name"] for spec in setting.specs}

    async def process(self, conversation: Conversation) -> BotOutput:
        text = _ask(self._setting, conversation)
        found = _CALL.match(text)
        if found and (found[2] or found[1] in self._names):  # of a name that is unknown the API says so
            try:
                arguments = json.loads(found[2] or "{}")
            except ValueError:
                return BotOutput(action_type=BotOutputType.RESPONSE, text=text)
            return BotOutput(action_type=BotOutputType.ACTION, action=found[1], action_input=arguments)
        return BotOutput(action_type=BotOutputType.RESPONSE, text=text)


def _ask(setting: Setting, conversation: Conversation) -> str:
    """What a person says; interrupts the graph until somebody did."""
    last = conversation.utterances[-1] if conversation.utterances else None
    question: dict[str, Any] = {
        "kind": KIND,
        "question": spoken(last) if last else task_text("begin_talk", setting.language),
        "role": setting.role.value,
        "calls": [],
        BY_SEGUE: True,
    }
    answer = interrupt(question)
    if not isinstance(answer, Mapping):
        return str(answer)
    return "END" if answer.get("manual_finish") else str(answer.get("answer", ""))


# Users and an API that a language model plays.

_NAME = re.compile(r"\A\s*(?:\[USER\]|(?:User|用户)\s*[:：])\s*", re.IGNORECASE)
_OTHER = re.compile(r"^[^\S\n]*(?:\[BOT\]|(?:Assistant|助手)\s*[:：])", re.IGNORECASE | re.MULTILINE)


class SimulatedUser:
    """Plays a persona with a goal, on a model of its own; it sees what the bot says, and no call."""

    def __init__(self, setting: Setting) -> None:
        model_context(setting)  # it is refused here, before the conversation begins
        self._setting = setting

    async def process(self, conversation: Conversation) -> UserOutput:
        messages = [SystemMessage(self._system()), HumanMessage(self.instructions(conversation))]
        done = await complete(self._setting, conversation, messages, _read if conversation.turn else _read_first)
        return UserOutput(text=done.value or "", usage=done.usage, error=done.error)

    def instructions(self, conversation: Conversation) -> str:
        """The conversation so far and what to do next, in one message: small models confuse swapped roles."""
        return render("user_turn", self._setting.language, transcript="\n".join(self._lines(conversation)))

    def _system(self) -> str:
        config, language = self._setting.config, self._setting.language
        return render(
            "simulated_user",
            language,
            persona=config.persona or task_text("no_persona", language),
            goal=config.goal or task_text("no_goal", language),
        )

    def _lines(self, conversation: Conversation) -> Iterator[str]:
        language = self._setting.language
        yield task_text("assistant_said", language, text=task_text("greeting", language))
        for utterance in conversation.utterances:
            if utterance.role is Role.USER:
                yield task_text("user_said", language, text=utterance.text)
            elif utterance.role is Role.BOT and not utterance.is_action:
                yield task_text("assistant_said", language, text=utterance.text)


class OutOfWorkflowUser(SimulatedUser):
    """Says something outside the workflow now and then, with a seeded probability; never in its first turn."""

    def instructions(self, conversation: Conversation) -> str:
        whole = super().instructions(conversation)
        chance = random_of(self._setting, conversation, "out of workflow").random()
        if not conversation.turn or chance >= self._setting.config.out_of_workflow:
            return whole
        return f"{whole}\n\n{task_text('out_of_workflow', self._setting.language)}"


def _read_first(text: str) -> str:
    """The first message, which cannot end the conversation."""
    said = without_end(_read(text)).strip()
    if not said:
        raise UnreadableReply("The first message says what the user wants.")
    return said


def _read(text: str) -> str:
    """The message without the name of its speaker and what it has the assistant say; an [END] that closes it ends."""
    said = _NAME.sub("", text)
    if other := _OTHER.search(said):
        said = said[: other.start()]
    before, end, after = said.rpartition(END)
    if end and not re.search(r"\w", after):
        said = before.rstrip(" \t") + f"\n{END}"
    if not said.strip():
        raise UnreadableReply("The message is empty.")
    return said.strip()


UNAVAILABLE = 503
_REPLY = {
    "type": "object",
    "properties": {"status_code": {"type": "integer"}, "data": {}},
    "required": ["status_code", "data"],
}


class SimulatedAPI:
    """Answers calls from their schemas and the calls so far; nothing is run."""

    def __init__(self, setting: Setting) -> None:
        model_context(setting)  # it is refused here, before the conversation begins
        self._setting = setting
        self.specs: Sequence[Mapping[str, Any]] = offered(setting)

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        assert call is not None
        if refusal := refused(self.specs, call, self._setting.language, simple=bool(self._setting.config.apis)):
            return refusal
        messages = [SystemMessage(self._system(conversation)), HumanMessage(_line(call))]
        done = await complete(self._setting, conversation, messages, _read_reply, schema=_REPLY)
        if done.error:
            return APIOutput(status_code=UNAVAILABLE, data=done.error, usage=done.usage)
        code, data = done.value
        return APIOutput(status_code=code, data=data, usage=done.usage)

    def _system(self, conversation: Conversation) -> str:
        language = self._setting.language
        calls = "\n".join(f"- {_line(result)}: {_result(result)}" for result in conversation.results)
        return render(
            "simulated_api",
            language,
            apis=described_specs(self.specs, language),
            calls=calls or task_text("no_calls", language),
        )


def _line(call: Utterance) -> str:
    return f"{call.action}({json.dumps(call.action_input, ensure_ascii=False)})"


def _result(result: Utterance) -> str:
    return json.dumps({"status_code": result.status_code, "data": result.data}, ensure_ascii=False)


def _read_reply(text: str) -> tuple[int, Any]:
    """The status code and data of a reply."""
    form = read_object(text, "status_code")
    code = form.get("status_code")
    if not isinstance(code, int) or not 100 <= code <= 599:
        raise UnreadableReply("The status_code is not an HTTP status code.")
    return code, form.get("data")


# Participants and controllers of a run, built from the names in its configuration.

Made = TypeVar("Made")
AGENT_BOT = "segue"
"""The name of the bot that is an agent of Segue's; its argument is a mode."""
PERSON = "input_user"
"""The user that is a person, who is asked about every call that needs approval."""
SIMULATED_USER = Agent(agent_id="simulated_user", description="The user of a rehearsal")
SIMULATED_API = Agent(agent_id="simulated_api", description="The API of a rehearsal")


class ApiDuplication:
    """Refuses a call that was made `api_duplication_limit` times before with the same arguments."""

    def __init__(self, setting: Setting) -> None:
        self._most = setting.config.api_duplication_limit
        self._language = setting.language

    def refusal(self, conversation: Conversation) -> str:
        call = conversation.pending
        assert call is not None
        requested = (call.action, call.action_input)
        made = sum((u.action, u.action_input) == requested for u in conversation.results)
        if made < self._most:
            return ""
        return task_text("api_duplication", self._language, tool=call.action, n=str(made))

    def end(self, conversation: Conversation) -> EndReason | None:
        return None


class SessionLength:
    """Ends a conversation whose transcript has `session_length` characters, after an answered turn."""

    def __init__(self, setting: Setting) -> None:
        self._most = setting.config.session_length

    def refusal(self, conversation: Conversation) -> str:
        return ""

    def end(self, conversation: Conversation) -> EndReason | None:
        reached = 0 < self._most <= len(transcript(conversation))
        return EndReason.SESSION_LENGTH if reached else None


def _without_app(setting: Setting) -> Bot:
    raise ConfigurationError(
        "A Segue agent as the bot needs the app: use `segue simulate` or segue.testing.rehearsal.converse, or here "
        "react_bot."
    )


BUILTIN = Participants()
BUILTIN.users.register("dummy_user", DummyUser)
BUILTIN.users.register("input_user", PersonUser)
BUILTIN.users.register("scripted_user", ScriptedUser)
BUILTIN.users.register("llm_profile", SimulatedUser)
BUILTIN.users.register("llm_oow", OutOfWorkflowUser)
BUILTIN.bots.register("dummy_bot", DummyBot)
BUILTIN.bots.register("input_bot", PersonBot)
BUILTIN.bots.register("react_bot", ReactBot)
BUILTIN.bots.register(AGENT_BOT, _without_app)
BUILTIN.apis.register("dummy_api", DummyAPI)
BUILTIN.apis.register("tools", ToolsAPI)
BUILTIN.apis.register("llm", SimulatedAPI)
BUILTIN.apis.register("request", HttpAPI)
BUILTIN.controllers.register("api_duplication", ApiDuplication)
BUILTIN.controllers.register("session_length", SessionLength)


def user_of(conversation: Conversation, work: NodeContext) -> User:
    """The user."""
    tables: tuple[Table[User], ...] = (work.services.participants.users, BUILTIN.users)
    return _built(Role.USER, conversation.config.user_mode, tables, conversation, work)


def bot_of(conversation: Conversation, work: NodeContext) -> Bot:
    """The bot; it knows the functions that the API offers."""
    tables: tuple[Table[Bot], ...] = (work.services.participants.bots, BUILTIN.bots)
    return _built(Role.BOT, conversation.config.bot_mode, tables, conversation, work, _offered(conversation, work))


def bot_setting(conversation: Conversation, work: NodeContext) -> Setting:
    """What the bot is built from."""
    argument = conversation.config.bot_mode.partition(":")[2]
    return _setting(Role.BOT, conversation, work, argument, _offered(conversation, work))


def api_of(conversation: Conversation, work: NodeContext) -> API | RunsTools:
    """The API."""
    tables: tuple[Table[API | RunsTools], ...] = (work.services.participants.apis, BUILTIN.apis)
    found = _built(Role.API, conversation.config.api_mode, tables, conversation, work)
    check_specs(conversation.config.api_mode, found)
    return found


def controllers_of(conversation: Conversation, work: NodeContext) -> dict[str, Controller]:
    """The referee's controllers by name, in the order of the configuration."""
    config = conversation.config
    tables: tuple[Table[Controller], ...] = (work.services.participants.controllers, BUILTIN.controllers)
    specs = _offered(conversation, work) if config.controllers else ()
    found = {}
    for name in config.controllers:
        factory, argument = factory_of(name, *tables, restrictions=_restrictions(work))
        found[name] = factory(_setting(Role.API, conversation, work, argument, specs))
    return found


def _offered(conversation: Conversation, work: NodeContext) -> Sequence[Mapping[str, Any]]:
    """The functions that a bot may call: those that the API lists, else those of the configuration or the tools."""
    listed = specs_of(api_of(conversation, work))
    return offered(_setting(Role.API, conversation, work, "", ())) if listed is None else listed


def _restrictions(work: NodeContext) -> Restrictions:
    return work.services.participants.restrictions


def check_participants(conversation: Conversation, work: NodeContext) -> None:
    """Build every participant and controller once, so that what is not there or does not fit is refused at once."""
    user_of(conversation, work)
    bot_of(conversation, work)
    controllers_of(conversation, work)
    config = conversation.config
    wanted = config.approvals == "approve" and config.user_mode != PERSON
    if wanted and not work.services.agents.auto_approves and isinstance(api_of(conversation, work), RunsTools):
        raise ConfigurationError(
            'approvals = "approve" would run the tools of the API {api} without asking: use "ask" or "reject", or a '
            "simulated API. To allow it, set auto_approve_conversations = true in the [approvals] table of the agents "
            "file.",
            api=config.api_mode,
        )


def permission_of(config: ConversationConfig, work: NodeContext) -> str:
    """The scope of the permission that calls run under without a question; empty where a person is asked."""
    approves = config.approvals == "approve" and config.user_mode != PERSON
    return OPERATOR if approves and work.services.agents.auto_approves else ""


def _built(
    role: Role,
    mode: str,
    tables: Sequence[Table[Made]],
    conversation: Conversation,
    work: NodeContext,
    specs: Sequence[Mapping[str, Any]] = (),
) -> Made:
    factory, argument = factory_of(mode, *tables, restrictions=_restrictions(work))
    return build(mode, factory, _setting(role, conversation, work, argument, specs), conversation)


def _setting(
    role: Role, conversation: Conversation, work: NodeContext, argument: str, specs: Sequence[Mapping[str, Any]]
) -> Setting:
    config = conversation.config
    _restrictions(work).check(config)
    return Setting(
        role=role,
        config=config,
        services=work.services,
        agent=agent_of(role, config, work),
        user_id=work.context.user_id,
        model=_model_of(role, config, work),
        argument=argument,
        language=conversation.language,
        specs=specs,
        tools=_tools(config, work) if role is Role.API else {},
    )


def _tools(config: ConversationConfig, work: NodeContext) -> Mapping[str, Tool]:
    """The tools that are named, or else those of the bot's agent in its mode."""
    bot, _, mode = config.bot_mode.partition(":")
    agents, about = work.services.agents, (agent_of(Role.BOT, config, work), mode if bot == AGENT_BOT else "")
    if not config.tools:
        return agents.tools_in(*about)
    _restrictions(work).check_tools(config.tools)
    return agents.tools_named(config.tools, *about)


def agent_of(role: Role, config: ConversationConfig, work: NodeContext) -> Agent:
    """The agent of a role; the bot's is the run's own where none is named, the others never share it unasked."""
    named = {Role.USER: config.user_agent, Role.BOT: config.bot_agent, Role.API: config.api_agent}[role]
    if named:
        return work.services.agent(named)
    return {Role.USER: SIMULATED_USER, Role.BOT: work.agent, Role.API: SIMULATED_API}[role]


def _model_of(role: Role, config: ConversationConfig, work: NodeContext) -> str:
    """The model that replaces the agent's own; only the bot inherits the run's."""
    named = {Role.USER: config.user_model, Role.BOT: config.bot_model, Role.API: config.api_model}[role]
    return named or (work.context.model if role is Role.BOT and not config.bot_agent else "")
