"""What holds for every test: no network beyond this machine, no settings of the person who runs it."""

import dis
import gc
import ipaddress
import logging
import os
import re
import socket
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from hypothesis import settings

from segue.core.logs import LogLines

if TYPE_CHECKING:
    from .postgres import Cluster

RECORDED = "SEGUE_RECORDED_DATA"
SLOW = (
    *("crash/", "recorded/", "test_studio.py", "test_wheel.py", "test_pytest_plugin.py"),
    *("models/test_openai_faults.py", "models/test_ordinary_requests.py", "models/test_moving_sessions.py"),
    *("checkpoints/test_damage.py", "checkpoints/test_checksums.py"),
    *("checkpoints/test_forking.py", "lifecycle/test_interruption.py"),
    *("lifecycle/test_stateful.py", "server/test_schema.py", "server/test_injection.py"),
    *("server/test_responses.py", "server/test_idempotency.py", "server/test_attachments.py"),
    *("conformance/", "server/test_hostile_bodies.py", "server/test_killed_", "tools/test_mcp.py"),
    *("runtime/test_message_files.py", "telemetry/test_metrics.py", "telemetry/test_trace_export.py"),
    *("tools/data/test_agent.py", "tools/data/test_charts.py", "tools/data/test_query.py"),
    *("examples/coding_agent/", "examples/data_analyst/", "examples/test_migration.py"),
)
"""Folders, large matrices and tests of processes that `make test` leaves to `make test-slow`, as it does tests marked
`slow`."""
LONG = (
    *("checkpoints/test_forking.py", "crash/test_crash.py", "workers/", "recorded/", "rehearsal/test_batch.py"),
    *("crash/test_damage.py", "server/test_schema.py", "test_studio.py", "test_wheel.py"),
)
"""Files that take minutes. They come first, so that none is left to one worker at the end."""
EXACT = ("recorded/", "crash/test_sequences.py", "crash/test_postgres_kill.py")
"""What compares whole conversations and effects: a failure is a finding, and is not tried again."""
_SETTINGS = re.compile(r"^(OPENAI|SEGUE|LANGSMITH|LANGCHAIN|OTEL|PROMETHEUS)_|_proxy$", re.IGNORECASE)
MEMORY, ROOM = Path("/dev/shm"), 2**31
"""A folder in memory, where databases are written without waiting for a disk; used where so many bytes are free."""
_REACHES = frozenset(
    {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}
)
_folder = tempfile.TemporaryDirectory(prefix="segue-tests-")
_attempts: list[str] = []


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a database may be created."""
    return tmp_path / "segue.db"


class NetworkBlocked(RuntimeError):
    """A test reached for another machine: answer it with `tests/loopback.py` instead."""


settings.register_profile("segue", deadline=None, max_examples=10, derandomize=True)  # untimed, the same in every run
settings.load_profile("segue")


def pytest_configure() -> None:
    gc.disable()  # what is imported stays
    for name in [name for name in os.environ if _SETTINGS.search(name) and name != RECORDED]:
        del os.environ[name]
    os.environ["LC_ALL"] = "C.UTF-8"
    if _has_room(MEMORY):
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)
    one = os.environ["SSL_CERT_FILE"] = str(_one_certificate())
    certifi.where = lambda: one  # for clients that are told to read no environment
    os.environ["LANGSMITH_TRACING"] = "false"
    sys.addaudithook(_refuse_network)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let pytest-rerunfailures ask at once: before each test its worker sends two messages to the first process, and
    TCP holds the second back until the first is acknowledged, which takes 40 ms."""
    connection = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _has_room(folder: Path) -> bool:
    """Whether tests may keep their files there: there is room, and programs may be started from it."""
    if not folder.is_dir():
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize > ROOM and not found.f_flag & os.ST_NOEXEC


def _one_certificate() -> Path:
    """A file of one root certificate: a client takes 40 ms to read all of them, and nothing here speaks TLS."""
    path = Path(_folder.name, "one.pem")
    end = "-----END CERTIFICATE-----"
    path.write_text(certifi.contents().partition(end)[0] + end, encoding="ascii")
    return path


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare `make test` the files of which it runs nothing."""
    is_fast = config.getoption("markexpr") == "not slow" and collection_path.is_file()
    return True if is_fast and _place(collection_path).startswith(SLOW) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ids = Counter(item.nodeid for item in items)
    if repeated := [name for name, times in ids.items() if times > 1]:
        raise pytest.UsageError(f"pytest-xdist would run only one of the tests that share an id: {repeated}")
    for item in items:
        if _place(item.path).startswith(EXACT):
            item.add_marker(pytest.mark.flaky(reruns=0))
        if {"postgres", "postgres_url"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.postgres)
        if _place(item.path).startswith(SLOW) or item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not _place(item.path).startswith(LONG))


@cache
def _place(path: Path) -> str:
    """The path of a test's file in this folder, or in the one that it is in."""
    tests = Path(__file__).parent
    folder = next((folder for folder in (tests, tests.parent) if path.is_relative_to(folder)), None)
    return path.relative_to(folder).as_posix() if folder else ""


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported, and have it look less often: it took a seventh of the time."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000)


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Stop name look-ups and connections, of any library, before a packet leaves.

    An audit hook sees what a patched `socket.socket` would miss. It lasts as long as the process.
    """
    if event not in _REACHES:  # most events are others: each look at an object's id is one
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]  # a name for a file socket, None for a connected one
        host = address[0] if isinstance(address, tuple) and isinstance(address[0], str) else None
    else:
        host = arguments[0]
    if not _is_here(host):
        _attempts.append(f"{event} {host!r}")
        raise NetworkBlocked(f"{event} to {host!r}: tests may reach loopback addresses only.")


def _is_here(host: str | bytes | None) -> bool:
    """Whether a host is this machine; None and the empty name are."""
    name = host.decode() if isinstance(host, bytes) else host or ""
    if name in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(autouse=True)
def network_attempts() -> Iterator[list[str]]:
    """Fail a test that reached for the network, even where a client library swallowed the error."""
    _attempts.clear()
    yield _attempts
    found = list(_attempts)
    _attempts.clear()
    if found:
        pytest.fail(f"The test reached for the network: {', '.join(found)}.")


@pytest.fixture(scope="session", autouse=True)
def commands() -> Iterator[None]:
    """Build the commands of the command line once, as a process of it does: that takes longer than most of them."""
    import typer.testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def graphs() -> Iterator[None]:
    """Take a function apart once for all the graphs whose nodes are it: LangGraph does so for each that it compiles."""
    from langgraph.pregel import _utils

    once = SimpleNamespace(get_instructions=cache(lambda code: (*dis.get_instructions(code),)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_utils, "dis", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def signatures() -> Iterator[None]:
    """Build the model of a tool's parameters once: most tests bind tools of their own, and many have the same ones."""
    from segue.tools.adapters import functions

    build, built = functions._model, {}

    def model(name: str, shown: Mapping[str, tuple[Any, Any]], fields: Mapping[str, str]) -> Any:
        parameters = ((each, hint, repr(hint), type(default), default) for each, (hint, default) in shown.items())
        key = (name, *parameters)
        try:
            return built[key] if key in built else built.setdefault(key, build(name, shown, fields))
        except TypeError:  # a default or a type that cannot be hashed
            return build(name, shown, fields)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "_model", model)
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates() -> Iterator[None]:
    """Read the root certificates once: every HTTP client does so, and nothing here speaks TLS to another machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Take away the handlers of a test that configured logs: they would write between pytest's lines."""
    root = logging.getLogger()
    level = root.level
    yield
    if any(isinstance(each.formatter, LogLines) for each in root.handlers):
        root.handlers[:] = [each for each in root.handlers if not isinstance(each.formatter, LogLines)]
        root.setLevel(level)
        logging.getLogger("segue").setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget where a test looked for modules, and those that it wrote: another one may call its own alike."""
    path, last = [*sys.path], next(reversed(sys.modules))
    yield
    sys.path[:] = path
    written = str(tmp_path_factory.getbasetemp())
    for name in takewhile(lambda name: name != last, reversed([*sys.modules])):  # what is imported comes last
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(written):
            del sys.modules[name]


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Cluster]":
    """A PostgreSQL server, started when a test first needs it."""
    from .postgres import started

    with started() as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres: "Cluster") -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Path]:
    """Find a file of recorded material by its name.

    Skips where `SEGUE_RECORDED_DATA` is not set; where it is, an absent file is a failure.
    """

    def find(name: str) -> Path:
        folder = os.environ.get(RECORDED)
        if not folder:
            pytest.skip(f"{RECORDED} is not set: it names the folder of the recorded dialogues.")
        path = Path(folder) / name
        if not path.is_file():
            pytest.fail(f"{RECORDED} is set to {folder}, and there is no {name} in it.")
        return path

    return find
