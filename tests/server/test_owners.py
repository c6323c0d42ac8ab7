"""Whose is whose: every route of the OpenAPI document, with ids of another tenant's and ids of nobody's."""

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from reference.routes import openapi
from segue.server import ServerSettings
from segue.server.routers import ROUTES
from segue.server.tenants import hash_keys, parse_keys
from tests.cases import cases
from tests.memory.fakes import entry

from .serving import ALPHA, BETA, Held, Json, Served, chat, frames_of
from .shop import reply

MAKES_ITS_OWN = {"facts", "prefer", "preferences"}
"""What a tenant stores under a name is its own, whoever else has one of that name."""
SHARED = {"name", "agent_id", "model", "token"}
"""Graphs, agents and models are the service's, not a tenant's; a link's token opens it to whoever has it."""
ALSO = {"edit": {"message": "another message"}}
"""What a body must hold by a rule that no schema says."""
NAMES = {
    route.name: (method.lower(), route.path_format)
    for route in ROUTES
    if isinstance(route, APIRoute) and route.include_in_schema and "{" in route.path
    for method in route.methods
}
"""The method and the path of each operation that names something; the document of all takes a second to make."""


def operations() -> Iterator[tuple[str, str, Json]]:
    """The routes with their operations."""
    for name in NAMES:
        yield operation_of(name)


def operation_of(name: str) -> tuple[str, str, Json]:
    method, path = NAMES[name]
    return method, path, openapi()["paths"][path][method]


def named(operation: Json) -> str:
    return str(operation["operationId"])


def sample(schema: Json) -> Any:
    """A value that fits a schema of the document, as small as can be."""
    if "$ref" in schema:
        return sample(openapi()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    for key in ("enum", "examples"):
        if key in schema:
            return schema[key][0]
    if "anyOf" in schema:
        return sample(schema["anyOf"][-1])
    match schema.get("type"):
        case "object":
            return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return []
        case "integer" | "number":
            return int(schema.get("minimum", 1))
        case "boolean":
            return False
    return None if schema.get("type") == "null" else "x" * schema.get("minLength", 1)


def body_of(operation: Json) -> Any:
    asked = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    body = sample(asked) if asked else None
    return body | ALSO.get(named(operation), {}) if isinstance(body, dict) else body


def query_of(operation: Json) -> Json:
    """What the address must name beside its path."""
    given = [one for one in operation.get("parameters", ()) if one["in"] == "query" and one.get("required")]
    return {one["name"]: sample(one["schema"]) for one in given}


@pytest.fixture(scope="module")
def ids(served: Served) -> Iterator[Json]:
    """Ids of alpha's: a session with a task and a file, a user with preferences, a memory file, a backtest, uploads."""
    served.do(served.service.app.memory.of("alpha:default").append("logs.md", entry()))
    with served.client(headers=ALPHA) as client:
        sent, kept = (client.post("/api/attachments?name=a.txt", content=text).json() for text in (b"one", b"two"))
        asked = {"session_id": "mine", "user_id": "ann", "mode": "plan", "attachments": [sent["upload_id"]]}
        done = chat(client, "我吃素。帮我规划北京3日游", **asked)[-1]["result"]
        client.put("/api/users/ann/preferences", json={"default_mode": "direct"}).raise_for_status()
        own = {"task_id": done["task_id"], "response_id": f"resp_{done['task_id']}", "session_id": "mine"}
        own["key"] = client.get("/api/users/ann/facts").json()["items"][0]["key"]
        own["checkpoint_id"] = client.get("/api/sessions/mine/snapshots").json()["items"][0]["checkpoint_id"]
        uploads = {"upload_id": kept["upload_id"], "file_id": f"file-{kept['upload_id']}"}
        talk = client.post("/api/conversations", json={"session_id": "talk"}).json()
        [*frames_of(client.send(client.build_request("GET", f"/api/tasks/{talk['task_id']}/stream"), stream=True))]
        own["conversation_id"] = "talk"
        later = client.post("/api/schedules", json={"message": "m", "every": "0 9 * * mon", "session_id": "mine"})
        own["schedule_id"] = later.json()["schedule_id"]
        client.post("/api/backtests", json={"name": "careful", "sessions": ["mine"]}).raise_for_status()
        while client.get("/api/backtests/careful").json()["status"] == "running":
            time.sleep(0.05)
        own["backtest"] = "careful"
        config = {"id": "w", "url": "http://127.0.0.1:9/"}  # where nobody listens, and which is not allowed
        served.do(served.service.app.tasks.webhooks.put(done["task_id"], "w", config, 1))
        (undelivered,) = client.get("/api/notifications").json()["items"]
        own["notification_id"] = undelivered["notification_id"]
        yield {**own, "user_id": "ann", "file": "logs.md", "digest": sent["digest"], **uploads}


def everything(client: httpx.Client, ids: Json) -> Json:
    """All that can be read of alpha's."""
    paths = [
        path.format(**ids)
        for method, path, operation in operations()
        if method == "get" and not set(names(path)) & SHARED and not query_of(operation)
    ]
    texts = {path: client.get(path).text for path in (*paths, "/api/sessions", "/api/agents/travel/tasks")}
    return {path: re.sub(r'"exported_at":[\d.]+|"error_id":"\w+"', "", text) for path, text in texts.items()}


def names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def test_the_operations_are_those_of_the_document() -> None:
    paths = openapi()["paths"].items()
    assert {*NAMES} == {named(each) for path, methods in paths if "{" in path for each in methods.values()}


@pytest.mark.parametrize("name", NAMES)
def test_an_id_of_anothers_or_nobodys_is_not_found(client: httpx.Client, ids: Json, name: str) -> None:
    method, path, operation = operation_of(name)
    if named(operation) in MAKES_ITS_OWN:
        return
    body = body_of(operation)
    nobodys = path.format(**dict.fromkeys(names(path), "no-such-id"))
    asked = [(nobodys, ALPHA)]
    if not set(names(path)) & SHARED:
        asked.append((path.format(**ids), BETA))
    for address, headers in asked:
        answered = client.request(method, address, params=query_of(operation), json=body, headers=headers)
        assert answered.status_code == 404, f"{method} {address}: {answered.text}"
        error = answered.json()["error"]
        assert error.get("code", error["type"]) in ("NotFound", "model_not_found")


def test_what_another_tenant_tries_changes_nothing(client: httpx.Client, ids: Json) -> None:
    before = everything(client, ids)
    for method, path, operation in operations():
        if not set(names(path)) & SHARED:
            asked = {"params": query_of(operation), "json": body_of(operation)}
            client.request(method, path.format(**ids), headers=BETA, **asked)
    assert everything(client, ids) == before


def test_the_same_names_are_different_things_to_different_tenants(client: httpx.Client, ids: Json) -> None:
    chat(client, "你好", headers=BETA, session_id="mine", user_id="ann")
    assert client.get("/api/sessions/mine/history", headers=BETA).json()["items"][0]["content"] == "你好"
    assert len(client.get("/api/sessions/mine/tasks").json()["items"]) == 1
    used = client.get("/api/users/ann/preferences", headers=BETA).json()["mode_history"]
    assert {row["query"] for row in used} == {"你好"}
    client.put("/api/users/ann/preferences", json={"default_mode": "react"}, headers=BETA).raise_for_status()
    assert client.get("/api/users/ann/preferences").json()["default_mode"] == "direct"
    listed = client.get("/api/sessions", headers=BETA).json()["items"]
    assert [session["turns"] for session in listed if session["session_id"] == "mine"] == [1]


def test_a_page_does_not_begin_after_anothers_task(client: httpx.Client, ids: Json) -> None:
    chat(client, "你好", headers=BETA, session_id="mine")
    for path in ("/api/agents/travel/tasks", "/api/sessions/mine/tasks"):
        for before, headers in ((ids["task_id"], BETA), ("no-such-id", ALPHA)):
            assert client.get(path, params={"before": before}, headers=headers).status_code == 404


def test_nobody_is_shown_how_names_are_stored(client: httpx.Client, ids: Json) -> None:
    for path, text in everything(client, ids).items():
        assert "alpha" not in text, path
        assert "error" not in text[:10] or path.endswith("/cassette"), (path, text)  # its message has a file
    with client.stream("GET", f"/api/tasks/{ids['task_id']}/stream") as response:
        assert "alpha" not in str([*frames_of(response)]) + str(response.headers)
    for refused in (
        client.get("/api/sessions/alpha:mine/history"),
        client.post("/api/sessions/mine/fork", json={"checkpoint_id": "nope"}),
        client.post(f"/api/tasks/{ids['task_id']}/resume"),
        client.post(f"/api/tasks/{ids['task_id']}/pause"),
    ):
        assert refused.status_code in (404, 409, 422)
        assert "alpha" not in refused.text.replace("alpha:mine", "")


def test_the_document_tells_of_keys_errors_and_examples() -> None:
    document = openapi()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    error = {"$ref": "#/components/schemas/ErrorBody"}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            said = [answer["content"] for status, answer in operation["responses"].items() if status >= "400"]
            assert all([*content] == ["application/json"] for content in said), path
            if path.startswith("/api/"):
                is_open = path.startswith("/api/shared/")
                assert operation.get("security") == (None if is_open else [{"HTTPBearer": []}])
                assert ("401" in operation["responses"]) != is_open
                for status in ("404", "413", "422", "429", "503"):
                    assert operation["responses"][status]["content"]["application/json"]["schema"] == error
            assert operation["description"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert document["components"]["schemas"]["ChatRequest"]["examples"][0]["mode"] == "react"


@cases("fields", [{"origin": "page"}, {"origin": "page", "user_id": "default"}, {"origin": "api"}])
def test_what_one_person_of_a_tenant_says_is_not_known_to_another(fields: dict[str, str]) -> None:
    said = {name: f"key-of-{name}-0123456789" for name in ("ann", "bob")}
    keys = parse_keys(hash_keys(",".join(f"{name}@shop:{key}" for name, key in said.items())))
    held = Held()
    agents = [held.agent("a", reply)]
    with Served(settings=ServerSettings(keys=keys), agents=agents) as served, served.client() as client:
        ann, bob = ({"Authorization": f"Bearer {key}"} for key in said.values())
        about = {"agent_id": "a", "mode": "direct", **fields}
        chat(client, "I'm allergic to peanuts.", headers=ann, **about)
        assert client.get("/api/users/default/facts", headers=bob).json()["items"] == []
        due = {"message": "I'm allergic to cats.", "at": "2090-01-01", **about}
        made = client.post("/api/schedules", json=due, headers=ann).json()
        stored = served.do(served.service.app.schedules.get(f"shop:{made['schedule_id']}"))
        assert stored.options["reply_options"]["remember"] is False


def test_the_page_of_ones_own_machine_remembers_what_is_said() -> None:
    with Served(agents=[Held().agent("a", reply)]) as served, served.client() as client:
        chat(client, "I'm allergic to peanuts.", agent_id="a", mode="direct", origin="page")
        (fact,) = client.get("/api/users/default/facts").json()["items"]
        assert fact["text"] == "I'm allergic to peanuts"
