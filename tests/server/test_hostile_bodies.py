"""Bodies that are made to cost the service much, sent to every route that takes one while another tenant talks.

Successive commits send a fifth of them in turn, and `make test-whole` all.
"""

import base64
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from segue.server import create_app
from tests.cli.conftest import Shell, pages, shell
from tests.crash.measurement import part_of_commit

from .serving import ALPHA, BETA, KEY, OTHER_KEY, chat, ending
from .test_processes import Process, serve

__all__ = ["pages", "serve", "shell"]

PARTS = 5
MB = 1_000_000
LONGEST_WAIT = 5.0
"""Seconds that `/healthz` may take on a machine that is busy otherwise; it took 68 while one body was validated."""
MOST_MEMORY = 300 * MB
FIELDS = {
    "/v1/chat/completions": "messages",
    "/v1/responses": "input",
    "/ag-ui/{agent_id}": "messages",
    "/api/sessions/import": "document",
    "/api/tasks/{task_id}/answer": "verdicts",
    "/api/chat": "message",
}
LARGE = (MB, 19 * MB)
SIZES = {
    "/v1/chat/completions": LARGE,
    "/v1/responses": LARGE,
    "/ag-ui/{agent_id}": LARGE,
    "/api/sessions/import": (*LARGE, 4 * MB),
}
"""Of the bodies that a route is sent, so that its limits on bytes and on values are met; others take 256 KiB."""
ROOM = {"SEGUE_RATE_CHATS": "100000", "SEGUE_RATE_REQUESTS": "1000000", "SEGUE_IMPORT_MB": "20"}


def routes() -> list[tuple[str, str]]:
    """The method and the path of every route that takes a body."""
    paths = create_app(":memory:").openapi()["paths"]
    found = [(method.upper(), path) for path in paths for method, one in paths[path].items() if "requestBody" in one]
    assert len(found) > 20
    return found


def shapes(field: str) -> Iterator[Callable[[int], bytes]]:
    """Bodies of about so many bytes."""
    own = f'{{"model":"offline","thread_id":"t","run_id":"r","{field}":'.encode()

    def repeated(start: bytes, item: bytes, end: bytes) -> Callable[[int], bytes]:
        return lambda size: start + (item + b",") * (size // (len(item) + 1)) + item + end

    def fields(start: bytes, value: bytes, end: bytes) -> Callable[[int], bytes]:
        return lambda size: start + b",".join(b'"%08d":%b' % (n, value) for n in range(size // (12 + len(value)))) + end

    def filled(start: bytes, text: bytes, end: bytes) -> Callable[[int], bytes]:
        return lambda size: start + text * (size // len(text)) + end

    for item in (b"[]", b"{}", b'"a"', b"1", b"null", b'{"role":"user","content":"a"}', b'{"type":"text","text":"a"}'):
        yield repeated(own + b"[", item, b"]}")
    for item in (b"[]", b"{}", b'{"type":"text"}'):
        yield repeated(own + b'[{"role":"user","content":[', item, b"]}]}")
    yield fields(b"{", b"0", b"}")
    yield fields(own + b"{", b"{}", b"}}")
    yield fields(own + b'"a","metadata":{', b"0", b"}}")
    for start in (
        b'"tools":[{"type":"function","function":{"name":"f","parameters":',
        b'"tools":[{"name":"f","parameters":',
    ):
        end = b"}}}]}" if start.count(b"{") == 2 else b"}}]}"
        yield fields(own + b'"a",' + start + b'{"type":"object","properties":{', b"{}", end)
    for text in (b"a", b"\\n", b" ", b",", b"[", b"#", "旅".encode()):
        yield filled(own + b'"', text, b'"}')
    for start, text in (
        (b"", b"["),
        (b"", b'{"a":'),
        (b"", b"9"),
        (b'"', b"\\"),
        (b"", b","),
        (b"", b'"'),
        (b"", b"\0"),
    ):
        yield filled(start, text, b"")
    yield lambda size: repeated(own + b"[", b"[]", b"]}")(size // 2).decode().encode("utf-16")
    yield (
        lambda size: (
            own
            + b'[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
            + base64.b64encode(b"\0" * (size * 3 // 4))
            + b'"}}]}]}'
        )
    )


def memory(process: Process, what: str) -> int:
    """Bytes, by a field of the process's status."""
    status = Path(f"/proc/{process.process.pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith(what)]
    return int(line.split()[1]) * 1024


def send(client: httpx.Client, method: str, path: str, body: bytes) -> int:
    """The status of a request; 0 if the connection was closed before its body was read."""
    try:
        with client.stream(method, path, content=body, headers={"Content-Type": "application/json"}) as response:
            return response.status_code
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        return 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc, for the memory of the service")
def test_no_body_makes_other_tenants_wait(pages: Shell, serve: Callable[..., Process]) -> None:
    process = serve(SEGUE_API_KEY=f"alpha:{KEY},beta:{OTHER_KEY}", **ROOM)
    done, waits, talks = threading.Event(), list[float](), list[str]()

    def watch(client: httpx.Client) -> None:
        while not done.is_set():
            began = time.monotonic()
            assert client.get("/healthz").status_code == 200
            waits.append(time.monotonic() - began)
            time.sleep(0.02)

    def talk(client: httpx.Client) -> None:
        while not done.is_set():
            talks.append(ending(chat(client, "What is 2 + 2?", headers=BETA, model="offline"))["status"])
            time.sleep(0.2)

    with process.client() as client, ThreadPoolExecutor(2) as others:
        chat(client, "hello", headers=ALPHA, model="offline")
        before = memory(process, "VmRSS")
        watched, talked = others.submit(watch, client), others.submit(talk, client)
        try:
            ends = attack(process)
        finally:
            done.set()
        watched.result()
        talked.result()
        grown = memory(process, "VmHWM") - before
    assert {400, 413, 422} <= ends <= {0, 200, 201, 400, 404, 413, 422}
    assert {*talks} == {"done"}
    assert max(waits) < LONGEST_WAIT
    assert grown < MOST_MEMORY


def bodies() -> Iterator[tuple[str, str, Callable[[int], bytes], int]]:
    """Method, path, shape and size of all bodies at all routes."""
    for method, path in routes():
        url = path.replace("{agent_id}", "travel")
        for shape in shapes(FIELDS.get(path, "message")):
            for size in SIZES.get(path, (MB // 5, MB)):
                yield method, url, shape, size


def attack(process: Process) -> set[int]:
    """The statuses of this commit's bodies."""
    part = part_of_commit(PARTS)
    chosen = itertools.islice(bodies(), part.number - 1, None, part.parts)
    with process.client(headers=ALPHA) as client:
        return {send(client, method, url, shape(size)) for method, url, shape, size in chosen}
