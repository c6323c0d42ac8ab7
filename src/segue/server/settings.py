"""Settings of the service: keys, origins, limits."""

import errno
import ipaddress
import os
import re
import socket
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..core.environment import whole_number
from ..core.errors import ConfigurationError
from ..core.timeline import Retention
from .tenants import Keys, hash_keys, parse_keys

KEYS = "SEGUE_API_KEY"
HASHES = "SEGUE_API_KEY_SHA256"
RETENTION = "SEGUE_RETENTION"
REHEARSALS = "SEGUE_REHEARSALS"
BACKTESTS = "SEGUE_BACKTESTS"
PARTICIPANTS = "SEGUE_PARTICIPANTS"
API_HOSTS = "SEGUE_API_HOSTS"
PUSH_HOSTS = "SEGUE_PUSH_HOSTS"
ORIGINS = "SEGUE_CORS_ORIGINS"
UPLOAD = "SEGUE_UPLOAD_MB"
IMPORT = "SEGUE_IMPORT_MB"
PATH = "SEGUE_URL_PATH"
GRAPHS = "SEGUE_GRAPHS"
MODELS = "SEGUE_MODELS"
_PATH = re.compile(r"(/[\w.~-]+)+", re.ASCII)
_OWN = (
    *("a2a", "ag-ui", "api", "assistants", "docs", "healthz", "info", "mcp", "metrics", "ok", "page", "readyz", "runs"),
    *("shared", "store", "threads", "v1", ".well-known"),
)
"""How the service's own paths begin."""
BYTES_A_VALUE = 32
"""Of an exported session, which has about 40, on average at least."""

Surface = Literal["chat_completions", "responses", "ag_ui"]
"""Where clients read the answer of a task in the response to their message."""
ON_DISCONNECT: Mapping[str, str] = {"chat_completions": "stop", "responses": "continue", "ag_ui": "stop"}

_MIB = 1024 * 1024
CLIENT_SECONDS = 600.0
"""How long the `openai` package waits for an answer before it tries again."""


@dataclass(frozen=True)
class ServerSettings:
    """Keys, origins and limits of the service."""

    keys: Keys = field(default_factory=Keys)
    """Who may use it; without keys, this machine only."""
    origins: tuple[str, ...] = ()
    """Other web origins that may use the service."""
    chats_a_minute: int = 60
    """Messages per tenant and minute."""
    requests_a_minute: int = 600
    """Requests per tenant and minute, including messages."""
    streams: int = 64
    """Streams that a tenant may have open at once. As the rates, of each worker process."""
    tasks: int = 64
    """Tasks that a tenant may have running or queued at once in each worker process."""
    connections: int = 2000
    """Open connections of each worker process; more are answered with 503."""
    header_seconds: float = 10.0
    """How long a connection may take to send a request's headers."""
    body_bytes: int = 256 * 1024
    """The longest body of a request, files and imported sessions aside."""
    body_values: int = 100_000
    """The most values in the JSON of a body."""
    body_seconds: float = 30.0
    """How long a body may take to arrive."""
    upload_bytes: int = 20 * _MIB
    """The largest file that may be uploaded."""
    import_bytes: int = 64 * _MIB
    """The largest document of a session that may be exported and imported."""
    upload_seconds: float = 300.0
    """How long a file or a document may take to arrive."""
    ready_seconds: float = 1.0
    """How long the result of a readiness check is reused."""
    heartbeat_seconds: float = 15.0
    """How often a stream without news sends a comment."""
    drain_seconds: float = 10.0
    """How long tasks may take to reach a boundary when the service stops; then they are stopped where they are."""
    unstored_seconds: float = CLIENT_SECONDS + 60
    """How long a response with `store=False` is kept so that its client can retry."""
    unstored_open_seconds: float = 86_400.0
    """How long a response with `store=False` may wait for an answer or be paused; then it is deleted."""
    resume: bool = True
    """Resume tasks that a crash or a shutdown interrupted."""
    open_metrics: bool = False
    """Answer `/metrics` without a key."""
    default_agent: str = ""
    """The agent of messages that name none."""
    rehearsals: Path | None = None
    """The folder whose batches of rehearsals are shown."""
    backtests: Path | None = None
    """The folder in which backtests are kept, in one folder for each key; without it there are none."""
    participants: tuple[str, ...] = ()
    """The modules that configurations of conversations may name, as `module:attribute`."""
    api_hosts: tuple[str, ...] = ()
    """The hosts that the `request` API of conversations may call, as `host` or `host:port`."""
    push_hosts: tuple[str, ...] = ()
    """The hosts, as `host` or `host:port`, that push notifications may go to though their address is not public."""
    one_process: bool = True
    """No other process answers requests at the same address."""
    models: Literal["agents", "all"] = "agents"
    """What `/v1/models` lists: the agents, or each also with every mode."""
    background: bool = True
    """Answer requests that a chat client makes for itself without tools, in a session that is deleted afterwards."""
    retention: Retention | None = None
    """Which snapshots are kept; without one all are."""
    on_disconnect: Mapping[str, str] = field(default_factory=dict)
    """Whether a task goes on when its client disconnects, `stop` or `continue`, by surface.

    It is `stop` for `chat_completions` and `ag_ui`, `continue` for `responses`. Those in the background continue.
    """
    graphs: Path | None = None
    """The `langgraph.json` whose graphs are offered through LangGraph's server API."""
    path: str = ""
    """The path that it is served below, such as `/agents`; a proxy may strip it."""

    @property
    def import_values(self) -> int:
        """The most values in the JSON of such a document."""
        return self.import_bytes // BYTES_A_VALUE

    def __post_init__(self) -> None:
        if self.path and (not _PATH.fullmatch(self.path) or self.path.split("/")[1] in _OWN):
            raise ConfigurationError(
                "The service cannot be below {path}: use a path such as /agents, without a slash at its end, that "
                "begins like none of the service's own.",
                path=self.path,
            )
        for surface, choice in self.on_disconnect.items():
            if surface not in ON_DISCONNECT or choice not in ("stop", "continue"):
                raise ConfigurationError(
                    "SEGUE_ON_DISCONNECT cannot be {given}: write stop or continue for {surfaces}, as in {example}.",
                    given=f"{surface}={choice}",
                    surfaces=", ".join(ON_DISCONNECT),
                    example="ag_ui=continue,responses=stop",
                )
        if "*" in self.origins and not self.keys:
            raise ConfigurationError(
                "{origins}=* allows every web page: set {keys}, or name the origins.", origins=ORIGINS, keys=KEYS
            )


def from_environment(environ: MutableMapping[str, str] = os.environ, *, default_agent: str = "") -> ServerSettings:
    """The settings of SEGUE_… variables."""
    hide_keys(environ)
    usual = ServerSettings
    choices = (part.partition("=") for part in _listed(environ, "SEGUE_ON_DISCONNECT"))
    return ServerSettings(
        keys=parse_keys(environ.get(HASHES, "")),
        origins=tuple(origin.rstrip("/") for origin in _listed(environ, ORIGINS)),
        chats_a_minute=whole_number(environ, "SEGUE_RATE_CHATS", usual.chats_a_minute),
        requests_a_minute=whole_number(environ, "SEGUE_RATE_REQUESTS", usual.requests_a_minute),
        streams=whole_number(environ, "SEGUE_STREAMS", usual.streams),
        tasks=whole_number(environ, "SEGUE_TENANT_TASKS", usual.tasks),
        connections=whole_number(environ, "SEGUE_CONNECTIONS", usual.connections),
        upload_bytes=whole_number(environ, UPLOAD, usual.upload_bytes // _MIB) * _MIB,
        import_bytes=whole_number(environ, IMPORT, usual.import_bytes // _MIB) * _MIB,
        drain_seconds=whole_number(environ, "SEGUE_DRAIN_SECONDS", int(usual.drain_seconds)),
        resume=whole_number(environ, "SEGUE_RESUME", 1, least=0) != 0,
        open_metrics=whole_number(environ, "SEGUE_METRICS_OPEN", 0, least=0) != 0,
        default_agent=default_agent,
        rehearsals=Path(given) if (given := environ.get(REHEARSALS, "").strip()) else None,
        backtests=Path(given) if (given := environ.get(BACKTESTS, "").strip()) else None,
        participants=_listed(environ, PARTICIPANTS),
        api_hosts=_listed(environ, API_HOSTS),
        push_hosts=_listed(environ, PUSH_HOSTS),
        one_process="SEGUE_SUPERVISOR" not in environ,
        models=_listed_models(environ),
        background=whole_number(environ, "SEGUE_BACKGROUND", 1, least=0) != 0,
        retention=Retention.of(given) if (given := environ.get(RETENTION, "").strip()) else None,
        on_disconnect={surface.strip(): choice.strip() for surface, _, choice in choices},
        graphs=Path(given) if (given := environ.get(GRAPHS, "").strip()) else None,
        path=environ.get(PATH, "").strip(),
    )


def _listed(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The comma-separated parts of a variable."""
    return tuple(part.strip() for part in environ.get(name, "").split(",") if part.strip())


def _listed_models(environ: Mapping[str, str]) -> Literal["agents", "all"]:
    """What `/v1/models` lists."""
    match environ.get(MODELS, "").strip() or "agents":
        case "agents":
            return "agents"
        case "all":
            return "all"
        case given:
            raise ConfigurationError("{name} must be agents or all, not '{given}'.", name=MODELS, given=given[:40])


def hide_keys(environ: MutableMapping[str, str]) -> None:
    """Leave only the keys' hashes in the environment, for tools and worker processes to see."""
    if text := environ.pop(KEYS, ""):
        known = [part for part in (environ.get(HASHES, ""), hash_keys(text)) if part]
        environ[HASHES] = ",".join(known)


def check_address(host: str, keys: Keys) -> None:
    """Refuse to serve other machines without a key."""
    if not (keys or is_loopback(host)):
        raise ConfigurationError(
            "The service on {host} without an API key would let anyone in: set {keys}, or use --host 127.0.0.1.",
            host=host,
            keys=KEYS,
        )


def check_port(host: str, port: int) -> None:
    """Refuse a port that another process listens on; what else is wrong with the address shows when it is bound."""
    with suppress(socket.gaierror):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                if os.name == "posix":  # elsewhere it would share the port
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if _is_taken(probe, address):
                    raise ConfigurationError(
                        "Port {port} of {host} is in use: stop what listens there, or choose another with --port.",
                        host=host,
                        port=port,
                    )


def _is_taken(probe: socket.socket, address: Any) -> bool:
    try:
        probe.bind(address)
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    name = host.strip("[]").lower()
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


def is_address(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
