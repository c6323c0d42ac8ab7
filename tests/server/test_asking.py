"""Questions and plans for review, over HTTP and the protocols of other clients."""

import json
from typing import Any

import httpx
import pytest

import segue
from segue.core.agents import Agent
from tests.fakes import ScriptedChatModel, answer, envelope, plan_json
from tests.polling import wait_until

from .serving import chat

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
