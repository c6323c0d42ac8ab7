"""Runs of LangGraph's server API whose process is killed: they go on, and clients miss nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port

from .langgraph_graphs import EFFECTS, GRAPHS
from .serving import SECONDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KILLS = 4


def start(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "segue", "serve", "--port", str(port), "--graphs", "langgraph.json"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        EFFECTS: str(folder / "effects.txt"),
        "SEGUE_RATE_CHATS": "9999",
    }
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def until_ready(url: str) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/ok", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the service did not start")


def events_after(url: str, thread_id: str, since: int, seconds: float) -> list[dict[str, object]]:
    """What a client of a thread gets within some seconds."""
    found: list[dict[str, object]] = []
    body = {"channels": ["values", "updates", "lifecycle", "tools", "messages", "input", "custom"], "since": since}
    address = f"{url}/threads/{thread_id}/stream/events"
    deadline = time.monotonic() + seconds
    try:
        with httpx.stream("POST", address, json=body, timeout=seconds, trust_env=False) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                if time.monotonic() > deadline:
                    break
    except httpx.TransportError:
        pass
    return found


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """However often: each tool runs once, the events have no gap, and no thread stays busy."""
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": GRAPHS}))
    random.seed(7)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = start(tmp_path, port)
    until_ready(url)
    threads: dict[str, tuple[str, list[dict[str, object]]]] = {}
    for kill in range(KILLS):
        thread_id = httpx.post(f"{url}/threads", json={}, trust_env=False).json()["thread_id"]
        command = {"id": 1, "method": "run.start", "params": {"assistant_id": "paying", "input": {"messages": []}}}
        begun = httpx.post(f"{url}/threads/{thread_id}/commands", json=command, trust_env=False).json()
        seen = events_after(url, thread_id, 0, random.uniform(0.0, 0.3)) if kill % 2 else []
        threads[thread_id] = begun["result"]["run_id"], seen
        time.sleep(random.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start(tmp_path, port)
        until_ready(url)
    try:
        for thread_id, (run_id, seen) in threads.items():
            joined = httpx.get(f"{url}/threads/{thread_id}/runs/{run_id}/join", timeout=SECONDS, trust_env=False).json()
            assert joined["messages"][-1]["content"] == "All are paid."
            assert httpx.get(f"{url}/threads/{thread_id}", trust_env=False).json()["status"] == "idle"
            since = int(str(seen[-1]["seq"])) if seen else 0
            whole = events_after(url, thread_id, 0, 1.0)
            numbers = [int(str(event["seq"])) for event in whole]
            assert numbers == sorted(set(numbers))
            known = {event["seq"]: event for event in whole}
            assert all(known[event["seq"]] == event for event in seen)
            assert [event for event in whole if int(str(event["seq"])) > since] == events_after(
                url, thread_id, since, 1.0
            )
        ran = Counter((tmp_path / "effects.txt").read_text().split())
        assert ran <= Counter({str(order): KILLS for order in range(5)})
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
