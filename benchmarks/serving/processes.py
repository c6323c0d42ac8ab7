"""A server as a process of its own: what it costs."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
PATIENCE = 30


class Server:
    """A running server."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.port = port
        self.api = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False)

    @property
    def kilobytes(self) -> int:
        """Its resident memory."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    @property
    def cpu_seconds(self) -> float:
        """What it has computed so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the server ended with {self._process.returncode}: {self._log.read_text()[-2000:]}")
        try:
            return (await self.api.get("/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    async def json(self, path: str, **params: Any) -> Any:
        return (await self.api.get(path, params=params)).raise_for_status().json()

    async def stop(self) -> None:
        await self.api.aclose()
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()


@asynccontextmanager
async def running(module: str, folder: Path) -> AsyncIterator[Server]:
    """Start one of the servers beside this file; its log is in the folder."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = _started(module, folder, port)
    try:
        deadline = time.monotonic() + PATIENCE
        while not await server.ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{module} was not ready within {PATIENCE} seconds")
            await asyncio.sleep(0.05)
        yield server
    finally:
        await server.stop()


def _started(module: str, folder: Path, port: int) -> Server:
    command = [sys.executable, str(HERE / f"{module}.py"), str(port), str(folder)]
    path = folder / f"{module}.log"
    with path.open("wb") as log:
        return Server(subprocess.Popen(command, stdout=log, stderr=log), port, path)
