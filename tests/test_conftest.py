"""The guards that every other test relies on."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RECORDED


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
        lambda: socket.getaddrinfo("example.invalid", 443),
        lambda: socket.gethostbyname("example.invalid"),
    ],
    ids=["connect", "look up", "look up the old way"],
)
def test_another_machine_is_out_of_reach(reach: Callable[[], object], network_attempts: list[str]) -> None:
    with pytest.raises(RuntimeError, match="loopback addresses only"):
        reach()
    assert len(network_attempts) == 1
    network_attempts.clear()


async def test_loopback_is_within_reach() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(greet, "localhost", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()


def test_no_setting_of_the_machine_reaches_a_test() -> None:
    prefixes = ("OPENAI_", "SEGUE_", "LANGSMITH_", "LANGCHAIN_")
    assert {name for name in os.environ if name.startswith(prefixes)} - {RECORDED} == {"LANGSMITH_TRACING"}
    assert os.environ["LANGSMITH_TRACING"] == "false"


def test_recorded_material_is_found_skipped_or_missed(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "there.jsonl").touch()
    monkeypatch.setenv(RECORDED, str(tmp_path))
    assert recorded("there.jsonl") == tmp_path / "there.jsonl"
    with pytest.raises(pytest.fail.Exception, match=r"there is no absent\.jsonl"):
        recorded("absent.jsonl")
    monkeypatch.delenv(RECORDED)
    with pytest.raises(pytest.skip.Exception, match="is not set"):
        recorded("there.jsonl")
