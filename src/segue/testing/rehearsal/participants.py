"""Participants that follow a workflow: the loader, the bot, the API and the user with a persona."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import ValidationError

from ...core.conversation import (
    COMPLETIONS,
    END,
    REGISTERED,
    APIOutput,
    BotOutput,
    BotOutputType,
    Conversation,
    ConversationConfig,
    EndReason,
    Role,
    Setting,
    UserOutput,
)
from ...core.errors import ConfigurationError, InvalidWorkflow, UnknownScenario, UnknownWorkflow
from ...core.records import Json
from ...nodes.participant_apis import refused
from ...nodes.participants import ReactBot
from ...passages import Passage, PassageIndex
from ...prompts.catalogue import rehearsal_text, render, task_text
from .backends import Backend, Refused, find_backend, register_backend
from .workflow import (
    Api,
    Call,
    ExpectedCall,
    Location,
    Persona,
    Record,
    Scenario,
    Slot,
    Step,
    Workflow,
    fill,
    next_move,
)

# Workflows and scenarios from files, each error with its file, line and field.

_FENCE = "---"
_DEEPEST = 50
_TIMESTAMP, _BOOL = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"


_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]  # Any: libyaml may be absent
    """Reads dates and `yes` or `no` as the text that they are; only `true` and `false` are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TIMESTAMP, _BOOL)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|false)$"), list("tf"))


@dataclass(frozen=True)
class Document:
    """The parsed text of a file, with the tree of its YAML nodes and the text below the front matter."""

    file: str
    value: Any
    body: str
    _tree: yaml.Node | None
    _offset: int

    def fault(self, at: Location, reason: str, **values: object) -> InvalidWorkflow:
        """An error that names the file, the line and the field; `reason` is a template of the values."""
        return InvalidWorkflow(self.file, self.line(at), ".".join(str(part) for part in at), reason, **values)

    def line(self, at: Location) -> int:
        """The line of the deepest part of that place that exists."""
        node, line = self._tree, self._offset + 1
        for part in at:
            key, node = _child(node, part)
            if key is None:
                break
            line = key.start_mark.line + 1 + self._offset
        return line


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None, None


def read_document(path: Path, text: str | None = None) -> Document:
    """Read a `.yaml` file, or Markdown whose front matter is YAML; a `text` is read in place of the file's.

    Raises:
        InvalidWorkflow: it cannot be read, is not valid YAML, has an alias, or names a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig") if text is None else text
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidWorkflow(path.name, 1, "", "the file cannot be read ({error})", error=error) from None
    front, body, offset = (text, "", 0) if path.suffix in (".yaml", ".yml") else _front_matter(path.name, text)
    depth = 0
    try:
        for event in yaml.parse(front, Loader=_Loader):  # a few aliases can stand for more than any memory holds
            line = (event.start_mark.line if event.start_mark else 0) + 1 + offset
            if isinstance(event, yaml.AliasEvent):
                reason = "an alias (*{name}) cannot be used: write it out"
                raise InvalidWorkflow(path.name, line, "", reason, name=event.anchor)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                reason = "lists and mappings can be nested {n} deep at most"
                raise InvalidWorkflow(path.name, line, "", reason, n=_DEEPEST)
        tree = yaml.compose(front, Loader=_Loader)
        value = yaml.load(front, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark.line + 1 if error.problem_mark else 1) + offset
        raise InvalidWorkflow(path.name, line, "", "this is not valid YAML: {error}", error=error.problem) from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # the others of !!bool x, !!timestamp x
        raise InvalidWorkflow(path.name, 1, "", "this is not valid YAML: {error}", error=error) from None
    document = Document(path.name, value, body, tree, offset)
    _refuse_repeated_keys(document, tree, ())
    return document


def _front_matter(file: str, text: str) -> tuple[str, str, int]:
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        raise InvalidWorkflow(file, 1, "", "the file should begin with front matter: a line with '---', then YAML")
    for place, line in enumerate(lines[1:], start=1):
        if line.strip() == _FENCE:
            return "".join(lines[1:place]), "".join(lines[place + 1 :]).strip(), 1
    raise InvalidWorkflow(file, 1, "", "the front matter should end with a line with '---'")


def _refuse_repeated_keys(document: Document, node: yaml.Node | None, at: Location) -> None:
    """YAML itself would keep the last one in silence."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1 + document._offset
                raise InvalidWorkflow(document.file, line, ".".join(map(str, (*at, key.value))), "this key is repeated")
            seen.add(key.value)
            _refuse_repeated_keys(document, value, (*at, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            _refuse_repeated_keys(document, value, (*at, place))


SHIPPED = Path(__file__).parent / "shipped"
R = TypeVar("R", bound=Record)


def shipped_names() -> list[str]:
    """The names of the workflows that come with Segue."""
    return sorted(path.stem for path in SHIPPED.glob("*.md"))


def workflow_file(name: str) -> Path:
    """The file of a workflow: a path, or the name of a shipped one.

    Raises:
        UnknownWorkflow: there is neither.
    """
    path = Path(name)
    if path.suffix in (".md", ".yaml", ".yml") and path.is_file():
        return path
    if name not in shipped_names():
        raise UnknownWorkflow(name, shipped_names())
    return SHIPPED / f"{name}.md"


def load_workflow(name: str) -> Workflow:
    """Load a workflow by its path or its shipped name.

    Raises:
        UnknownWorkflow: there is no such file and no such shipped workflow.
        InvalidWorkflow: the first fault, with its place.
    """
    return read_workflow(workflow_file(name))


@cache
def _read(path: Path, _changed: int) -> Workflow:
    document = read_document(path)
    fields = document.value
    if isinstance(fields, Mapping) and document.body:
        fields = {**fields, "policy": document.body}
    workflow = _validated(document, Workflow, fields, ())
    for name, api in workflow.apis.items():
        try:
            Draft202012Validator.check_schema(api.parameters)
        except SchemaError as error:
            raise document.fault(
                ("apis", name, "parameters"), "not a JSON schema: {error}", error=error.message
            ) from None
    for at, reason, values in workflow.faults():
        raise document.fault(at, reason, **values)
    if ":" in workflow.backend and str(path.resolve().parent) not in sys.path:  # its module may be beside the file
        sys.path.append(str(path.resolve().parent))
    return workflow


def read_workflow(path: Path) -> Workflow:
    """Read and check a workflow's file; one that has not changed is read once."""
    return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)


def files_of(name: str) -> list[Path]:
    """The files of a workflow: its own, and that of its scenarios if it names one.

    Raises:
        UnknownWorkflow, InvalidWorkflow.
    """
    file = workflow_file(name)
    named = read_workflow(file).scenarios
    if not named:
        return [file]
    return [file, SHIPPED / f"{named}.yaml" if named in shipped_names() else file.parent / named]


def load_scenarios(name: str) -> tuple[Scenario, ...]:
    """The scenarios that a workflow names: a file beside it, or those of a shipped workflow; none if it names none.

    Raises:
        UnknownWorkflow: there is no such workflow.
        InvalidWorkflow: a file is missing or has a fault.
    """
    _, *paths = files_of(name)
    return tuple(s for path in paths for s in _read_scenarios(path, path.stat().st_mtime_ns if path.is_file() else 0))


@cache
def _read_scenarios(path: Path, _changed: int) -> tuple[Scenario, ...]:
    document = read_document(path)
    listed = document.value.get("scenarios") if isinstance(document.value, Mapping) else None
    if not isinstance(listed, list):
        raise document.fault(("scenarios",), "should be a list of scenarios")
    found: list[Scenario] = []
    for place, item in enumerate(listed):
        scenario = _validated(document, Scenario, item, ("scenarios", place))
        if any(scenario.name == other.name for other in found):
            raise document.fault(("scenarios", place, "name"), "there are two scenarios '{name}'", name=scenario.name)
        found.append(scenario)
    return tuple(found)


def find_scenario(name: str, scenario: str) -> Scenario:
    """A workflow's scenario by its name.

    Raises:
        UnknownScenario: listing the scenarios that there are.
        ConfigurationError: there are none.
    """
    listed = load_scenarios(name)
    if not listed:
        raise ConfigurationError(
            "The workflow {workflow} has no scenarios: name a file of them in its front matter, such as "
            "'scenarios: mine.yaml', or choose another user, such as --user llm_profile.",
            workflow=name,
        )
    for found in listed:
        if found.name == scenario:
            return found
    raise UnknownScenario(scenario, [found.name for found in listed])


def _validated(document: Document, record: type[R], value: Any, at: tuple[str | int, ...]) -> R:
    try:
        return record.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = first["msg"].removeprefix("Value error, ")
        problem = problem[:1].lower() + problem[1:]
        raise document.fault((*at, *first["loc"]), "{problem}", problem=problem) from None


# The deterministic user of a scenario, and how it recognises what it is asked.

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|(?<=[。？！])|\n+")
_NAME = "slots"
_ANYTHING_ELSE = (
    "anything else",
    "something else i can",
    "how else can i",
    "what else can i",
    "还有什么",
    "其他可以帮",
    "别的需要",
)
"""Words of a bot that asks for nothing in particular."""
_REQUESTS = (
    *("?", "please", "tell me", "give me", "provide", "let me know", "i need", "i will need", "i'll need", "may i"),
    *("？", "请", "需要", "提供", "告诉", "告知", "麻烦您", "能否", "说一下"),
)
"""Words of a sentence that asks for something."""
_ONE_MOMENT = (
    "let me",
    "one moment",
    "hold on",
    "i will check",
    "i'll check",
    "稍等",
    "稍候",
    "正在",
    "我来查",
    "我查一下",
)
"""Words of a bot that is at work."""


class Questions:
    """Recognises the slots of a workflow in questions, however they are worded."""

    def __init__(self, workflow: Workflow) -> None:
        self._slots = workflow.slots

    def asked(self, reply: str) -> list[str]:
        """The slots that a reply asks for, in the order of the workflow.

        They are known by their keywords; without any, it is the one whose description fits the question best.
        """
        asking = self.requests_in(reply)
        if not asking:
            return []
        named = [name for name, slot in self._slots.items() if _contains(asking, slot.keywords)]
        return named or [[*self._slots][place] for place in self._index.places(_NAME, asking, 1)]

    @staticmethod
    def requests_in(reply: str) -> str:
        """The sentences of a reply that ask for something; not whether there is anything else."""
        asking = " ".join(part for part in _SENTENCE_END.split(reply) if _contains(part, _REQUESTS))
        return "" if _contains(asking, _ANYTHING_ELSE) else asking

    @staticmethod
    def is_closing(reply: str) -> bool:
        """Whether a reply asks whether there is anything else."""
        return _contains(reply, _ANYTHING_ELSE)

    @staticmethod
    def is_pause(reply: str) -> bool:
        """Whether a reply only says that the bot is at work."""
        return _contains(reply, _ONE_MOMENT) and not _contains(reply, _REQUESTS)

    @cached_property
    def _index(self) -> PassageIndex:
        index = PassageIndex()
        index.add(_NAME, [Passage("", _described(slot)) for slot in self._slots.values()], len(self._slots))
        return index


def _described(slot: Slot) -> str:
    return " ".join([slot.description, *slot.keywords, *(word for words in slot.choices.values() for word in words)])


def _contains(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.casefold() for word in map(str.casefold, words))


PATIENCE = 2
"""How often the user says the same thing, or that it does not know, before it ends the conversation."""

SLOT, QUESTION, PAUSE, STATEMENT = "slot", "question", "pause", "statement"


class PersonaUser:
    """Opens with the persona's request, and ends when nothing is asked and nothing is left to request."""

    def __init__(self, workflow: Workflow, persona: Persona, seed: int) -> None:
        self._workflow = workflow
        self._questions = Questions(workflow)
        self._persona = persona
        self._seed = seed

    def reply(self, conversation: Conversation) -> str:
        """The next message; a function of the seed and the conversation so far."""
        random = Random(f"{self._seed}/{len(conversation.utterances)}")
        replies = [u.text for u in conversation.utterances if u.role is Role.BOT and not u.is_action]
        if not replies:
            volunteered = (self._answer(name, 0, random) for name in self._persona.volunteers)
            return " ".join([random.choice(self._persona.opening), *volunteered])
        asked = self._asked(replies[-1])
        if not asked:
            return self._reply_to_other(replies, random)
        earlier = [name for reply in replies[:-1] for name in self._asked(reply)]
        if any(earlier.count(name) >= PATIENCE + max(len(self._known(name)), 1) - 1 for name in asked):
            return self._end_unanswered()
        return " ".join(self._answer(name, earlier.count(name), random) for name in asked)

    def _reply_to_other(self, replies: list[str], random: Random) -> str:
        """To a question that it does not understand, what it wants; to a statement the next request, or the end.

        A statement is not yet the end where the bot has not asked for all that it needs to know.
        """
        kinds: list[str] = []
        for reply in replies:  # a bot that asks whether there is anything else before it asked for a slot is not done
            early = SLOT not in kinds and self._questions.is_closing(reply)
            kinds.append(QUESTION if early else self._kind(reply))
        if kinds[-1] != STATEMENT:
            if kinds.count(kinds[-1]) > PATIENCE:
                return self._end_unanswered()
            waits = rehearsal_text("waits", self._workflow.language)
            return waits if kinds[-1] == PAUSE else random.choice(self._persona.opening)
        settled = kinds.count(STATEMENT) - 1
        if settled < len(self._persona.requests):
            return self._persona.requests[settled]
        if settled < PATIENCE and not self._questions.is_closing(replies[-1]) and self._unstated(replies):
            return rehearsal_text("waits", self._workflow.language)
        return f"{rehearsal_text('thanks', self._workflow.language)}\n{END}"

    def _unstated(self, replies: list[str]) -> set[str]:
        """The facts that nobody has asked for: without them its request can hardly be settled."""
        asked = {name for reply in replies for name in self._asked(reply)}
        return self._persona.facts.keys() - asked - {*self._persona.volunteers}

    def _kind(self, reply: str) -> str:
        """What a reply is: a slot's question or another one, a pause, or a statement."""
        if self._questions.asked(reply):
            return SLOT
        if self._questions.requests_in(reply):
            return QUESTION
        return PAUSE if self._questions.is_pause(reply) else STATEMENT

    def _end_unanswered(self) -> str:
        return f"{rehearsal_text('gives_up', self._workflow.language)}\n{END}"

    def _asked(self, reply: str) -> list[str]:
        """The slots that a reply asks for: those that the persona knows, if it knows any of them."""
        asked = self._questions.asked(reply)
        return [name for name in asked if self._known(name)] or asked

    def _known(self, name: str) -> tuple[str, ...]:
        fact = self._persona.facts.get(name, ())
        return (fact,) if isinstance(fact, str) else fact

    def _answer(self, name: str, asked_before: int, random: Random) -> str:
        known = self._known(name)
        if not known:
            return rehearsal_text("does_not_know", self._workflow.language)
        value = known[min(asked_before, len(known) - 1)]
        return str(fill(random.choice(self._workflow.slots[name].replies), {"value": value}))


# Participants that follow a workflow, and the configuration and instructions that a workflow adds.


def instructions(workflow: Workflow) -> str:
    """The instructions of a bot that follows the workflow: slots, procedure, answers, preconditions and the policy."""
    return render(
        "workflow_bot",
        workflow.language,
        description=workflow.description,
        slots=_listed({name: f"{slot.description}" for name, slot in workflow.slots.items()}),
        procedure="\n".join(_step(place, step) for place, step in enumerate(workflow.procedure, start=1)),
        preconditions=_preconditions(workflow),
        answers=_listed(workflow.answers),
        policy=workflow.policy,
    )


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in texts.items())


def _step(place: int, step: Step) -> str:
    lines = [f"{place}. {step.description}"]
    if step.when:
        lines.append(f"   when: {json.dumps(dict(step.when), ensure_ascii=False)}")
    if step.call:
        lines.append(f"   call: {step.call}")
    lines += [f"   {status} → {failure.answer}" for status, failure in step.failures.items()]
    if step.answer:
        lines.append(f"   answer: {step.answer}")
    return "\n".join(lines)


def _preconditions(workflow: Workflow) -> str:
    required: dict[str, Any] = {name: ", ".join(api.requires) for name, api in workflow.apis.items() if api.requires}
    return _listed(
        {name: rehearsal_text("requires", workflow.language, names=names) for name, names in required.items()}
    )


def persona_text(workflow: Workflow, persona: Persona) -> str:
    """Who a simulated user is and what it knows, for a language model that plays it."""
    facts = {
        workflow.slots[name].description: fact if isinstance(fact, str) else " → ".join(fact)
        for name, fact in persona.facts.items()
        if name in workflow.slots
    }
    parts = [persona.profile, persona.style, rehearsal_text("knows", workflow.language, facts=_listed(facts))]
    if persona.requests:
        parts.append(rehearsal_text("also", workflow.language, requests=" ".join(persona.requests)))
    return "\n".join(part for part in parts if part)


def workflow_of(config: ConversationConfig) -> Workflow:
    """The workflow of a conversation.

    Raises:
        ConfigurationError: it names none, or one that is not there or not valid.
    """
    if not config.workflow:
        raise ConfigurationError("This participant follows a workflow: name one, such as --workflow travel_change.")
    return load_workflow(config.workflow)


def workflows_of(config: ConversationConfig) -> list[Workflow]:
    """The workflow of a conversation, and the further ones.

    Raises:
        ConfigurationError: none is named, one is not valid, or two of them have an API or a name in common.
    """
    found = [workflow_of(config), *map(load_workflow, config.workflows)]
    owners: dict[str, str] = {}
    for workflow in found:
        if workflow.language != found[0].language:
            raise ConfigurationError(
                "The workflows {one} and {other} are in different languages: name those of one language.",
                one=found[0].name,
                other=workflow.name,
            )
        for name in (workflow.name, *workflow.apis):
            if name in owners:
                raise ConfigurationError(
                    "The workflows {one} and {other} both have the name {name}: rename one.",
                    one=owners[name],
                    other=workflow.name,
                    name=name,
                )
            owners[name] = workflow.name
    return found


class RuleUser:
    """Says what the scenario's persona knows, then what a persona of each further workflow does; deterministic."""

    def __init__(self, setting: Setting) -> None:
        config, seed = setting.config, setting.config.seed or 0
        workflows = workflows_of(config)
        personas = [find_scenario(config.workflow, config.scenario).persona]
        for name in config.workflows:
            if found := load_scenarios(name):
                personas.append(found[seed % len(found)].persona)
        self._users = [
            PersonaUser(workflow, persona, seed) for workflow, persona in zip(workflows, personas, strict=False)
        ]

    async def process(self, conversation: Conversation) -> UserOutput:
        place, start = conversation.state_of(Role.USER).get("persona", (0, 0))
        said = self._users[place].reply(replace(conversation, utterances=conversation.utterances[start:]))
        if not UserOutput(text=said).ends or place + 1 == len(self._users):
            return UserOutput(text=said)
        begun = replace(conversation, utterances=())
        state = {"persona": [place + 1, len(conversation.utterances)]}
        return UserOutput(text=self._users[place + 1].reply(begun), state=state)


class RuleBot:
    """Follows the workflow's procedure by rules; deterministic."""

    def __init__(self, setting: Setting) -> None:
        self._workflow = workflow_of(setting.config)

    async def process(self, conversation: Conversation) -> BotOutput:
        move = next_move(self._workflow, conversation.utterances)
        if isinstance(move, Call):
            return BotOutput(action_type=BotOutputType.ACTION, action=move.name, action_input=move.arguments)
        return BotOutput(action_type=BotOutputType.RESPONSE, text=move.text)


class WorkflowBot:
    """Follows the workflow with a language model, after its agent's own prompt where an agent is named."""

    def __init__(self, setting: Setting) -> None:
        own = setting.agent.prompt if setting.config.bot_agent else ""
        text = instructions(workflow_of(setting.config))
        self._bot = ReactBot(setting, f"{own}\n\n{text}" if own else text)

    async def process(self, conversation: Conversation) -> BotOutput:
        return await self._bot.process(conversation)


class BackendAPI:
    """The workflow's simulated system; its state is kept with the conversation."""

    def __init__(self, setting: Setting) -> None:
        self._workflows = workflows_of(setting.config)
        self._seed = setting.config.seed or 0
        self._language = setting.language
        self._backends = {workflow.name: backend_of(workflow) for workflow in self._workflows}

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        return [spec for workflow in self._workflows for spec in specs_of_workflow(workflow)]

    def initial_state(self) -> Json:
        """That of the workflow's backend; of several workflows each by its name."""
        states = {name: backend.initial(self._seed) for name, backend in self._backends.items()}
        return states if len(states) > 1 else states[self._workflows[0].name]

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        if call is None:
            raise ConfigurationError("There is no call to run: the API follows a call of the bot.")
        if misfit := refused(self.specs, call, self._language):
            return misfit
        state = conversation.state_of(Role.API) or self.initial_state()
        owner = next((w.name for w in self._workflows if call.action in w.apis), self._workflows[0].name)
        own = state[owner] if len(self._workflows) > 1 else state
        response = self._backends[owner].call(own, call.action, call.action_input)
        changed = {**state, owner: response.state} if len(self._workflows) > 1 else response.state
        return APIOutput(status_code=response.status_code, data=response.data, state=changed)


class NodeDependency:
    """Refuses a call before every call that its API requires has succeeded."""

    def __init__(self, setting: Setting) -> None:
        self._apis = {name: api for each in workflows_of(setting.config) for name, api in each.apis.items()}
        self._language = setting.language

    def refusal(self, conversation: Conversation) -> str:
        call = conversation.pending
        if call is None or call.action not in self._apis:
            return ""
        succeeded = {result.action for result in conversation.results if result.ok}
        missing = [name for name in self._apis[call.action].requires if name not in succeeded]
        if not missing:
            return ""
        return task_text("node_dependency", self._language, tool=call.action, names=", ".join(missing))

    def end(self, conversation: Conversation) -> EndReason | None:
        return None


def backend_of(workflow: Workflow) -> Backend:
    """The workflow's backend.

    Raises:
        ConfigurationError: it has none, or one that lacks an API of the workflow.
    """
    if not workflow.backend:
        raise ConfigurationError(
            "The workflow '{name}' names no backend: use --api llm or --api request.", name=workflow.name
        )
    backend = find_backend(workflow.backend)
    if missing := [name for name in workflow.apis if name not in backend.apis]:
        raise ConfigurationError(
            "The backend '{name}' has no API {missing}.", name=backend.name, missing=", ".join(missing)
        )
    return backend


def specs_of_workflow(workflow: Workflow) -> list[Json]:
    """The workflow's APIs in OpenAI's format."""
    return [
        {"type": "function", "function": {"name": name, "description": api.description, "parameters": api.parameters}}
        for name, api in workflow.apis.items()
    ]


CONTROLLERS = ("node_dependency",)


REFERENCE_USER, REFERENCE_BOT, REFERENCE_API = "reference_user", "reference_bot", "reference_api"
"""The participants of a conversation that is forced to a reference."""
_TURNS = 1_000


def _with_reference(config: ConversationConfig) -> ConversationConfig:
    """The configuration with participants that are forced to its reference; what bot it names is compared."""
    if not config.reference or config.bot_mode.partition(":")[0] == REFERENCE_BOT:
        return config
    forced: dict[str, Any] = {
        "user_mode": REFERENCE_USER,
        "bot_mode": f"{REFERENCE_BOT}:{config.bot_mode}",
        "api_mode": REFERENCE_API,
        "controllers": (),
        "conversation_turn_limit": _TURNS,
        "bot_action_limit": _TURNS,
    }
    return config.model_copy(update=forced)


def with_workflow(config: ConversationConfig) -> ConversationConfig:
    """The configuration with what its workflow and scenario say, wherever it says nothing itself.

    Without a scenario, the seed picks one.

    Raises:
        UnknownWorkflow, UnknownScenario, InvalidWorkflow.
        ConfigurationError: the workflow is in another language.
    """
    if not config.workflow:
        if config.workflows:
            raise ConfigurationError("Name one workflow as `workflow`, and the further ones as `workflows`.")
        return _with_reference(config)
    workflow = load_workflow(config.workflow)
    if config.language not in ("", workflow.language):
        raise ConfigurationError(
            "The workflow {name} is in {own}, but the conversation is in {language}: leave out the "
            "language, or name a workflow in that language.",
            name=config.workflow,
            own=workflow.language,
            language=config.language,
        )
    added: dict[str, Any] = {
        "user_mode": "rule_user",
        "bot_mode": "main_bot" if config.workflows else "rule_bot",
        "api_mode": "backend",
        "controllers": CONTROLLERS,
        "language": workflow.language,
    }
    if scenario := _scenario_of(config):
        added |= _of_scenario(workflow, scenario)
    api_mode = config.api_mode if "api_mode" in config.model_fields_set else "backend"
    if api_mode in ("llm", "request"):
        every = workflows_of(config)
        added["apis"] = tuple(spec["function"] for each in every for spec in specs_of_workflow(each))
    unset = {name: value for name, value in added.items() if name not in config.model_fields_set}
    return _with_reference(config.model_copy(update=unset))


def _scenario_of(config: ConversationConfig) -> Scenario | None:
    if config.scenario:
        return find_scenario(config.workflow, config.scenario)
    found = load_scenarios(config.workflow)
    return found[(config.seed or 0) % len(found)] if found else None


def _of_scenario(workflow: Workflow, scenario: Scenario) -> dict[str, Any]:
    persona = scenario.persona
    return {
        "scenario": scenario.name,
        "persona": persona_text(workflow, persona),
        "goal": persona.goal,
        "script": persona.script,
    }


REGISTERED.users.register("rule_user", RuleUser)
REGISTERED.bots.register("rule_bot", RuleBot)
REGISTERED.bots.register("workflow_bot", WorkflowBot)
REGISTERED.apis.register("backend", BackendAPI)
REGISTERED.controllers.register("node_dependency", NodeDependency)
COMPLETIONS.append(with_workflow)

__all__ = [
    "Api",
    "Backend",
    "ExpectedCall",
    "Persona",
    "Refused",
    "Scenario",
    "Slot",
    "Step",
    "Workflow",
    "backend_of",
    "find_backend",
    "find_scenario",
    "instructions",
    "load_scenarios",
    "load_workflow",
    "read_workflow",
    "register_backend",
    "shipped_names",
    "with_workflow",
    "workflow_file",
]
