"""Files of messages over HTTP: uploaded, sent, and shown to whoever owns the session, and no one else."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha256

import httpx
import openai
import pytest
from ag_ui.core import DataSource, FileSource, ImagePart, RunAgentInput, TextPart, UrlSource, UserMessage

from segue.core.agents import Agent
from tests.loopback import Json, LoopbackServer, Text

from .serving import BETA, KEY, OTHER_KEY, Served

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
MULTIPART = "multipart/form-data; boundary=none"
DIGEST = sha256(PNG).hexdigest()


@pytest.fixture(scope="module")
def model() -> Iterator[LoopbackServer]:
    with LoopbackServer([Text("a dot") for _ in range(12)]) as server:
        yield server


@pytest.fixture(scope="module")
def own_agents(model: LoopbackServer) -> list[Agent]:
    eyes = Agent(agent_id="eyes", model="openai:m", base_url=model.base_url, accepts=("image",), mode="direct")
    return [eyes, eyes.model_copy(update={"agent_id": "blind", "accepts": ()})]


def image_sent(model: LoopbackServer, place: int = -1) -> Json:
    content = model.requests[-1].body["messages"][place]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    found: Json = content[1]["image_url"]
    return found


def upload(client: httpx.Client, name: str, content: bytes) -> httpx.Response:
    return client.post("/api/attachments", params={"name": name}, content=content)


def test_an_upload_goes_along_with_one_message_and_is_shown_with_it(
    client: httpx.Client, model: LoopbackServer, served: Served
) -> None:
    files = [upload(client, "../点.png", PNG).json(), upload(client, "page.html", b"<script>alert(1)</script>").json()]
    assert [file["name"] for file in files] == ["点.png", "page.html"]
    body = {"message": "Look", "session_id": "seen", "agent_id": "eyes"}
    body = {**body, "attachments": [file["upload_id"] for file in files]}
    with served.client(headers=BETA) as other:
        refused = other.post("/api/chat", json=body)
        assert (refused.status_code, "There is no upload" in refused.text) == (422, True)
    assert '"done"' in client.post("/api/chat", json=body).text
    assert image_sent(model)["url"] == URL
    (task,) = client.get("/api/sessions/seen/tasks").json()["items"]
    assert [file["media_type"] for file in task["attachments"]] == ["image/png", "text/plain"]
    shown, page = [client.get(f"/api/sessions/seen/attachments/{file['digest']}") for file in task["attachments"]]
    assert shown.content == PNG and shown.headers["content-type"] == "image/png"
    assert shown.headers["content-disposition"].startswith("inline")
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert {response.headers["x-content-type-options"] for response in (shown, page)} == {"nosniff"}
    assert shown.headers["content-security-policy"] == "sandbox; default-src 'none'"
    with served.client(headers=BETA) as other:
        assert other.get(f"/api/sessions/seen/attachments/{DIGEST}").status_code == 404
    assert client.get(f"/api/sessions/seen/attachments/{'0' * 64}").status_code == 404
    assert client.post("/api/chat", json=body).status_code == 422, "an upload goes along once"
    assert client.delete(f"/api/attachments/{files[0]['upload_id']}").status_code == 404
    assert client.delete("/api/sessions/seen").status_code == 204
    assert client.get(f"/api/sessions/seen/attachments/{DIGEST}").status_code == 404


def test_a_file_that_the_agents_model_does_not_accept_is_refused_when_it_is_uploaded(client: httpx.Client) -> None:
    def attach(agent: str, content: bytes) -> httpx.Response:
        return client.post("/api/attachments", params={"name": "点.png", "agent_id": agent}, content=content)

    refused = attach("blind", PNG)
    assert refused.status_code == 422
    assert "does not accept images: leave out 点.png" in refused.json()["error"]["message"]
    assert attach("eyes", PNG).status_code == attach("blind", b"a text").status_code == 201
    assert "nobody" in attach("nobody", PNG).json()["error"]["message"]


def test_a_form_is_an_upload_too(client: httpx.Client) -> None:
    given = client.post("/api/attachments", files={"file": ("点.png", PNG)})
    assert (given.status_code, given.json()["name"], given.json()["digest"]) == (201, "点.png", DIGEST)
    renamed = client.post("/api/attachments", params={"name": "a.txt"}, files={"file": ("b.txt", b"a")})
    assert renamed.json()["name"] == "a.txt"
    unnamed = client.post("/api/attachments", content=PNG)
    assert (unnamed.status_code, "curl -F file=@FILE" in unnamed.text) == (422, True)
    for form in ({"data": {"file": "a.png"}, "files": {"other": b""}}, {"headers": {"Content-Type": MULTIPART}}):
        refused = client.post("/api/attachments", **form)
        assert refused.status_code in (400, 422) and refused.json()["error"]["message"], refused.text


def test_what_no_model_reads_is_refused(client: httpx.Client) -> None:
    refused = upload(client, "a.zip", b"PK\x03\x04\x00")
    assert (refused.status_code, "a.zip has a type that models cannot read" in refused.text) == (422, True)
    given = upload(client, "a.txt", b"a").json()
    assert [client.delete(f"/api/attachments/{given['upload_id']}").status_code for _ in range(2)] == [204, 404]


def test_the_openai_client_sends_images_in_completions_and_responses(served: Served, model: LoopbackServer) -> None:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0) as client:
        said: list[Json] = [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": URL}}],
            }
        ]
        first = client.chat.completions.create(model="eyes", messages=said)  # type: ignore[arg-type]
        assert first.choices[0].message.content == "a dot" and image_sent(model)["url"] == URL
        said += [{"role": "assistant", "content": "a dot"}, {"role": "user", "content": "Which colour?"}]
        client.chat.completions.create(model="eyes", messages=said)  # type: ignore[arg-type]
        sent = model.requests[-1].body["messages"]
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
        assert sent[1]["content"][1]["image_url"]["url"] == URL
        said[0]["content"][1]["image_url"]["url"] = "http://example.com/dot.png"
        with pytest.raises(openai.UnprocessableEntityError, match=r"does not fetch http://example\.com/dot\.png"):
            client.chat.completions.create(model="eyes", messages=said[:1])  # type: ignore[arg-type]
        content = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
        content.append({"type": "input_file", "filename": "notes.md", "file_data": b64encode(b"A dot?").decode()})
        given: list[Json] = [{"role": "user", "content": content}]
        answered = client.responses.create(model="eyes", input=given, instructions="Be brief.")  # type: ignore
        assert answered.output_text == "a dot" and image_sent(model)["url"] == URL
        (item,) = client.responses.input_items.list(answered.id).to_dict()["data"]  # type: ignore[misc, attr-defined]
        text, image, file = item["content"]
        assert text == content[0]
        assert (image["type"], file["type"], file["filename"]) == ("input_image", "input_file", "notes.md")
        assert answered.conversation
        first = client.conversations.items.list(answered.conversation.id, order="asc").data[0].to_dict()
        assert [part["type"] for part in first["content"]] == [part["type"] for part in content]  # type: ignore[attr-defined]


def test_the_openai_client_uploads_a_file_and_names_it_in_messages(served: Served, model: LoopbackServer) -> None:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0) as client:
        file = client.files.create(file=("点.png", PNG), purpose="vision")
        assert (file.filename, file.bytes, client.files.retrieve(file.id)) == ("点.png", len(PNG), file)
        assert client.files.content(file.id).read() == PNG
        look: Json = {"type": "text", "text": "Look"}
        for _ in range(2):  # a file may go along with any number of messages
            said = [{"role": "user", "content": [look, {"type": "file", "file": {"file_id": file.id}}]}]
            client.chat.completions.create(model="eyes", messages=said)  # type: ignore[arg-type]
            assert image_sent(model)["url"] == URL
        parts = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "file_id": file.id, "detail": "auto"}]
        answered = client.responses.create(model="eyes", input=[{"role": "user", "content": parts}])  # type: ignore
        assert answered.output_text == "a dot" and image_sent(model)["url"] == URL
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key=OTHER_KEY, max_retries=0) as other:
            with pytest.raises(openai.NotFoundError):
                other.files.retrieve(file.id)
            with pytest.raises(openai.UnprocessableEntityError, match="There is no file"):
                other.responses.create(model="eyes", input=[{"role": "user", "content": parts}])  # type: ignore
        large = client.files.create(file=("large.txt", b"a" * 7 * 1024 * 1024), purpose="user_data")
        many: Json = {"role": "user", "content": [look, *[{"type": "file", "file": {"file_id": large.id}}] * 3]}
        with pytest.raises(openai.UnprocessableEntityError, match="more than 20971520 bytes"):
            client.chat.completions.create(model="eyes", messages=[many])  # type: ignore[list-item]
        assert [each for each in client.files.list() if each.id in (file.id, large.id)] == [large, file]
        listed = [each.id for each in client.files.list(limit=1, order="asc")]  # the client reads page after page
        assert listed.index(file.id) < listed.index(large.id)
        assert {each.purpose for each in client.files.list(purpose="vision")} == {"vision"}
        assert client.files.delete(file.id).deleted
        assert file.id not in [each.id for each in client.files.list()]
        with pytest.raises(openai.NotFoundError):
            client.files.content(file.id)


def test_what_a_file_is_for_and_how_long_it_is_kept(served: Served) -> None:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0) as client:
        expires: Json = {"anchor": "created_at", "seconds": 3600}
        file = client.files.create(file=("a.txt", b"a"), purpose="assistants", expires_after=expires)  # type: ignore
        assert (file.purpose, file.expires_at) == ("assistants", file.created_at + 3600)
        for fields, why in (
            ({"purpose": "batch"}, "purpose"),
            ({"purpose": "user_data", "expires_after": {**expires, "seconds": 86_401}}, r"expires_after\[seconds\]"),
        ):
            with pytest.raises(openai.UnprocessableEntityError, match=why):
                client.files.create(file=("a.txt", b"a"), **fields)


def agui(run_id: str, *parts: Json | TextPart | ImagePart, thread_id: str = "agui") -> Json:
    """A run whose message has these parts, as the SDK writes it."""
    message = UserMessage(id=f"{run_id}-m", content=[part for part in parts if not isinstance(part, dict)])
    given = RunAgentInput(thread_id=thread_id, run_id=run_id, messages=[message], tools=[], context=[])
    form: Json = given.model_dump(mode="json", by_alias=True, exclude_none=True)
    form["messages"][0]["content"] += [part for part in parts if isinstance(part, dict)]
    return form


def test_an_ag_ui_client_sends_images(client: httpx.Client, model: LoopbackServer) -> None:
    look, source = TextPart(text="Look"), DataSource(value=URL.split(",")[1], mime_type="image/png")
    image = ImagePart(source=source, metadata={"filename": "dot.png"})
    assert "a dot" in client.post("/ag-ui/eyes", json=agui("r1", look, image)).text
    assert image_sent(model)["url"] == URL
    (task,) = client.get("/api/sessions/agui/tasks").json()["items"]
    assert [(file["name"], file["digest"]) for file in task["attachments"]] == [("dot.png", DIGEST)]
    asked = len(model.requests)
    assert client.post("/ag-ui/eyes", json=agui("r1", look, image)).status_code == 200
    other = agui("r1", look, ImagePart(source=DataSource(value="R0lGODlh", mime_type="image/gif")))
    assert client.post("/ag-ui/eyes", json=other).json()["error"]["type"] == "KeyUsed"
    assert len(model.requests) == asked
    large = ImagePart(source=DataSource(value=b64encode(PNG + bytes(2**19)).decode(), mime_type="image/png"))
    assert "a dot" in client.post("/ag-ui/eyes", json=agui("r1", look, large, thread_id="large")).text
    address = "https://example.com/dot.png"
    for place, part in enumerate(
        (ImagePart(source=UrlSource(value=address)), {"type": "binary", "mimeType": "image/png", "url": address})
    ):
        assert "a dot" in client.post("/ag-ui/eyes", json=agui("r1", look, part, thread_id=f"url{place}")).text
        assert image_sent(model)["url"] == address
    before = {"type": "binary", "mimeType": "image/png", "data": source.value}
    assert "a dot" in client.post("/ag-ui/eyes", json=agui("r2", look, before, thread_id="legacy")).text
    assert image_sent(model)["url"] == URL


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (ImagePart(source=UrlSource(value="http://example.com/dot.png")), "does not fetch http://example.com/dot.png"),
        ({"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}}, "does not fetch"),
        (ImagePart(source=FileSource(value="file-1", provider="openai")), "The file has no content"),
        (ImagePart(source=DataSource(value="!", mime_type="image/png")), "is not valid base64"),
        ({"type": "audio", "source": {"type": "data", "value": "AAAA", "mimeType": "audio/wav"}}, "file has a type"),
        ({"type": "video"}, "The file has no content"),
    ],
)
def test_a_part_of_an_ag_ui_message_that_cannot_be_sent_says_why(
    client: httpx.Client, part: Json | ImagePart, why: str
) -> None:
    refused = client.post("/ag-ui/eyes", json=agui("r3", TextPart(text="Look"), part, thread_id="refused"))
    assert (refused.status_code, why in refused.text) == (422, True), refused.text
    assert client.get("/api/sessions/refused/tasks").status_code == 404
