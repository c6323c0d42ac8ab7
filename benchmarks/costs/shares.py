"""Where the time goes, by the library whose code runs: `python -m costs.shares URL FOLDER` prints JSON.

The CPU time of the event loop's thread under cProfile, where what is built in counts for its caller, and a start's
imports under `-X importtime`.
"""

import asyncio
import cProfile
import json
import pstats
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .peers import page_tool, segue
from .processes import TOOL

GROUPS: Mapping[str, tuple[str, ...]] = {
    "LangGraph": ("langgraph", "langgraph_sdk", "langchain_protocol", "websockets"),
    "LangChain": ("langchain_core", "langchain_openai", "tenacity", "jsonpatch", "yaml"),
    "LangSmith": ("langsmith", "opentelemetry", "requests", "requests_toolbelt", "urllib3", "charset_normalizer"),
    "openai and HTTP": ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "sniffio"),
    "pydantic": ("pydantic", "pydantic_core"),
    "Segue's storage": ("segue/checkpoints",),
    "Segue": ("segue",),
    "asyncio and threads": ("asyncio", "concurrent", "selectors.py", "threading.py"),
}
REST = "the rest"
START = "import segue.app, segue.models.openai.model, langchain_openai, segue.cli.main"
TASKS = {0: 20, 10: 3, 200: 1}
"""How many tasks of so many calls are profiled."""
ROOT = Path(__file__).parents[2]


def group_of(module: str) -> str:
    """The group that a module's path belongs to."""
    return next((name for name, begins in GROUPS.items() if module.startswith(begins)), REST)


def place_of(file: str) -> str:
    """A source file by its package: segue/… for ours, else as it is installed."""
    for folder in ("/site-packages/", f"/python{sys.version_info.major}.{sys.version_info.minor}/"):
        if folder in file:
            return file.rpartition(folder)[2]
    inside = Path(file).is_relative_to(ROOT) and not Path(file).is_relative_to(ROOT / "benchmarks")
    return f"segue/{Path(file).relative_to(ROOT)}" if inside else file


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """The share of each group."""
    found: Counter[str] = Counter()
    stats: Any = pstats.Stats(profile)
    for (file, _, _), (_, _, own, _, callers) in stats.stats.items():
        if file != "~":
            found[group_of(place_of(file))] += own
        else:
            for (caller, *_), (_, _, part, _) in callers.items():
                found[group_of(place_of(caller))] += part
    return _of_all(found)


def imported() -> dict[str, float]:
    """The share of each group in the imports of a start."""
    command = [sys.executable, "-X", "importtime", "-c", START]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Counter[str] = Counter()
    for own, module in re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", done.stderr):
        found[group_of(module.replace(".", "/"))] += int(own)
    return _of_all(found)


def _of_all(found: Counter[str]) -> dict[str, float]:
    return {name: found[name] / found.total() for name in (*GROUPS, REST)}


async def profiled(protocol: str, calls: int, url: str, folder: Path) -> dict[str, float]:
    """The shares of tasks of so many calls; without calls, until the first token."""
    profile = cProfile.Profile(time.thread_time)
    async with segue(protocol, read_only=True)(url, folder, page_tool(TOOL)) as ask:
        for number in range(TASKS[calls] + 1):
            async for _ in ask(f"[bench {protocol} {calls} share-{protocol}-{calls}-{number}]", f"{calls}-{number}"):
                if not calls:
                    profile.disable()
            profile.disable()
            if number < TASKS[calls]:  # the first one only warms up
                profile.enable()
    profile.disable()
    return shares(profile)


async def main(url: str, folder: Path) -> None:
    """Print the shares by what was profiled."""
    found = {}
    for protocol in ("json", "native"):
        place = folder / f"shares-{protocol}"
        place.mkdir()
        found[f"first token, {protocol}"] = await profiled(protocol, 0, url, place)
        found[f"10 calls, {protocol}"] = await profiled(protocol, 10, url, place)
        found[f"200 calls, {protocol}"] = await profiled(protocol, 200, url, place)
    print(json.dumps(found | {"start": imported()}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
