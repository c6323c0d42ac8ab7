"""The agent that A2A's official TCK tests, which says by the id of each message what the agent is to do with it."""

import json
from itertools import count
from typing import Any

from langgraph.types import interrupt
from starlette.types import ASGIApp, Receive, Scope, Send

from segue import Agent
from segue.server import ServerSettings
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.server.serving import Served

ANSWERS = {
    "tck-artifact-text": "Generated text content",
    "tck-artifact-data": '{"key": "value", "count": 42}',
    "tck-message-response": "Direct message response",
    "tck-stream-001": "Stream hello from TCK",
    "tck-stream-003": "Stream task lifecycle",
    "tck-stream-ordering": "Ordered output",
    "tck-stream-artifact-text": "Streamed text content",
    "tck-stream-artifact-chunked": "chunk-1 chunk-2",
}
"""The answers to messages whose ids begin so, as the TCK's `scenarios` have them; any other is completed."""


WAITS = "tck-input-required"
BY_ID = (*ANSWERS, WAITS)
ENDS = ("complete", "follow-up")
"""What the texts have that end a task which waits."""
_numbers = count()


class MessageIds:
    """Puts the id of a message into its text, since an agent knows only what a message says; asks for data as data.

    The TCK gives different messages one id, which would join one task: each gets its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        body = _with_id(body)
        headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        given = iter([{"type": "http.request", "body": body}])

        async def replay() -> Any:
            return next(given, None) or await receive()

        await self._app({**scope, "headers": headers}, replay, send)


def _with_id(body: bytes) -> bytes:
    try:
        asked = json.loads(body)
        params = asked.get("params", asked)
        message = params["message"]
        part, given = next(part for part in message["parts"] if "text" in part), message["messageId"]
        if given.startswith(BY_ID) and "taskId" not in message:
            part["text"] += f" ({given})"
        if given.startswith("tck-artifact-data"):
            params.setdefault("configuration", {})["acceptedOutputModes"] = ["application/json"]
        message["messageId"] = f"{given}-{next(_numbers)}"
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return body  # what is no message, or has no text, is passed on as it is
    return json.dumps(asked).encode()


def ask() -> str:
    """Ask until somebody says that nothing is missing."""
    while True:
        said = str(interrupt("What is missing?"))
        if any(end in said.lower() for end in ENDS):
            return said


def reply(messages: Any) -> str:
    said = " ".join(str(message.content) for message in messages)
    if WAITS in said and not any(end in said for end in ("Complete", "TCK complete", "follow-up")):
        return call_tool(("ask", {}))
    return answer(next((text for name, text in ANSWERS.items() if name in said), "Hello from TCK"))


def served() -> Served:
    """The service, whose only agent is the TCK's."""
    agent = Agent(agent_id="tck", model=ScriptedChatModel(reply), tools=(ask,), mode="react")
    settings = ServerSettings(
        chats_a_minute=100_000, requests_a_minute=100_000, push_hosts=("127.0.0.1", "localhost", "example.com")
    )
    it = Served(settings=settings, examples=False, agents=[agent])
    it.application.add_middleware(MessageIds)
    return it
