"""The service with the extra `serve` alone: what needs another one is a sentence with the command."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import asyncio, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"a2a", "google", "cryptography", "mcp", "numpy", "matplotlib", "jinja2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())

import httpx, os, segue
from segue.server import create_app, from_environment

async def main():
    os.environ["SEGUE_REHEARSALS"] = sys.argv[1]
    application = create_app(":memory:", from_environment())
    async with application.router.lifespan_context(application):
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            for path in ("/a2a/travel", "/.well-known/agent-card.json", "/mcp"):
                response = await client.get(path)
                print(response.status_code, response.json()["error"]["message"])
            body = {"name": "b", "workflow": "travel_change", "n": 2}
            assert (await client.post("/api/rehearsals", json=body)).status_code == 202
            while (batch := (await client.get("/api/rehearsals/b")).json())["running"]:
                await asyncio.sleep(0.1)
            print(batch["ended"], sorted(batch["report"]))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_protocol_or_report_that_needs_an_extra_names_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("501 The A2A protocol needs an extra: pip install 'segue[a2a]'.") == 2
    assert "501 The MCP server needs an extra: pip install 'segue[mcp]'." in done.stdout
    assert "\n2 ['conversations', 'judge', 'missing', 'pass_hat', 'scenarios', 'summary']" in done.stdout
    assert "Traceback" not in done.stderr
