"""Conversations of clients of `/v1/responses` that send all that was said each time, without ids, as codex does."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage

from segue import Agent
from segue.tools.registry import tool
from tests.modes import native_call

from .serving import Held, Served, ServerSettings
from .shop import refund

Json = dict[str, Any]
ROOM = ServerSettings(chats_a_minute=10_000, requests_a_minute=100_000)
FUNCTION = {"type": "function", "name": "exec_command", "strict": False, "parameters": {"type": "object"}}
TOOLS = [
    FUNCTION,
    {"type": "namespace", "name": "multi_agent", "tools": [FUNCTION]},
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
    {"type": "web_search", "external_web_access": False},
]
SETTING = "<environment_context>\n  <cwd>/home/ann/shop</cwd>\n  <shell>bash</shell>\n</environment_context>"


def said(role: str, *texts: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


@tool(read_only=True)
def lookup(order: int) -> str:
    """Look up an order."""
    return f"sent on day {order}"


def scripted(messages: Any) -> AIMessage:
    """Look up what is asked for, run what the client carries out, or say what was asked."""
    place = max(place for place, each in enumerate(messages) if each.type == "human")
    asked = str(messages[place].content).rsplit("\n\n", 1)[-1]
    if any(each.type == "tool" for each in messages[place:]):
        return AIMessage(f"Done with {asked}")
    if "order 17" in asked:
        return native_call(("1", "lookup", {"order": 17})).model_copy(update={"content": "Let me look."})
    if "list the files" in asked:
        return native_call(("1", "exec_command", {})).model_copy(update={"content": "I list them."})
    if "refund" in asked:
        return native_call(("1", "refund", {"amount": 5})).model_copy(update={"content": "I refund."})
    return AIMessage(f"Heard {asked}")


def shop() -> Agent:
    return Held().agent("a", scripted, tools=(lookup, refund), protocol="native")


@pytest.fixture
def served(database: Path) -> Iterator[Served]:
    with Served(database, ROOM, agents=[shop()]) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


class Codex:
    """Sends all items each time, and keeps of a response what it knows, with the ids of messages or without ids."""

    def __init__(self, client: httpx.Client, name: str = "019c-one", *, keeps_ids: bool = False) -> None:
        self._client = client
        self._name = name
        self._keeps_ids = keeps_ids
        self.items: list[Json] = [said("developer", "<permissions>\nread-only\n</permissions>"), said("user", SETTING)]

    def send(self, *items: Json) -> Json:
        """The response to new items."""
        self.items.extend(items)
        body = {"model": "a", "instructions": "You are codex.", "input": self.items, "tools": TOOLS}
        body |= {"tool_choice": "auto", "parallel_tool_calls": False, "store": False, "stream": True}
        body |= {"include": ["reasoning.encrypted_content"], "prompt_cache_key": self._name}
        body |= {"client_metadata": {"x-codex-installation-id": "1"}}
        with self._client.stream("POST", "/v1/responses", json=body) as response:
            assert response.status_code == 200, response.read()
            *_, ended = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
        assert ended["type"] == "response.completed"
        whole: Json = ended["response"]
        for item in whole["output"]:
            if item["type"] == "message":
                own = {"id": item["id"]} if self._keeps_ids else {}
                self.items.append(own | said("assistant", *(part["text"] for part in item["content"])))
            if item["type"] == "function_call":
                kept = ("type", "call_id", "name", "arguments")
                self.items.append({name: item[name] for name in kept})
        return whole

    def say(self, text: str) -> Json:
        return self.send(said("user", text))

    def carry_out(self, output: str) -> Json:
        """The response to the result of the function that was called last."""
        return self.send({"type": "function_call_output", "call_id": self.items[-1]["call_id"], "output": output})


def session_of(response: Json) -> str:
    return str(response["segue"]["session_id"])


def texts(response: Json) -> Sequence[str]:
    return [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]


def sweep(served: Served) -> list[str]:
    """Delete what is not stored, as the service does later; the sessions that are left."""
    served.do(served.service.app.sessions.delete_unstored(0, 0))
    return [task.session_id for task in served.do(served.service.app.tasks.list(limit=-1))]


def test_a_conversation_without_ids_is_one_session(client: httpx.Client, served: Served) -> None:
    """Its answers are preceded by texts before calls, and by functions of the client; then it is deleted whole."""
    codex = Codex(client)
    made = [codex.say("hello"), codex.say("where is order 17?"), codex.say("list the files"), codex.carry_out("README")]
    made.append(codex.say("thanks"))
    assert len({session_of(each) for each in made}) == 1
    assert [texts(each) for each in made] == [
        ["Heard hello"],
        ["Let me look.", "Done with where is order 17?"],
        ["I list them."],
        ["Done with list the files"],
        ["Heard thanks"],
    ]
    asked = [task.message for task in served.do(served.service.app.tasks.list(limit=-1))][::-1]
    assert asked == [f"{SETTING}\n\nhello", "where is order 17?", "list the files", "thanks"]
    assert sweep(served) == []


@pytest.mark.parametrize("keeps_ids", [True, False])
def test_a_message_behind_the_result_of_a_function_is_the_users(client: httpx.Client, keeps_ids: bool) -> None:
    """Esc in codex while its tool runs, and the next message."""
    codex = Codex(client, keeps_ids=keeps_ids)
    codex.say("list the files")
    left = {"type": "function_call_output", "call_id": codex.items[-1]["call_id"], "output": "aborted by user"}
    made = codex.send(left, said("user", "<turn_aborted>\nOn purpose.\n</turn_aborted>"), said("user", "hello"))
    assert (made["status"], texts(made)) == ("completed", ["Heard hello"])
    next_one = codex.say("thanks")
    assert texts(next_one) == ["Heard thanks"] and session_of(next_one) == session_of(made)


def test_a_conversation_without_ids_goes_on_after_its_session_was_deleted(client: httpx.Client, served: Served) -> None:
    codex = Codex(client)
    first = codex.say("my card is 4711")
    assert sweep(served) == []
    second, third = codex.say("hello"), codex.say("hello again")
    assert session_of(first) != session_of(second) == session_of(third)
    tasks = served.do(served.service.app.tasks.list(limit=-1))
    assert "my card is 4711" in tasks[-1].message and "4711" not in tasks[0].message


def test_a_session_that_is_deleted_soon_is_not_continued(database: Path) -> None:
    soon = replace(ROOM, unstored_seconds=0)
    with Served(database, soon, agents=[shop()]) as served, served.client() as client:
        codex = Codex(client)
        first, second = codex.say("my card is 4711"), codex.say("hello")
        task = served.do(served.service.app.task(second["segue"]["task_id"]))
    assert session_of(first) != session_of(second) and "my card is 4711" in task.message


def test_conversations_without_ids_stay_apart(client: httpx.Client) -> None:
    """Also those that say the same, and one that goes back to an earlier message."""
    one, other = Codex(client), Codex(client, "019c-other")
    begun = [each.say("hello") for each in (one, other)]
    kept = list(one.items)
    went_on = [each.say("what next?") for each in (one, other)]
    assert [session_of(each) for each in begun] == [session_of(each) for each in went_on]
    assert session_of(begun[0]) != session_of(begun[1])
    one.items = kept
    assert session_of(one.say("something else?")) not in {session_of(each) for each in begun}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("keeps_ids", [True, False])
def test_a_turn_that_its_client_left_is_part_of_the_conversation(
    client: httpx.Client, served: Served, keeps_ids: bool, is_first: bool
) -> None:
    """The client knows nothing of the answer, and says that the turn was interrupted."""
    codex, other = Codex(client, keeps_ids=keeps_ids), Codex(client, "019c-other", keeps_ids=keeps_ids)
    if not is_first:
        assert len({session_of(each.say("hello there")) for each in (codex, other)}) == 2
    left = []
    for each in (codex, other):
        known = [*each.items, said("user", "where is order 17?")]
        left.append(session_of(each.say("where is order 17?")))
        each.items = [*known, said("user", "<turn_aborted>\nThe user interrupted this turn.\n</turn_aborted>")]
    assert [session_of(each.say("and the next one?")) for each in (codex, other)] == left
    assert left[0] != left[1]
    newest = served.do(served.service.app.tasks.newest(left[0]))
    assert newest and "where is order 17?" not in newest.message


PREFACE = "You are helping with the web shop of Ann."


@pytest.mark.parametrize("keeps_ids", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["where is order 17?"], "something wholly different"),
        (["please refund"], "yes"),
        (["where is order 17?", "thanks"], "hi there"),
        (["hello"], "hello"),
        ([], "hello"),
    ],
)
def test_chats_that_share_a_cache_key_and_begin_alike_stay_apart(
    client: httpx.Client, served: Served, first: list[str], second: str, keeps_ids: bool
) -> None:
    one, other = Codex(client, "my-app", keeps_ids=keeps_ids), Codex(client, "my-app", keeps_ids=keeps_ids)
    made = [one.send(said("user", PREFACE), *(said("user", text) for text in first[:1]))]
    made += [one.say(text) for text in first[1:]]
    other.items.append(said("user", PREFACE))
    begun = other.say(second)
    assert session_of(begun) not in {session_of(each) for each in made} and texts(begun) == [f"Heard {second}"]
    task = served.do(served.service.app.task(begun["segue"]["task_id"]))
    assert task.message.endswith(f"{PREFACE}\n\n{second}")


@pytest.mark.parametrize("is_first", [True, False])
def test_several_turns_that_a_client_left_are_part_of_the_conversation(client: httpx.Client, is_first: bool) -> None:
    codex = Codex(client)
    if not is_first:
        codex.say("hello there")
    sessions = set()
    for question in ("where is order 17?", "and which day was it?", "is it late then?"):
        known = [*codex.items, said("user", question)]
        sessions.add(session_of(codex.say(question)))
        codex.items = [*known, said("user", "<turn_aborted>\nThe user interrupted this turn.\n</turn_aborted>")]
    assert sessions == {session_of(codex.say("and the next one?"))}


@pytest.mark.parametrize("keeps_ids", [True, False])
def test_a_word_approves_what_a_client_shows_as_text(client: httpx.Client, keeps_ids: bool) -> None:
    codex = Codex(client, keeps_ids=keeps_ids)
    asked = codex.say("please refund")
    assert texts(asked)[0] == "I refund." and "Approve refund(amount=5)?" in texts(asked)[-1]
    assert asked["output"][-1]["type"] == "mcp_approval_request"
    unclear, approved = codex.say("which card is it?"), codex.say("yes, please do it")
    assert texts(unclear)[-1] == texts(asked)[-1] and texts(approved) == ["Done with please refund"]
    assert len({session_of(each) for each in (asked, unclear, approved, codex.say("thanks"))}) == 1


def test_a_word_approves_nothing_behind_what_a_client_without_ids_says_itself(client: httpx.Client) -> None:
    codex = Codex(client)
    asked = codex.say("please refund")
    codex.items.append(said("assistant", "I could also send a letter, should I?"))
    again = codex.say("yes, please do it")
    assert session_of(again) == session_of(asked) and again["segue"]["status"] == "waiting"
    assert texts(again) == texts(asked)[-1:]
