"""OpenAI's stock client holds conversations as responses: streams that begin again, approvals, forks, a restart."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage
from openai.types.responses import Response, ResponseStreamEvent

from segue.core.agents import Agent
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import wait_until

from .serving import BETA, KEY, KEYS, OTHER_KEY, Held, Json, Served, ServerSettings, follow
from .shop import refund, reply
from .test_completions import stock

OPEN = ServerSettings(heartbeat_seconds=0.2, chats_a_minute=600)  # more than a fast machine sends in this module
ARGUMENTS: Json = {"refund": {"amount": 5}, "hold": {}}


@pytest.fixture
def held() -> Held:
    return Held()


def serve(database: Path, held: Held, settings: ServerSettings = OPEN) -> Served:
    return Served(database, settings, agents=[held.agent("a", reply, tools=(refund,))])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose tools wait for nothing."""
    held = Held()
    held.go.set()
    with serve(tmp_path_factory.mktemp("responses") / "segue.db", held) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with stock(served) as client:
        yield client


@pytest.fixture
def busy(held: Held, database: Path) -> Iterator[Served]:
    """A service whose tool waits until it is let go."""
    with serve(database, held) as busy:
        yield busy
        held.go.set()


@pytest.fixture
def holding(busy: Served) -> Iterator[openai.OpenAI]:
    with stock(busy) as holding:
        yield holding


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


def decisions(response: Response, approve: bool = True, **fields: Any) -> Any:
    return [
        {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": approve, **fields}
        for item in response.output
        if item.type == "mcp_approval_request"
    ]


def stands(client: openai.OpenAI, response_id: str, status: str = "completed") -> Response:
    """The response, once it has that status."""
    wait_until(lambda: client.responses.retrieve(response_id).status == status)
    return client.responses.retrieve(response_id)


def test_a_response_has_the_answer_and_what_led_to_it(client: openai.OpenAI) -> None:
    response = client.responses.create(model="a", input="please hold", metadata={"shop": "north"}, user="ann")
    assert (response.status, response.output_text) == ("completed", "Settled, 好的.")
    assert kinds(response) == ["reasoning", "mcp_call", "reasoning", "message"]
    call = response.output[1]
    assert call.type == "mcp_call"
    assert (call.name, call.arguments, call.output, call.status) == ("hold", '{"name":"one"}', "held one", "completed")
    assert response.usage and response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    again = client.responses.retrieve(response.id)
    assert again.to_dict() == response.to_dict()
    assert (again.metadata, again.user) == ({"shop": "north"}, "ann")
    (item,) = client.responses.input_items.list(response.id).data
    assert item.type == "message" and item.content[0].type == "input_text" and item.content[0].text == "please hold"


def test_a_stream_is_read_by_the_stock_client(client: openai.OpenAI) -> None:
    with client.responses.stream(model="a", input="please hold") as stream:
        events = [*stream]
        final = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert final.output_text == "Settled, 好的."
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "Settled, 好的." and len(deltas) > 1
    stored = client.responses.retrieve(final.id)
    assert [item.id for item in final.output] == [item.id for item in stored.output]


def numbered(stream: Any) -> list[tuple[int, str]]:
    """The numbers and types of a stream's events, texts apart: their pieces may differ."""
    return [(e.sequence_number, e.type) for e in stream if e.type != "response.output_text.delta"]


def test_a_stream_that_is_read_again_has_the_same_numbers(client: openai.OpenAI) -> None:
    live = [*client.responses.create(model="a", input="please hold", stream=True)]
    assert live[0].type == "response.created"
    response_id = live[0].response.id
    whole = [*client.responses.retrieve(response_id, stream=True)]
    assert numbered(whole) == numbered(live)
    for seen in live:
        rest = [*client.responses.retrieve(response_id, stream=True, starting_after=seen.sequence_number)]
        assert all(event.sequence_number > seen.sequence_number for event in rest)
        first = [event for event in live if event.sequence_number <= seen.sequence_number]
        assert numbered([*first, *rest]) == numbered(live)
        assert text(first) + text(rest) == "Settled, 好的."


def text(events: list[ResponseStreamEvent]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def test_a_conversation_goes_on_from_its_last_response(client: openai.OpenAI) -> None:
    first = client.responses.create(model="a", input="apples")
    second = client.responses.create(model="a", input="pears", previous_response_id=first.id)
    assert second.output_text == "Heard apples, pears."
    assert second.previous_response_id == first.id
    assert second.conversation and first.conversation and second.conversation.id == first.conversation.id


def test_an_older_response_is_continued_in_a_fork(client: openai.OpenAI, served: Served) -> None:
    first = client.responses.create(model="a", input="apples")
    second = client.responses.create(model="a", input="pears", previous_response_id=first.id)
    other = client.responses.create(model="a", input="plums", previous_response_id=first.id)
    assert other.output_text == "Heard apples, plums."
    assert other.conversation and second.conversation and other.conversation.id != second.conversation.id
    third = client.responses.create(model="a", input="kiwis", previous_response_id=second.id)
    assert third.output_text == "Heard apples, pears, kiwis."


def test_items_that_are_sent_back_name_the_response(client: openai.OpenAI, served: Served) -> None:
    """As clients do that keep the conversation themselves."""
    history: list[Any] = [{"role": "user", "content": "apples"}]
    ids = set()
    for fruit in ("pears", "plums"):
        response = client.responses.create(model="a", input=history)
        history += [item.to_dict() for item in response.output]
        history.append({"role": "user", "content": fruit})
        ids.add(response.conversation.id if response.conversation else "")
    last = client.responses.create(model="a", input=history)
    assert last.output_text == "Heard apples, pears, plums."
    ids.add(last.conversation.id if last.conversation else "")
    assert len(ids) == 1


def test_a_call_of_the_agent_is_sent_back_with_its_nulls(client: openai.OpenAI) -> None:
    first = client.responses.create(model="a", input="please hold")
    history: list[Any] = [{"role": "user", "content": "please hold"}, *(item.to_dict() for item in first.output)]
    assert any("approval_request_id" in item and item["approval_request_id"] is None for item in history)
    second = client.responses.create(model="a", input=[*history, {"role": "user", "content": "pears"}])
    assert second.conversation == first.conversation


def test_a_conversation_that_is_not_known_is_told(client: openai.OpenAI) -> None:
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "apples"},
        {"role": "assistant", "content": "Apples!"},
        {"role": "user", "content": [{"type": "input_text", "text": "pears"}]},
    ]
    assert client.responses.create(model="a", input=messages).output_text == "Heard apples, pears."


def test_instructions_are_told_once(client: openai.OpenAI, served: Served) -> None:
    first = client.responses.create(model="a", input="apples", instructions="Be brief.")
    second = client.responses.create(model="a", input="pears", instructions="Be brief.", previous_response_id=first.id)
    assert first.instructions == second.instructions == "Be brief."
    with served.client() as http:
        tasks = http.get(f"/api/sessions/{second.conversation.id if second.conversation else ''}/tasks").json()["items"]
    assert [task["message"] for task in tasks] == ["pears", "apples"]


@pytest.mark.parametrize(("approve", "effect"), [(True, "refunded 5"), (False, None)])
def test_an_approval_is_an_item_and_so_is_the_decision(
    client: openai.OpenAI, approve: bool, effect: str | None
) -> None:
    asked = client.responses.create(model="a", input="please refund")
    assert asked.status == "completed"
    assert kinds(asked) == ["reasoning", "mcp_approval_request"]
    request = asked.output[1]
    assert request.type == "mcp_approval_request"
    assert (request.name, request.arguments) == ("refund", '{"amount":5}')
    assert asked.model_extra and asked.model_extra["segue"]["status"] == "waiting"
    done = client.responses.create(
        model="a", input=decisions(asked, approve, reason="as agreed"), previous_response_id=asked.id
    )
    assert done.id != asked.id and done.output_text == "Settled, 好的."
    calls = [item for item in done.output if item.type == "mcp_call"]
    assert [call.output for call in calls] == [effect]
    assert [call.approval_request_id for call in calls] == [request.id]
    (decision,) = client.responses.input_items.list(done.id).data
    assert decision.type == "mcp_approval_response"
    assert (decision.approval_request_id, decision.approve) == (request.id, approve)
    assert client.responses.retrieve(asked.id).output_text == ""
    with pytest.raises(openai.ConflictError):
        client.responses.create(model="a", input=decisions(asked), previous_response_id=asked.id)
    with pytest.raises(openai.ConflictError, match="already been continued"):
        client.responses.create(model="a", input="apples", previous_response_id=asked.id)


def test_a_message_approves_whatever_its_instructions(client: openai.OpenAI) -> None:
    asked = client.responses.create(model="a", input="please refund")
    said: Any = [*asked.output, {"role": "user", "content": "approve"}]
    done = client.responses.create(model="a", input=said, instructions="Be brief.")
    assert [item.output for item in done.output if item.type == "mcp_call"] == ["refunded 5"]


@pytest.mark.parametrize("named", ["previous_response_id", "conversation"])
def test_a_text_approves_nothing_that_is_not_sent_back(client: openai.OpenAI, served: Served, named: str) -> None:
    """Who knows a response or a conversation by its name may not have read it to its end."""
    talk = client.conversations.create()
    asked = client.responses.create(model="a", input="please refund", conversation=talk.id)
    about: Any = {named: asked.id if named == "previous_response_id" else talk.id}
    again = client.responses.create(model="a", input="ok", **about)
    assert kinds(again) == ["mcp_approval_request"] and again.output[-1] == asked.output[-1]
    assert served.do(served.service.app.trace(again.id[5:41])).calls == []
    assert client.responses.retrieve(again.id).output == again.output
    assert client.responses.input_items.list(again.id).data == []
    said: Any = [*again.output, {"role": "user", "content": "ok"}]
    done = client.responses.create(model="a", input=said)
    assert [item.output for item in done.output if item.type == "mcp_call"] == ["refunded 5"]


def test_decisions_on_calls_of_another_response_are_refused(client: openai.OpenAI) -> None:
    first, second = (client.responses.create(model="a", input="please refund") for _ in range(2))
    with pytest.raises(openai.UnprocessableEntityError, match="send those of one"):
        client.responses.create(model="a", input=decisions(first), previous_response_id=second.id)
    unknown: Any = [{"type": "mcp_approval_response", "approval_request_id": "mcpr_x", "approve": True}]
    with pytest.raises(openai.NotFoundError, match="no approval request 'mcpr_x'"):
        client.responses.create(model="a", input=unknown)
    with pytest.raises(openai.UnprocessableEntityError, match="Send approvals on their own"):
        mixed = [*decisions(first), {"role": "user", "content": "apples"}]
        client.responses.create(model="a", input=mixed, previous_response_id=first.id)


def test_a_decision_names_its_response(client: openai.OpenAI) -> None:
    asked = client.responses.create(model="a", input="please refund")
    assert client.responses.create(model="a", input=decisions(asked)).output_text == "Settled, 好的."


def test_a_question_is_a_message_and_so_is_the_answer(client: openai.OpenAI) -> None:
    asked = client.responses.create(model="a:controller", input="Paint it")
    assert asked.output_text == "Which colour?"
    assert asked.model_extra and asked.model_extra["segue"]["question"]["kind"] == "question"
    answered = client.responses.create(model="a:controller", input="blue", previous_response_id=asked.id)
    assert answered.output_text == "It is blue."
    assert client.responses.retrieve(asked.id).output_text == "Which colour?"


def test_a_background_response_is_polled_and_streamed(holding: openai.OpenAI, held: Held) -> None:
    response = holding.responses.create(model="a", input="please hold", background=True)
    assert response.status in ("queued", "in_progress") and response.background
    assert held.begun.wait(60)
    with holding.responses.retrieve(response.id, stream=True) as stream:
        for event in stream:
            if event.type == "response.mcp_call.in_progress":
                break
    held.go.set()
    rest = [*holding.responses.retrieve(response.id, stream=True, starting_after=event.sequence_number)]
    assert rest[-1].type == "response.completed" and text(rest) == "Settled, 好的."
    assert stands(holding, response.id).output_text == "Settled, 好的."
    assert held.effects == ["one"]


def test_a_response_is_cancelled(holding: openai.OpenAI, held: Held) -> None:
    response = holding.responses.create(model="a", input="please hold", background=True)
    assert held.begun.wait(60)
    assert holding.responses.cancel(response.id).status == "cancelled"
    assert holding.responses.cancel(response.id).status == "cancelled"
    done = holding.responses.create(model="a", input="apples")
    with pytest.raises(openai.ConflictError, match="nothing to cancel"):
        holding.responses.cancel(done.id)


def test_a_message_to_an_unfinished_response_steers_it(holding: openai.OpenAI, held: Held) -> None:
    first = holding.responses.create(model="a", input="please hold", background=True)
    assert held.begun.wait(60)
    held.go.set()
    second = holding.responses.create(model="a", input="and note apples", previous_response_id=first.id)
    assert (second.status, second.output_text) == ("completed", "Settled, 好的.")
    before = holding.responses.retrieve(first.id)
    assert (before.status, before.incomplete_details and before.incomplete_details.reason) in (
        ("incomplete", "steered"),
        ("completed", None),  # it had just decided on its answer
    )


def test_a_response_that_fails_says_so(client: openai.OpenAI) -> None:
    response = client.responses.create(model="a", input="please fail")
    assert response.status == "failed" and response.error and "the endpoint is down" in response.error.message
    again = client.responses.create(model="a", input="once more", previous_response_id=response.id)
    assert again.id != response.id and again.conversation == response.conversation


def test_a_response_that_is_paused_is_incomplete_and_goes_on(holding: openai.OpenAI, busy: Served, held: Held) -> None:
    response = holding.responses.create(model="a", input="please hold", background=True)
    assert held.begun.wait(60)
    with busy.client() as http:
        http.post(f"/api/tasks/{response.id.removeprefix('resp_')}/pause").raise_for_status()
    held.go.set()
    paused = stands(holding, response.id, "incomplete")
    assert paused.incomplete_details and paused.incomplete_details.to_dict() == {"reason": "paused"}
    assert holding.responses.create(model="a", input="go on", previous_response_id=response.id).status == "completed"


@pytest.mark.parametrize("choice", ["stop", "continue"])
@pytest.mark.parametrize("background", [False, True])
def test_a_client_that_disconnects_stops_what_is_not_in_the_background_where_it_should(
    held: Held, database: Path, choice: str, background: bool
) -> None:
    settings = ServerSettings(on_disconnect={"responses": choice})
    agents = [held.agent("a", [call_tool(("hold", {})), answer("Done.")])]
    with Served(database, settings, agents=agents) as served, stock(served) as client:
        with client.responses.create(model="a", input="please hold", stream=True, background=background) as stream:
            next(iter(stream))
            assert held.begun.wait(60)
        (task,) = served.do(served.service.app.tasks.list())
        stops = choice == "stop" and not background
        if stops:
            wait_until(lambda: served.do(served.service.app.task(task.task_id)).requested == "stop")
        held.go.set()
        with served.client() as http:
            status = "paused" if stops else "done"
            wait_until(lambda: http.get(f"/api/tasks/{task.task_id}").json()["task"]["status"] == status)


def test_a_response_is_deleted_with_its_conversation(client: openai.OpenAI) -> None:
    first = client.responses.create(model="a", input="apples")
    second = client.responses.create(model="a", input="pears", previous_response_id=first.id)
    with pytest.raises(openai.ConflictError, match="DELETE /v1/conversations/"):
        client.responses.delete(second.id)
    assert second.conversation
    assert client.conversations.delete(second.conversation.id).deleted
    with pytest.raises(openai.NotFoundError, match="There is no response"):
        client.responses.retrieve(first.id)
    alone = client.responses.create(model="a", input="apples")
    client.responses.delete(alone.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(alone.id)


def test_a_conversation_is_a_session(client: openai.OpenAI, served: Served) -> None:
    made = client.conversations.create(metadata={"shop": "north"})
    assert client.conversations.retrieve(made.id).metadata == {"shop": "north"}
    for fruit in ("apples", "pears"):
        response = client.responses.create(model="a", input=fruit, conversation=made.id)
    assert response.output_text == "Heard apples, pears."
    assert client.conversations.update(made.id, metadata={"shop": "south"}).metadata == {"shop": "south"}
    items = [*client.conversations.items.list(made.id, order="asc", limit=3)]
    assert [item.role for item in items if item.type == "message"] == ["user", "assistant", "user", "assistant"]
    with served.client() as http:
        assert http.get(f"/api/sessions/{made.id}").json()["turns"] == 2
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="a", input="apples", conversation="nowhere")
    with pytest.raises(openai.NotFoundError, match="There is no item 'item_99'"):
        client.conversations.items.list(made.id, after="item_99")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.2}, "temperature"),
        ({"max_tool_calls": 20}, "max_tool_calls"),
        ({"tools": [{"type": "mcp", "server_label": "elsewhere", "server_url": "https://elsewhere"}]}, ""),
        ({"store": False, "background": True}, ""),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"reasoning": {"effort": "fierce"}}, "reasoning.effort"),
        ({"input": ""}, "input"),
        ({"metadata": {"a": "b" * 600}}, "metadata.a"),
    ],
)
def test_what_is_not_supported_is_refused(client: openai.OpenAI, fields: Json, param: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.responses.create(**{"model": "a", "input": "hi", **fields})
    assert caught.value.type == "invalid_request_error"
    assert (caught.value.param or "").startswith(param)


def sweep(served: Served) -> set[str]:
    """Delete what is not stored, as the service does later; the responses that are left."""
    served.do(served.service.app.sessions.delete_unstored(0))
    return {f"resp_{task.task_id}" for task in served.do(served.service.app.tasks.list(limit=-1))}


def test_a_response_that_is_not_stored_cannot_be_read_again(client: openai.OpenAI, served: Served) -> None:
    """Its session is deleted; the next request brings what was said along."""
    first = client.responses.create(model="a", input="apples", store=False)
    assert (first.output_text, first.store) == ("Heard apples.", False)
    for why in ("was sent with store=false", "There is no response"):
        with pytest.raises(openai.NotFoundError, match=why):
            client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError, match=why):
            client.responses.create(model="a", input="pears", previous_response_id=first.id)
        said = [*first.output, {"role": "user", "content": "pears"}]
        given: Any = [{"role": "user", "content": "apples"}, *said]
        with client.responses.stream(model="a", input=given, store=False) as events:
            second = events.get_final_response()
        assert second.output_text == "Heard apples, pears."
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="a", input=given)
        assert not {first.id, second.id} & sweep(served)


def test_what_is_stored_stays_whatever_it_says(client: openai.OpenAI, served: Served) -> None:
    """Also a response with a text like that of one that is not, one of a conversation, and one with later messages."""
    form: Any = {"type": "json_schema", "name": "x", "schema": {"properties": {"store": False}}}
    metadata = {"note": '{"store": false}'}
    plain = client.responses.create(model="a", input="apples", metadata=metadata, text={"format": form})
    talk = client.conversations.create()
    there = client.responses.create(model="a", input="apples", conversation=talk.id, store=False)
    joined = client.responses.create(model="a", input="grapes", store=False)
    task = served.do(served.service.app.task(joined.id.removeprefix("resp_")))
    with served.client() as http:
        http.post("/api/chat", json={"message": "pears", "session_id": task.session_id}).raise_for_status()
    assert {plain.id, there.id, joined.id} <= sweep(served)


@pytest.mark.parametrize("headers", [{"Idempotency-Key": "unstored"}, {"x-stainless-retry-count": "1"}])
def test_a_retry_of_a_response_that_is_not_stored_runs_nothing_again(held: Held, database: Path, headers: Json) -> None:
    held.go.set()
    asked: Any = {"model": "a", "input": "please hold", "store": False}
    with serve(database, held) as served, stock(served) as client:
        first = client.responses.create(**asked, extra_headers=headers)
        again = client.responses.create(**asked, extra_headers=headers)
        assert (again.id, again.output_text, held.effects) == (first.id, first.output_text, ["one"])
    with serve(database, held) as served, stock(served) as client:
        assert client.responses.create(**asked, extra_headers=headers).id == first.id
        assert first.id not in sweep(served)
    assert held.effects == ["one"]


def test_what_is_not_stored_is_deleted_though_its_client_left_or_it_failed(held: Held, database: Path) -> None:
    with serve(database, held) as served, stock(served) as client:
        with client.responses.create(model="a", input="please hold", store=False, stream=True) as stream:
            left = next(iter(stream)).response.id
        failed = client.responses.create(model="a", input="please fail", store=False)
        waiting = client.responses.create(model="a", input="please refund", store=False)
        assert failed.status == "failed"
        assert {left, failed.id, waiting.id} & sweep(served) == {left, waiting.id}, "the first is under way"
        held.go.set()
        wait_until(lambda: left not in sweep(served))
        done = client.responses.create(model="a", input=decisions(waiting), store=False)
        assert done.output_text == "Settled, 好的." and waiting.id not in sweep(served)


def test_what_is_not_stored_does_not_wait_for_ever(held: Held, database: Path) -> None:
    """Though nobody decides about its call: a day later, or what the setting says, it is deleted."""
    patient = replace(OPEN, unstored_seconds=0.0)
    asked: Any = {"model": "a", "input": "please refund"}
    with serve(database, held, patient) as served, stock(served) as client:
        waiting, stored = (client.responses.create(**asked, store=store) for store in (False, True))
    with serve(database, held, patient) as served:
        assert {waiting.id, stored.id} <= sweep(served)
    with serve(database, held, replace(patient, unstored_open_seconds=0.0)) as served, served.client() as http:
        path = f"/api/tasks/{waiting.id.removeprefix('resp_')}"
        wait_until(lambda: http.get(path).status_code == 404)
        assert stored.id in sweep(served)


def test_the_service_deletes_at_its_start_what_is_not_stored(held: Held, database: Path) -> None:
    with serve(database, held) as served, stock(served) as client:
        response = client.responses.create(model="a", input="apples", store=False)
    with serve(database, held, replace(OPEN, unstored_seconds=0.0)) as served, served.client() as http:
        path = f"/api/tasks/{response.id.removeprefix('resp_')}"
        wait_until(lambda: http.get(path).status_code == 404)


def test_a_response_that_has_branches_is_not_deleted_alone(client: openai.OpenAI, served: Served) -> None:
    """Neither it nor a branch: either would take the whole conversation along."""
    first = client.responses.create(model="a", input="apples")
    with served.client() as http:
        branch = http.post(f"/api/tasks/{first.id.removeprefix('resp_')}/branch", json={"message": "pears"}).json()
        follow(http, branch["task_id"])
        for response_id in (first.id, f"resp_{branch['task_id']}"):
            with pytest.raises(openai.ConflictError, match="part of conversation"):
                client.responses.delete(response_id)
        assert http.get(f"/api/sessions/{branch['session_id']}").status_code == 200


def test_a_retry_finds_its_response_though_an_earlier_one_was_deleted(client: openai.OpenAI, served: Served) -> None:
    asked: Any = {"model": "a", "input": "figs"}
    first, second = (client.responses.create(**asked).id for _ in range(2))
    client.responses.delete(first)
    assert client.responses.create(**asked, extra_headers=RETRY).id == second


def test_a_response_of_another_tenant_is_not_there(held: Held, database: Path) -> None:
    with serve(database, held, ServerSettings(keys=KEYS)) as served:
        with stock(served, KEY) as client:
            mine = client.responses.create(model="a", input="apples")
        with stock(served, OTHER_KEY) as client:
            for call in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
                with pytest.raises(openai.NotFoundError):
                    call(mine.id)
            with pytest.raises(openai.NotFoundError):
                client.responses.create(model="a", input="pears", previous_response_id=mine.id)
        with served.client(headers=BETA) as http:
            assert http.get("/v1/responses/x").status_code == 404


def test_the_same_key_gives_the_same_response(client: openai.OpenAI) -> None:
    once = {"Idempotency-Key": "k"}
    first = client.responses.create(model="a", input="please refund", extra_headers=once)
    assert client.responses.create(model="a", input="please refund", extra_headers=once).id == first.id
    twice = {"Idempotency-Key": "l"}
    done = client.responses.create(model="a", input=decisions(first), extra_headers=twice)
    assert client.responses.create(model="a", input=decisions(first), extra_headers=twice).id == done.id
    with pytest.raises(openai.ConflictError, match="used for another request"):
        client.responses.create(model="a", input="apples", extra_headers=once)


RETRY = {"x-stainless-retry-count": "1"}


def test_a_retry_gets_the_response_of_its_first_try_and_the_same_request_another_one(client: openai.OpenAI) -> None:
    asked: Any = {"model": "a", "input": "pears"}
    first, second = (client.responses.create(**asked).id for _ in range(2))
    assert first != second
    assert client.responses.create(**asked, extra_headers=RETRY).id == second


def test_identical_requests_at_once_are_two(holding: openai.OpenAI, busy: Served, held: Held) -> None:
    with ThreadPoolExecutor() as pool, busy.client() as http:
        asked = [pool.submit(holding.responses.create, model="a", input="please hold") for _ in range(2)]
        wait_until(lambda: len(http.get("/api/sessions").json()["items"]) == 2)
        held.go.set()
        assert len({each.result().id for each in asked}) == 2


def test_a_response_that_a_stopped_service_did_not_give_is_given_once(held: Held, database: Path) -> None:
    asked: Any = {"model": "a", "input": "please hold", "stream": True}
    with serve(database, held) as served, stock(served) as client, served.client() as http:
        with client.responses.create(**asked) as stream:
            first = next(iter(stream)).response.id
            held.begun.wait(60)
        http.post(f"/api/tasks/{first.removeprefix('resp_')}/pause").raise_for_status()
        held.go.set()
    with serve(database, held) as served, stock(served) as client, served.client() as http:
        http.post(f"/api/tasks/{first.removeprefix('resp_')}/resume").raise_for_status()
        stands(client, first)
        ids = [next(iter(client.responses.create(**asked))).response.id for _ in range(2)]
    assert [each == first for each in ids] == [True, False]


def test_a_conversation_survives_a_restart(held: Held, database: Path) -> None:
    with serve(database, held) as served, stock(served) as client:
        first = client.responses.create(model="a", input="apples")
        asked = client.responses.create(model="a", input="please refund", previous_response_id=first.id, stream=True)
        before = numbered(asked)
        response = client.responses.retrieve(first.id)
    with serve(database, held) as served, stock(served) as client:
        assert client.responses.retrieve(first.id).to_dict() == response.to_dict()
        with served.client() as http:
            (waiting,) = http.get("/api/waiting").json()["items"]
        asked_id = f"resp_{waiting['task_id']}"
        assert numbered(client.responses.retrieve(asked_id, stream=True)) == before
        done = client.responses.create(model="a", input=decisions(client.responses.retrieve(asked_id)))
        assert done.output_text == "Settled, 好的."


def test_a_stream_ends_without_an_end_when_the_service_stops(held: Held, database: Path) -> None:
    with serve(database, held) as served, stock(served) as client:
        stream = iter(client.responses.create(model="a", input="please hold", stream=True))
        seen = [next(stream)]
        assert held.begun.wait(60)
        from segue.server.lifespan import drain

        stopping = served.begin(drain(served.service))
        held.go.set()
        seen += stream
        assert seen[-1].type != "response.completed"
        stopping.result(60)
    with serve(database, held) as served, stock(served) as client:
        assert seen[0].type == "response.created"
        last = seen[-1].sequence_number
        rest = [*client.responses.retrieve(seen[0].response.id, stream=True, starting_after=last)]
        assert rest[-1].type == "response.completed" and text(rest) == "Settled, 好的."
    assert held.effects == ["one"]


def test_a_response_without_a_key_is_refused(served: Served) -> None:
    with httpx.Client(timeout=60, trust_env=False) as http:
        body = {"model": "a", "input": "hi"}
        refused = http.post(f"{served.url}/v1/responses", json=body, headers={"Host": "evil.example"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (421, "invalid_request_error")


def test_a_response_that_is_cancelled_after_an_approval_says_nothing_twice(held: Held, database: Path) -> None:
    def call(name: str, said: str) -> AIMessage:
        return AIMessage(
            said * 9, tool_calls=[{"id": name, "name": name, "args": ARGUMENTS[name], "type": "tool_call"}]
        )

    model = ScriptedChatModel([call("refund", "I pay the money back. "), call("hold", "And then I hold it. ")])
    agent = Agent(agent_id="a", model=model, mode="react", protocol="native", tools=(refund, held.hold))
    with Served(database, OPEN, agents=[agent]) as served, stock(served) as client:
        asked = client.responses.create(model="a", input="please refund, then hold")
        going = client.responses.create(
            model="a", input=decisions(asked), previous_response_id=asked.id, background=True
        )
        assert held.begun.wait(60)
        cancelled = client.responses.cancel(going.id)
        held.go.set()
    assert cancelled.status == "cancelled" and cancelled.output_text.strip() == ("And then I hold it. " * 9).strip()
    calls = [(item.name, item.status) for item in cancelled.output if item.type == "mcp_call"]
    assert calls == [("refund", "completed"), ("hold", "incomplete")]
