"""The same frames from Starlette alone: `python bare.py PORT FOLDER` plays what FOLDER/recording.json holds.

A message starts the next recorded task; its frames go to a queue for each of its clients, each when it was first sent.
Who comes later gets the durable frames that there were, then what comes.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


class ReplayedTask:
    """A recorded task under way."""

    def __init__(self, task_id: str, frames: list[tuple[float, str]]) -> None:
        self.task_id = task_id
        self._frames = [(after, frame.encode("ascii")) for after, frame in frames]
        self._durable: list[bytes] = []
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self.playing: asyncio.Task[None] | None = None

    async def play(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for after, frame in self._frames:
            if (rest := began + after - loop.time()) > 0:
                await asyncio.sleep(rest)
            if frame.startswith(b"id: "):
                self._durable.append(frame)
            for queue in self._queues:
                queue.put_nowait(frame)
        for queue in self._queues:
            queue.put_nowait(None)

    async def frames(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            for frame in [*self._durable]:
                yield frame
            while (live := await queue.get()) is not None:
                yield live
        finally:
            self._queues.discard(queue)

    def response(self) -> Response:
        headers = {"X-Task-Id": self.task_id, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(self.frames(), media_type="text/event-stream", headers=headers)


def application(folder: Path) -> Starlette:
    recorded: dict[str, Any] = json.loads((folder / "recording.json").read_text(encoding="ascii"))
    tasks = {task_id: ReplayedTask(task_id, frames) for task_id, frames in recorded.items()}
    waiting = iter(tasks.values())

    async def chat(request: Request) -> Response:
        await request.json()
        played = next(waiting)
        response = played.response()
        played.playing = asyncio.create_task(played.play())
        return response

    async def stream(request: Request) -> Response:
        return tasks[request.path_params["task_id"]].response()

    async def ready(_: Request) -> Response:
        return JSONResponse({"status": "ready"})

    return Starlette(
        routes=[
            Route("/api/chat", chat, methods=["POST"]),
            Route("/api/tasks/{task_id}/stream", stream),
            Route("/readyz", ready),
        ]
    )


if __name__ == "__main__":
    uvicorn.run(
        application(Path(sys.argv[2])),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
