"""A main bot over several workflows: it chooses the one that what the user says belongs to, and hands over."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from ...core.conversation import (
    REGISTERED,
    Bot,
    BotOutput,
    BotOutputType,
    Conversation,
    Role,
    Setting,
    transcript,
)
from ...core.errors import ConfigurationError, UnreadableReply
from ...core.models import add_usages
from ...nodes.participants import complete, model_context
from ...prompts.catalogue import rehearsal_text, render
from .participants import RuleBot, WorkflowBot, specs_of_workflow, workflows_of
from .workflow import DialogueState, Workflow

FOLLOWERS: Mapping[str, Callable[[Setting], Bot]] = {"rule_bot": RuleBot, "workflow_bot": WorkflowBot}
_WORD = re.compile(r"[a-z0-9]{3,}|[\u4e00-\u9fff](?=[\u4e00-\u9fff])", re.IGNORECASE)
Segment = tuple[str, int]
"""The name of a workflow, and the utterance with which the conversation came to it."""


def words_of(text: str) -> set[str]:
    """The words of a text in lower case, shortened to their beginnings; of Chinese every two characters."""
    found = set[str]()
    for match in _WORD.finditer(text):
        word = match[0].lower()
        found.add(word[:6].rstrip("s") if word.isascii() else text[match.start() : match.start() + 2])
    return found


def vocabulary(workflow: Workflow) -> set[str]:
    """The words by which a request is known to be of a workflow."""
    texts = [workflow.name.replace("_", " "), workflow.description, workflow.policy, *workflow.answers.values()]
    texts += [api.description for api in workflow.apis.values()]
    texts += [step.description for step in workflow.procedure]
    for slot in workflow.slots.values():
        texts += [slot.description, *slot.keywords, *slot.choices]
        texts += [word for words in slot.choices.values() for word in words]
    return words_of(" ".join(texts))


def pick(message: str, workflows: Sequence[Workflow], current: str) -> str:
    """The workflow that a message belongs to by its words; the current one where nothing speaks for another."""
    words = words_of(message)
    known = {workflow.name: vocabulary(workflow) for workflow in workflows}
    scores = dict.fromkeys(known, 0)
    for word in words:
        having = [name for name, vocabulary_of in known.items() if word in vocabulary_of]
        if len(having) == 1:
            scores[having[0]] += 1
    best = max(scores, key=lambda name: scores[name])
    ahead = scores[best] > max([0, *(score for name, score in scores.items() if name != best)])
    return best if ahead and scores[best] > scores.get(current, 0) else current


class MainBot:
    """Chooses among the workflows of the configuration at each turn of the user; the follower of each does the rest.

    `main_bot:workflow_bot` chooses and follows with the bot's model, `main_bot` and `main_bot:rule_bot` by rules.
    A workflow that is come back to continues where it was left.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._workflows = workflows_of(setting.config)
        name = setting.argument or "rule_bot"
        if name not in FOLLOWERS:
            raise ConfigurationError(
                "The main bot cannot follow a workflow with {name}: use main_bot:rule_bot or main_bot:workflow_bot.",
                name=name,
            )
        self._asks_model = name == "workflow_bot"
        if self._asks_model:
            model_context(setting)
        names = [setting.config.workflow, *setting.config.workflows]
        self._followers: dict[str, Bot] = {
            workflow.name: FOLLOWERS[name](_setting_of(setting, given, workflow))
            for given, workflow in zip(names, self._workflows, strict=True)
        }

    async def process(self, conversation: Conversation) -> BotOutput:
        segments: list[Segment] = [(name, start) for name, start in conversation.state_of(Role.BOT).get("segments", [])]
        current = segments[-1][0] if segments else ""
        usage: Mapping[str, Any] = {}
        last = conversation.utterances[-1]
        if last.role is Role.USER:
            chosen, usage = await self._choose(conversation, segments)
            if chosen and chosen != current:
                segments.append((chosen, last.index))
                current = chosen
        state = {"segments": [list(segment) for segment in segments]}
        if not current:
            return BotOutput(action_type=BotOutputType.RESPONSE, text=self._question(), state=state, usage=dict(usage))
        own = replace(conversation, utterances=_own(conversation, segments, current), state={})
        output = await self._followers[current].process(own)
        return replace(output, state=state, usage=add_usages([usage, output.usage]) if usage else output.usage)

    async def _choose(self, conversation: Conversation, segments: Sequence[Segment]) -> tuple[str, Mapping[str, Any]]:
        current = segments[-1][0] if segments else ""
        message = conversation.utterances[-1].text
        if self._asks_model:
            return await self._ask(conversation, current)
        for workflow in self._workflows:
            if workflow.name == current and _answers(workflow, _own(conversation, segments, current)):
                return current, {}
        return pick(message, self._workflows, current), {}

    async def _ask(self, conversation: Conversation, current: str) -> tuple[str, Mapping[str, Any]]:
        """The name that the model chooses; what is no name, or no workflow's, leaves the current one."""
        names = {workflow.name for workflow in self._workflows}

        def read(text: str) -> str:
            found = [name for name in re.findall(r"\w+", text) if name in names or name == "none"]
            if not found:
                raise UnreadableReply("The reply names none of the workflows.")
            return str(found[-1])

        listed = "\n".join(f"- {workflow.name}: {workflow.description}" for workflow in self._workflows)
        system = render("choose_workflow", self._setting.language, workflows=listed, current=current or "none")
        done = await complete(
            self._setting, conversation, [SystemMessage(system), HumanMessage(transcript(conversation))], read
        )
        return (str(done.value) if done.value in names else current), done.usage

    def _question(self) -> str:
        listed = "\n".join(f"- {workflow.description}" for workflow in self._workflows)
        return rehearsal_text("which_workflow", self._setting.language, workflows=listed)


def _setting_of(setting: Setting, name: str, workflow: Workflow) -> Setting:
    config = setting.config.model_copy(update={"workflow": name, "workflows": ()})
    return replace(setting, config=config, specs=specs_of_workflow(workflow), argument="")


def _own(conversation: Conversation, segments: Sequence[Segment], name: str) -> tuple[Any, ...]:
    """The utterances while a workflow was followed."""
    ends = [start for _, start in segments[1:]] + [len(conversation.utterances)]
    spans = [(start, end) for (owner, start), end in zip(segments, ends, strict=True) if owner == name]
    return tuple(each for start, end in spans for each in conversation.utterances[start:end])


def _answers(workflow: Workflow, utterances: Sequence[Any]) -> bool:
    """Whether the last utterance has the value that the workflow just asked for."""
    asked = DialogueState(workflow, utterances[:-1]).asked
    slots = [workflow.slots[name] for name in asked]
    return any(slot.value_in(utterances[-1].text) for slot in slots if slot.pattern or slot.choices)


REGISTERED.bots.register("main_bot", MainBot)
