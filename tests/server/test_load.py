"""Clients that read histories beside clients that chat: none of them makes another fail."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from segue.server import ServerSettings

from .serving import Held, Served, chat, ending
from .test_streams import from_last

CHATS, POLLERS = 30, 3


@pytest.mark.slow
def test_every_chat_is_answered_beside_clients_that_poll_histories(tmp_path: Path, held: Held) -> None:
    settings = ServerSettings(chats_a_minute=10_000, requests_a_minute=100_000)
    done = threading.Event()

    def poll(client: httpx.Client) -> set[int]:
        codes = set()
        while not done.is_set():
            codes |= {client.get(f"/api/sessions/s{n}/history").status_code for n in range(5)}
        return codes

    def ask(client: httpx.Client, n: int) -> str:
        return str(ending(chat(client, "please note", session_id=f"s{n}", agent_id="a"))["status"])

    with (
        Served(tmp_path / "segue.db", settings, agents=[held.agent("a", from_last)]) as served,
        served.client(limits=httpx.Limits(max_connections=None)) as client,
        ThreadPoolExecutor(POLLERS + 20) as threads,
    ):
        polled = [threads.submit(poll, client) for _ in range(POLLERS)]
        try:
            assert list(threads.map(lambda n: ask(client, n), range(CHATS))) == ["done"] * CHATS
        finally:
            done.set()
        assert set().union(*(codes.result() for codes in polled)) <= {200, 404}, (
            "404 before the session's first message"
        )
