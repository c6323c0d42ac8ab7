"""Recorded dialogues in a third of the room that they need: which of their calls can still be made, and the prompts.

A call can be made where each value of its arguments that was said before is in the prompt. The same exchanges are shown
with the digest, without it in the room that it leaves, and by the window alone, which has all of the room. Beside
them `create_agent` with its SummarizationMiddleware carries the dialogues, its models scripted: one says what was
recorded, one writes a summary of fixed length that keeps nothing. Run with `SEGUE_RECORDED_DATA` naming the folder of
the recordings: `python -m benchmarks.digest`.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from segue.core.models import tokens
from segue.nodes.history import compact, exchanges, kept_from, share_of, shown_text, split

FILES = ("retail-gpt-4.1-mini.jsonl", "retail-gpt-5-mini.jsonl", "api-bank-dialogues.jsonl")
RESULT_CHARS = 4_000
SUMMARY = "The user asked for help with an order, and the assistant looked it up. " * 8
"""What the summarising model writes: it is as long as a summary, and the dialogue's own words are not in it."""


def read(path: Path) -> Iterator[tuple[str, list[AnyMessage]]]:
    """The system prompt and the messages of each dialogue; ids of calls are made unique, as they repeat."""
    for line in path.read_text(encoding="utf-8").splitlines():
        recorded = json.loads(line)
        messages: list[AnyMessage] = []
        waiting: list[str] = []
        for place, each in enumerate(m for m in recorded["messages"] if not m.get("canned")):
            if each["role"] == "user":
                messages.append(HumanMessage(each["content"], id=f"m{place}"))
            elif each["role"] == "tool":
                about = {"ref": f"ref.{place}.0"}
                given = each["content"]
                messages.append(
                    ToolMessage(given, tool_call_id=waiting.pop(0), id=f"m{place}", additional_kwargs=about)
                )
            else:
                made = [
                    {"id": f"c{place}.{n}", "name": call["function"]["name"], "type": "tool_call"}
                    | {"args": json.loads(call["function"]["arguments"])}
                    for n, call in enumerate(each.get("tool_calls") or ())
                ]
                waiting = [str(call["id"]) for call in made]
                messages.append(AIMessage(each.get("content") or "", tool_calls=made, id=f"m{place}"))
        if messages[-1].type == "human":
            messages.pop()
        yield recorded["system"] or "", messages


def values_of(arguments: Any) -> Iterator[str]:
    """The values of arguments that say something: texts and numbers of three characters or more."""
    if isinstance(arguments, dict):
        for value in arguments.values():
            yield from values_of(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from values_of(value)
    elif isinstance(arguments, str | int | float) and not isinstance(arguments, bool) and len(str(arguments)) > 2:
        yield str(arguments)


def can_be_made(call: Any, past: str, prompt: str) -> bool:
    """Whether each value of a call that was said before is in the prompt."""
    return all(value in prompt for value in values_of(call["args"]) if value in past)


def text_of(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(shown_text(message, RESULT_CHARS) for message in messages)  # type: ignore[arg-type]


@dataclass
class Counted:
    """Calls, those that can be made, and the characters of all prompts."""

    calls: int = 0
    made: int = 0
    chars: int = 0
    prompts: int = 0
    read: int = 0
    """Characters among them that were read to write summaries."""

    def add(self, calls: Sequence[Any], past: str, prompt: str) -> None:
        self.calls += len(calls)
        self.made += sum(can_be_made(call, past, prompt) for call in calls)
        self.chars += len(prompt)
        self.prompts += 1

    def row(self, name: str) -> None:
        share = f"{self.made} of {self.calls} ({100 * self.made / max(1, self.calls):.1f} %)"
        size, read = self.chars / self.prompts, self.read / self.prompts
        print(f"| {name} | {share} | {size:,.0f} | {read:,.0f} |", flush=True)


@dataclass
class Counts:
    """What came of all dialogues, by how their messages are shown."""

    whole: Counted = field(default_factory=Counted)
    digest: Counted = field(default_factory=Counted)
    without: Counted = field(default_factory=Counted)
    window: Counted = field(default_factory=Counted)
    summarized: Counted = field(default_factory=Counted)


def show(counts: Counts, system: str, messages: Sequence[AnyMessage], most: int) -> None:
    """Each reply's prompt in each form."""
    for place, reply in enumerate(messages):
        if not isinstance(reply, AIMessage):
            continue
        past, calls = messages[:place], reply.tool_calls
        said = f"{system}\n{text_of(past)}"
        sizes = [sum(tokens(shown_text(m, RESULT_CHARS)) for m in unit) for unit in exchanges(past)]
        all_units = exchanges(past)
        room = share_of(most)
        _, beside = split(past, most, RESULT_CHARS, share=room)
        alone = all_units[kept_from(sizes, most) :]
        counts.whole.add(calls, said, said)
        counts.digest.add(calls, said, f"{system}\n{text_of(compact(past, most, RESULT_CHARS).shown)}")
        counts.without.add(calls, said, f"{system}\n{text_of([m for unit in beside for m in unit])}")
        counts.window.add(calls, said, f"{system}\n{text_of([m for unit in alone for m in unit])}")


class Said(BaseChatModel):
    """Says the recorded replies in their order, and counts its prompts."""

    _replies: list[AIMessage] = PrivateAttr(default_factory=list)
    _messages: list[AnyMessage] = PrivateAttr(default_factory=list)
    _system: str = PrivateAttr(default="")
    _counted: Counted = PrivateAttr(default_factory=Counted)
    _at: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(**kwargs)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        while not isinstance(reply := self._messages[self._at], AIMessage):
            self._at += 1
        past = f"{self._system}\n{text_of(self._messages[: self._at])}"
        self._counted.add(reply.tool_calls, past, text_of(messages))
        self._at += 1
        made = ChatGeneration(message=AIMessage(reply.content, tool_calls=reply.tool_calls))
        return ChatResult(generations=[made])


class Summarizing(BaseChatModel):
    """Writes the summary, and counts its prompts' characters."""

    _counted: Counted = PrivateAttr(default_factory=Counted)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self._counted.chars += len(text_of(messages))
        self._counted.read += len(text_of(messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(SUMMARY))])


async def summarize(counts: Counts, system: str, messages: Sequence[AnyMessage], most: int) -> None:
    """The dialogue by `create_agent`; what its summaries read counts as a part of its prompts."""
    results = iter([message.text for message in messages if isinstance(message, ToolMessage)])
    names = {call["name"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    tools = [
        StructuredTool(name=name, description=name, args_schema={"type": "object"}, func=lambda **_: next(results))
        for name in sorted(names)
    ]
    model, writer = Said(), Summarizing()
    model._messages, model._system, model._counted = [*messages], system, counts.summarized
    writer._counted = counts.summarized
    middleware = SummarizationMiddleware(writer, trigger=("tokens", most), keep=("tokens", most // 2))
    agent = create_agent(model, tools, system_prompt=system, middleware=[middleware], checkpointer=InMemorySaver())
    for message in messages:
        if isinstance(message, HumanMessage):
            config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 1_000}
            await agent.ainvoke({"messages": [("user", message.content)]}, config)


def main() -> None:
    folder, counts, dialogues = Path(os.environ["SEGUE_RECORDED_DATA"]), Counts(), 0
    for name in FILES:
        for system, messages in read(folder / name):
            most = tokens(text_of(messages)) // 3
            show(counts, system, messages, most)
            asyncio.run(summarize(counts, system, messages, most))
            dialogues += 1
    print(f"{dialogues} dialogues\n\n| prompt | calls that can be made | characters a prompt | read for summaries |")
    print("| --- | --: | --: | --: |")
    counts.whole.row("all messages")
    counts.digest.row("the window with its digest")
    counts.without.row("the same window without its digest")
    counts.window.row("the window alone, in all of the room")
    counts.summarized.row("`create_agent` with summaries")


if __name__ == "__main__":
    main()
