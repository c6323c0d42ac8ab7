"""The processes of a chaos run: they are forked, made to fail, and kept from hosts that are refused."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from segue import CallContext, tool
from segue.core.agents import production_file, refused_hosts
from segue.core.errors import ConfigurationError
from segue.testing.chaos import child
from segue.testing.chaos.child import FaultyExecutor, FaultyTool, Orders
from segue.testing.chaos.processes import Zygote, host_of, refused_in, refusing
from segue.testing.chaos.traps import Files, Journal, Network
from segue.tools.adapters.functions import bind_function
from segue.tools.bound_tool import current_call
from tests.cases import cases

SERVER = """
import time
from segue.testing.chaos import processes

processes.serve(lambda orders: time.sleep(60))
"""

ASK = """
import os
from pathlib import Path
from segue.testing.chaos.processes import Zygote

with Zygote("server", Path.cwd(), os.environ) as zygote:
    pid = zygote.fork({"folder": "."})
    print(pid, flush=True)
    zygote.wait(pid)
"""


def _until_gone(pid: int) -> None:
    began = time.monotonic()
    while _is_there(pid) and time.monotonic() - began < 20:
        time.sleep(0.02)
    assert not _is_there(pid)


def _wait(zygote: Zygote, pid: int) -> None:
    with pytest.raises(RuntimeError, match="ended"):
        zygote.wait(pid)


def _is_there(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.slow
def test_after_an_interruption_no_process_is_waited_for_and_none_is_left(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    began, pids = time.monotonic(), []
    with pytest.raises(KeyboardInterrupt), Zygote("server", tmp_path, os.environ) as zygote:
        pids.append(zygote.fork({"folder": str(tmp_path)}))
        waiting = threading.Thread(target=_wait, args=(zygote, pids[0]))
        waiting.start()
        time.sleep(0.2)
        raise KeyboardInterrupt
    waiting.join()
    assert time.monotonic() - began < 20
    while any(map(_is_there, pids)) and time.monotonic() - began < 20:
        time.sleep(0.02)
    assert not any(map(_is_there, pids))


@pytest.mark.slow
def test_a_killed_process_leaves_none_that_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with subprocess.Popen(
        [sys.executable, "-c", ASK], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as asking:
        assert asking.stdout
        pid = int(asking.stdout.readline())
        time.sleep(0.2)
        asking.kill()
    _until_gone(pid)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="its kernel ends a process with its parent")
def test_a_process_to_fork_from_that_is_killed_leaves_no_child(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with Zygote("server", tmp_path, os.environ) as zygote:
        pid = zygote.fork({"folder": str(tmp_path)})
        os.kill(int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        _until_gone(pid)


# A tool that is made to fail.

CALLED: list[int] = []


@tool(idempotent=True)
def pay(order: int) -> str:
    """Pay an order."""
    CALLED.append(order)
    return "paid"


async def test_a_call_that_takes_long_is_repeated_once_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "REPEAT_SECONDS", 0.0)
    CALLED.clear()
    orders = Orders(str(tmp_path), "", "", {}, label="pay#1", fault="duplicate")
    executor = FaultyExecutor(orders, Journal(tmp_path / "journal"), Network(), Files())
    token = current_call.set(CallContext(idempotency_key="key", tool="pay"))
    try:
        await FaultyTool(bind_function(pay), executor, "pay#1").call({"order": 7})
    finally:
        current_call.reset(token)
    assert CALLED == [7, 7]


# Hosts that a run may not reach.

AGENT = '[[agent]]\nagent_id = "shop"\n'


@cases(
    "text, host",
    [
        ("https://api.bank.example:443/v1", "api.bank.example"),
        ("bank.example:5432", "bank.example"),
        ("*.bank.example", "bank.example"),
        ("Bank.Example.", "bank.example"),
        ("[2001:DB8::1]:443", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.1:80", "10.0.0.1"),
    ],
)
def test_a_host_is_refused_however_it_is_written(text: str, host: str) -> None:
    assert host_of(text) == host


@cases("text", ["", "https://", "10.0.0.0/8", "bank example", "[::1", "*"])
def test_what_is_no_host_is_not_silently_allowed(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a valid host"):
        host_of(text)


@cases(
    "asked, host",
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::1%lo", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
    ],
)
def test_an_address_is_refused_in_each_of_its_forms(asked: str, host: str) -> None:
    assert refused_in([asked], [host]) == host


def test_an_older_file_is_of_production_and_refuses_hosts_too(tmp_path: Path) -> None:
    for name, line in (("new", 'older = ["old.toml"]'), ("old", 'older = ["oldest.toml"]'), ("oldest", "")):
        (tmp_path / f"{name}.toml").write_text(f"{line}\n{AGENT}")
    assert production_file(tmp_path / "new.toml") is None
    (tmp_path / "oldest.toml").write_text(
        f'older = ["new.toml"]\nproduction = true\nrefuse_hosts = ["bank.example"]\n{AGENT}'
    )
    assert production_file(tmp_path / "new.toml") == tmp_path / "oldest.toml"
    assert refused_hosts(tmp_path / "new.toml") == ["bank.example"]


def test_the_world_does_not_reach_a_refused_host_either() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        with refusing(["127.0.0.1"]), pytest.raises(ConfigurationError, match="No connection was made"):
            socket.create_connection(server.getsockname())
        with pytest.raises(BlockingIOError):
            server.accept()
        socket.create_connection(server.getsockname()).close()


# A network that fails.

ASK_OVER_TLS = """
import http.client, http.server, ssl, sys, threading
from segue.testing.chaos.traps import Network

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
served.load_cert_chain("cert.pem", "key.pem")
server.socket = served.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
network = Network()
network.install()
client = http.client.HTTPSConnection(*server.server_address, context=ssl._create_unverified_context())
client.connect()
setattr(network, sys.argv[1], True)
try:
    client.request("GET", "/")
    print(client.getresponse().status)
except OSError as error:
    print(type(error).__name__, network.hung)
"""
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
    "-keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate and its key."""
    folder = tmp_path_factory.mktemp("certified")
    subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"), [("silent", "TimeoutError True"), ("reset", "ConnectionResetError False"), ("none", "204")]
)
def test_an_answer_over_https_is_lost_too(fault: str, said: str, certified: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASK_OVER_TLS, fault],
        cwd=certified,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout.strip() == said, ran.stderr
