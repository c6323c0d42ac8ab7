"""The judge: a language model that reads a transcript and says whether the user's goal was reached."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from ...core.agents import Agent
from ...core.conversation import Conversation, transcript
from ...core.decision import read_object
from ...core.errors import ConfigurationError, ModelError, UnreadableReply
from ...core.json_schema import object_schema
from ...core.models import Model, ModelReply, ModelRequest
from ...prompts.catalogue import phrase
from ...prompts.load import render
from ...registry import Registry
from ..batch import Manifest, log_file
from ..log import read_log
from ..text_file import replace_text
from ..workflows.loader import find_scenario, load_workflow

T = TypeVar("T")
PARTIES = ("agent", "user", "tool")
ATTEMPTS = 3
_REPLY = object_schema(
    *("reason", "success", "party", "turn"),
    reason={"type": "string"},
    success={"type": "boolean"},
    party={"enum": ["none", *PARTIES]},
    turn={"type": "integer"},
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the judge says; `party` and `turn` cite what went wrong."""

    success: bool
    reason: str
    party: str = "agent"
    turn: int = 0


def read_verdicts(folder: Path, model: str) -> dict[str, Verdict]:
    """The verdicts that a judge gave on a batch, by conversation."""
    file = _file(folder, model)
    if not file.is_file():
        return {}
    try:
        return {name: Verdict(**form) for name, form in json.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(
            "The verdicts {file} cannot be read: {error}. Delete the file to ask again.", file=file, error=error
        ) from error


def judge_named(model: str) -> Model:
    """The model that judges.

    Raises:
        ConfigurationError: it is no language model, or is not there.
    """
    return judge_of(Agent(agent_id="judge", description="The judge of a rehearsal"), model)


def judge_of(agent: Agent, model: str = "") -> Model:
    """The model of an agent, or another by its endpoint, as a judge.

    Raises:
        ConfigurationError: it is no language model, or is not there.
    """
    agent = agent.model_copy(update={"temperature": 0.0})
    judge = Registry((agent,)).model_for(agent, model)
    if not judge.is_language_model:
        raise ConfigurationError(
            "{name} cannot judge: name a language model, such as --judge openai:<name>.", name=judge.name
        )
    return judge


async def judge_batch(folder: Path, manifest: Manifest, model: str) -> dict[str, Verdict]:
    """Have a model judge every conversation that has ended; one that it judged before is not asked about again.

    Raises:
        ConfigurationError: the model is no language model, or is not there.
        ModelError: a call failed; the verdicts until then are kept.
    """
    judge = judge_named(model)
    verdicts = read_verdicts(folder, model)
    for planned in manifest.conversations():
        file = log_file(folder, planned)
        if planned.conversation_id in verdicts or not file.is_file():
            continue
        conversation = read_log(file)
        if conversation.ending:
            verdicts[planned.conversation_id] = await judge_one(judge, conversation)
            _write(_file(folder, model), verdicts)
    return verdicts


async def judge_one(judge: Model, conversation: Conversation) -> Verdict:
    """Ask about one conversation; a reply that cannot be read is asked for again, with the reason.

    Raises:
        UnreadableReply: no attempt could be read.
    """
    messages = [SystemMessage(_instructions(conversation)), HumanMessage(transcript(conversation))]
    request = ModelRequest(purpose="converse", messages=messages, schema=_REPLY, seed=conversation.config.seed)
    return await ask_judge(judge, request, _read, conversation.conversation_id, conversation.language)


async def ask_judge(
    judge: Model, request: ModelRequest, read: Callable[[str], T], about: str, language: str = "en"
) -> T:
    """Ask until a reply can be read; each time with the reason why the one before could not.

    Raises:
        UnreadableReply: no attempt could be read.
    """
    messages, why = [*request.messages], ""
    for _ in range(ATTEMPTS):
        text = (await _reply(judge, replace(request, messages=messages))).text
        try:
            return read(text)
        except UnreadableReply as error:
            why = str(error)
            messages += [AIMessage(text or "…"), HumanMessage(phrase("reply_unread", language, why=why))]
    raise UnreadableReply(
        "The judge {judge} gave no verdict on {conversation}: {why}", judge=judge.name, conversation=about, why=why
    )


async def _reply(judge: Model, request: ModelRequest) -> ModelReply:
    async for piece in judge.stream(request):
        if isinstance(piece, ModelReply):
            return piece
    raise ModelError(f"{judge.name} did not reply.")


def _instructions(conversation: Conversation) -> str:
    config = conversation.config
    goal, policy = config.goal, ""
    if config.workflow:
        workflow = load_workflow(config.workflow)
        policy = "\n".join(
            [workflow.description, *(f"- {step.description}" for step in workflow.procedure), workflow.policy]
        )
        if config.scenario:
            goal = find_scenario(config.workflow, config.scenario).persona.goal
    return render("judge", conversation.language, goal=goal or "-", policy=policy or "-")


def _read(text: str) -> Verdict:
    """The verdict in a reply.

    Raises:
        UnreadableReply.
    """
    form: Mapping[str, Any] = read_object(text)
    if not isinstance(form.get("success"), bool):
        raise UnreadableReply("`success` is not true or false.")
    party = form.get("party") if form.get("party") in PARTIES else "agent"
    turn = form.get("turn")
    return Verdict(
        success=form["success"],
        reason=str(form.get("reason", "")),
        party=str(party),
        turn=turn if isinstance(turn, int) else 0,
    )


def _file(folder: Path, model: str) -> Path:
    name = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in model)
    return folder / "verdicts" / f"{name}.json"


def _write(file: Path, verdicts: Mapping[str, Verdict]) -> None:
    forms = {name: asdict(verdict) for name, verdict in verdicts.items()}
    replace_text(file, json.dumps(forms, ensure_ascii=False, indent=2) + "\n")
