"""Questions and plans for review, over HTTP and the protocols of other clients."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import segue
from segue import tool
from segue.core.agents import Agent
from segue.server.settings import ServerSettings
from tests.fakes import ScriptedChatModel, answer, call_tool, envelope, plan_json
from tests.polling import wait_until

from .serving import Served, chat, ending, follow

CLARIFY = envelope("CLARIFY", {"question": "Which colour?", "choices": ["blue", "red"]})
STEPS: list[dict[str, Any]] = [{"step": 1, "action": "book", "params": {"city": "Rome"}, "description": "book it"}]


@segue.tool
def book(city: str) -> str:
    """Book a city."""
    return f"booked {city}"


@pytest.fixture(scope="module")
def own_agents() -> list[Agent]:
    models = [
        ScriptedChatModel(script * 3)
        for script in ([CLARIFY, answer("Done.")], [plan_json("a trip", STEPS), "Booked."])
    ]
    return [
        Agent(agent_id="painter", model=models[0], tools=(book,), mode="react"),
        Agent(agent_id="trip", model=models[1], tools=(book,), mode="plan"),
    ]


def message_of(response: httpx.Response) -> str:
    assert response.status_code == 422, response.text
    return str(response.json()["error"]["message"])


def test_a_question_and_a_plan_share_the_inbox_and_bad_answers_lose_nothing(client: httpx.Client) -> None:
    asked = chat(client, "paint it", agent_id="painter", session_id="q")[-1]["result"]
    planned = chat(client, "a trip", agent_id="trip", session_id="p", review_plan=True)[-1]["result"]
    question, review = client.get("/api/waiting").json()["items"]
    assert (question["kind"], question["question"], question["choices"]) == (
        "question",
        "Which colour?",
        ["blue", "red"],
    )
    assert (review["kind"], review["calls"][0]["name"]) == ("approval", "review_plan")
    first, second = (f"/api/tasks/{each['task_id']}" for each in (asked, planned))
    assert "does not fit the question" in message_of(client.post(f"{first}/answer", json={"answer": " "}))
    gone = client.post(f"{first}/answer", json={"answer": "red", "interrupt_id": "gone"})
    assert gone.status_code == 409 and "is no longer open" in gone.json()["error"]["message"]
    flown = {"goal": "a trip", "steps": [{**STEPS[0], "action": "fly"}]}
    edit: dict[str, Any] = {"verdicts": [{"index": 0, "verdict": "edit", "arguments": flown}]}
    why = message_of(client.post(f"{second}/answer", json=edit))
    assert "step 1 names the unknown tool 'fly'; use one of: book, ask_user." in why and ".." not in why
    assert len(client.get("/api/waiting").json()["items"]) == 2
    edit["verdicts"][0]["arguments"] = {"goal": "a trip", "steps": [{**STEPS[0], "params": {"city": "Bern"}}]}
    for path, body in ((first, {"answer": "blue"}), (second, edit)):
        assert client.post(f"{path}/answer", json=body).status_code == 202
        wait_until(lambda path=path: client.get(path).json()["task"]["status"] == "done")  # type: ignore[misc]
    assert client.get(second).json()["task"]["result"]["history"][0]["result"] == {"success": "booked Bern"}
    refused = client.post("/api/chat", json={"message": "hi", "mode": "direct", "review_plan": True})
    assert "makes no plan to review" in json.dumps(refused.json())


def test_chat_completions_show_the_choices_and_the_steps_and_take_the_next_message(client: httpx.Client) -> None:
    def say(model: str, *said: str) -> dict[str, Any]:
        roles = ("user", "assistant")
        messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]
        form = client.post("/v1/chat/completions", json={"model": model, "messages": messages}).json()
        return {"text": form["choices"][0]["message"]["content"], **form["segue"]}

    asked = say("painter", "paint the door")
    assert (asked["status"], asked["text"]) == ("waiting", "Which colour?\n- blue\n- red")
    done = say("painter", "paint the door", asked["text"], "blue")
    assert (done["text"], done["task_id"]) == ("Done.", asked["task_id"])
    assert say("trip", "a trip")["text"] == "Booked."


def test_a_response_shows_a_question_with_its_choices_and_the_next_one_answers_it(client: httpx.Client) -> None:
    first = client.post("/v1/responses", json={"model": "painter", "input": "paint the wall"}).json()
    (said,) = [item["content"][0]["text"] for item in first["output"] if item["type"] == "message"]
    assert said == "Which colour?\n- blue\n- red"
    body = {"model": "painter", "input": "red", "previous_response_id": first["id"]}
    second = client.post("/v1/responses", json=body).json()
    assert second["output"][-1]["content"][0]["text"] == "Done."


# Tools that are always allowed, over HTTP.


@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount}"


def test_a_tool_is_allowed_for_a_session_and_that_is_listed_and_revoked(tmp_path: Path) -> None:
    refunds = [call_tool(("refund", {"amount": amount})) for amount in (1, 2, 3)]
    model = ScriptedChatModel([refunds[0], answer("one"), refunds[1], answer("two"), refunds[2]])
    shop = Agent(agent_id="shop", model=model, tools=(refund,), mode="react")
    with Served(tmp_path / "segue.db", ServerSettings(), agents=[shop]) as served, served.client() as client:
        asked = ending(chat(client, "refund", agent_id="shop", session_id="s"))
        verdicts = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
        assert client.post(f"/api/tasks/{asked['task_id']}/answer", json=verdicts).status_code == 202
        assert ending([form for _, form in follow(client, asked["task_id"])])["answer"] == "one"
        again = chat(client, "refund", agent_id="shop", session_id="s")
        assert ending(again)["answer"] == "two"
        assert [form["name"] for form in again if form["type"] == "call_permitted"] == ["refund"]
        path = "/api/sessions/s/permissions"
        (listed,) = client.get(path).json()["items"]
        named = {"session_id": "s", "agent_id": "shop", "tool": "refund", "scope": "session"}
        assert listed == {**named, "task_id": asked["task_id"], "granted_at": listed["granted_at"]}
        assert client.get("/api/permissions").json()["items"] == [listed]
        assert client.delete(path, params={"tool": "mail"}).json() == {"revoked": 0}
        assert client.delete(path, params={"tool": "refund"}).json() == {"revoked": 1}
        assert client.get(path).json()["items"] == []
        assert ending(chat(client, "refund", agent_id="shop", session_id="s"))["status"] == "waiting"
