"""The service on a port of this machine, in a thread with an event loop of its own."""

import asyncio
import json
import socket
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn

from segue.core.agents import Agent
from segue.registry import EXAMPLES
from segue.server import ServerSettings, create_app
from segue.server.lifespan import drain
from segue.server.run import uvicorn_config
from segue.server.service import Service
from segue.server.tenants import hash_keys, parse_keys
from tests.ports import listening

SECONDS = 60.0
KEY, OTHER_KEY = "key-of-alpha-0123456789", "key-of-beta-0123456789"
READY = {"status": "ready", "model": "offline", "workers": 0, "waiting_for_worker": 0, "waiting_for_version": 0}
KEYS = parse_keys(hash_keys(f"alpha:{KEY},beta:{OTHER_KEY}"))
ALPHA, BETA = {"Authorization": f"Bearer {KEY}"}, {"Authorization": f"Bearer {OTHER_KEY}"}
Json = dict[str, Any]


class _Server(uvicorn.Server):
    """Starts and stops when it is told to, without waiting for the next tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.began = threading.Event()

    async def main_loop(self) -> None:
        self.loop, self.leaving = asyncio.get_running_loop(), asyncio.Event()
        await self.on_tick(0)
        self.began.set()
        await self.leaving.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, which sleeps for 100 ms whether or not a connection is left."""
        for server in self.servers:
            server.close()
        for connection in [*self.server_state.connections]:
            connection.shutdown()
        await asyncio.sleep(0)  # idle connections close
        await asyncio.wait_for(self._wait_tasks_to_complete(), self.config.timeout_graceful_shutdown)
        await self.lifespan.shutdown()

    def leave(self) -> None:
        self.loop.call_soon_threadsafe(self.leaving.set)


class Served:
    """A running service: `with Served(path, settings, agents=[…]) as served:` and the examples."""

    def __init__(
        self,
        database: Any = ":memory:",
        settings: ServerSettings | None = None,
        *,
        examples: bool = True,
        port: int = 0,
        **options: Any,
    ) -> None:
        own = {agent.agent_id: agent for agent in options.pop("agents", ())}
        agents = {**({agent.agent_id: agent for agent in EXAMPLES} if examples else {}), **own}
        self.application = create_app(database, settings, agents=agents.values(), **options)
        self._socket = listening(port)
        self.port: int = self._socket.getsockname()[1]
        self._server = _Server(uvicorn_config(settings or ServerSettings(), self.application))
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._server.began.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def service(self) -> Service:
        service: Service = self.application.state.service
        return service

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=SECONDS, trust_env=False, **options)

    def begin(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start something in the service's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in the service's own loop."""
        return self.begin(work).result(SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server.began.wait(SECONDS)
        assert self._server.started, "the service did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.do(drain(self.service))
        self._server.leave()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the service did not stop"


def read_frame(text: str) -> tuple[str, Json]:
    """The id and the data of a frame, which has nothing else."""
    *named, data, end, last = text.split("\n")
    assert (end, last) == ("", ""), text
    assert data.startswith("data: ")
    assert len(named) <= 1 and all(line.startswith("id: ") for line in named)
    form: Json = json.loads(data.removeprefix("data: "))
    return (named[0].removeprefix("id: ") if named else ""), form


def frames_of(response: httpx.Response) -> Iterator[tuple[str, Json]]:
    """The frames of a stream, heartbeats left out."""
    rest = ""
    for chunk in response.iter_text():
        *whole, rest = (rest + chunk).split("\n\n")
        for frame in whole:
            if not frame.startswith(":"):
                yield read_frame(frame + "\n\n")
    assert not rest


def prescribed_client(response: httpx.Response) -> Iterator[Json]:
    """What the prescribed `sendMessage` reads: chunk by chunk, line by line, nothing kept between two reads."""
    for chunk in response.iter_raw():
        for line in chunk.decode("utf-8").split("\n"):
            if line.startswith("data: "):
                yield json.loads(line[6:])


def chat(client: httpx.Client, message: str = "hello", headers: Json | None = None, **fields: Any) -> list[Json]:
    """Send a message and read its stream to the end."""
    with client.stream("POST", "/api/chat", json={"message": message, **fields}, headers=headers) as response:
        assert response.status_code == 200, response.read()
        return [form for _, form in frames_of(response)]


def start(client: httpx.Client, message: str = "hello", headers: Json | None = None, **fields: Any) -> str:
    """Send a message and leave once the task has begun; returns its id."""
    with client.stream("POST", "/api/chat", json={"message": message, **fields}, headers=headers) as response:
        assert response.status_code == 200, response.read()
        next(response.iter_raw())
        return response.headers["x-task-id"]


def follow(client: httpx.Client, task_id: str, headers: Json | None = None, **params: Any) -> list[tuple[str, Json]]:
    """Read the stream of a task to the end."""
    with client.stream("GET", f"/api/tasks/{task_id}/stream", params=params, headers=headers) as response:
        assert response.status_code == 200, response.read()
        return [*frames_of(response)]


def types(forms: Sequence[Json]) -> list[str]:
    return [form["type"] for form in forms]


def ending(forms: list[Json]) -> Json:
    """The result of the one `done`, which is the last frame."""
    assert types(forms).count("done") == 1 and types(forms)[-1] == "done"
    result: Json = forms[-1]["result"]
    return result


class Held:
    """Tools that tell what they did, and one that waits until it is let go."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.begun = threading.Event()
        self.go = threading.Event()

    def agent(self, agent_id: str, script: Any, **fields: Any) -> Agent:
        """An agent with these tools whose model says what the script says."""
        from tests.fakes import ScriptedChatModel

        tools = (self.hold, self.note, *fields.pop("tools", ()))
        return Agent(agent_id=agent_id, model=ScriptedChatModel(script), tools=tools, mode="react", **fields)

    async def hold(self, name: str = "one") -> str:
        """Wait until it is let go."""
        self.begun.set()
        await asyncio.to_thread(self.go.wait, SECONDS)
        self.effects.append(name)
        return f"held {name}"

    def note(self, name: str = "one") -> str:
        """Note something."""
        self.effects.append(name)
        return f"noted {name}"
