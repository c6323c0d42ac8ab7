"""The graph behind the chat page of the guide: it speaks slowly, and asks before it refunds."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict

PAUSE = 0.2
"""Seconds before each word."""


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Speaker(GenericFakeChatModel):
    def _stream(self, *given: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in super()._stream(*given, **options):
            time.sleep(PAUSE)
            yield chunk


async def answer(state: State) -> State:
    asked = state["messages"][-1].text
    if "refund" in asked.lower():
        said = "Order 17 is refunded." if interrupt("Refund order 17?") == "yes" else "It stays as it is."
    else:
        said = f"You said {asked} and that is a fine thing to say on a day like this one, is it not?"
    model = Speaker(messages=iter([AIMessage(said)]))
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END).compile()
