"""A hunt over recorded sessions and scenarios of rehearsals."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from ...app import App
from ...core.agents import production_file
from ...core.calls import Tool
from ...core.errors import ConfigurationError, MissingExtra, UnknownOption
from ..cassette import Cassette
from ..cassette.cassette import dump
from ..cassette.recorder import read_session
from .hunt import Hunt, HuntOptions, Progress
from .processes import Zygotes, hosts_of, refusing, with_addresses
from .runs import Hunted
from .traps import FAULTS, most_effects
from .world import Worlds, load, record_scenarios

OUTPUT = Path("chaos")
Words = tuple[str, ...]
"""How a command names a session, or a scenario."""


@dataclass(frozen=True, kw_only=True)
class ChaosOptions:
    """What is hunted: the agents file, the world as `module:Class`, and how.

    Without `faults` it is all of FAULTS; `repeat` names one run. No run begins after `seconds`. `jobs` runs go on at
    once, by default one a core; more than one needs a world that takes a namespace. The hosts `refused` are never
    reached. Finished runs are kept in the folder `output`, where the same hunt goes on, unless it is `fresh`.
    """

    agents: str
    world: str
    faults: Sequence[str] = ()
    repeat: str = ""
    seconds: float = float("inf")
    seed: int = 0
    jobs: int | None = None
    refused: Sequence[str] = ()
    output: Path = OUTPUT
    fresh: bool = False


class Chaos:
    """Sessions with the tools that they call, ready to be hunted.

    `command` are the options of a command that reads the same sessions, without those of ChaosOptions.
    """

    def __init__(
        self,
        sessions: Mapping[Words, Cassette],
        tools: Mapping[str, Tool],
        options: ChaosOptions,
        command: Sequence[str],
    ) -> None:
        for name in options.faults:
            if name not in FAULTS:
                raise UnknownOption(name, FAULTS)
        self._sessions, self._tools, self._options, self._command = sessions, tools, options, command
        self._worlds = load(options.world)
        self._refused = hosts_of(options.refused, options.agents)
        self._jobs = _jobs(options.jobs, self._worlds)

    @property
    def sessions(self) -> int:
        """How many sessions are hunted."""
        return len(self._sessions)

    @property
    def effects(self) -> int:
        """How many effects the runs may have at most."""
        made = (_calls(cassette) for cassette in self._sessions.values())
        return sum(most_effects(calls, self._tools, self._faults, self._options.repeat) for calls in made)

    @property
    def _faults(self) -> Sequence[str]:
        return self._options.faults or FAULTS

    def run(
        self, on_progress: Progress = lambda done, of: None, on_resumed: Callable[[int], None] = lambda n: None
    ) -> Hunted:
        """Carry out all runs; `on_resumed` hears how many an earlier hunt has finished."""
        given = self._options
        options = HuntOptions(
            faults=self._faults,
            repeat=given.repeat,
            until=time.monotonic() + given.seconds,
            seed=given.seed,
            jobs=self._jobs,
            refused=[*with_addresses(self._refused)],
            fresh=given.fresh,
        )
        whole = Hunted(seed=given.seed)
        with refusing(options.refused), Zygotes("segue.testing.chaos", self._jobs) as zygotes:
            for words, cassette in self._sessions.items():
                own = replace(options, digest=self._digest(cassette))
                system, folder, command = (given.agents, self._worlds), given.output, self._repeat(words)
                with Hunt(cassette, self._tools, *system, folder, command, zygotes, own) as hunt:
                    if hunt.known:
                        on_resumed(hunt.known)
                    whole += hunt.run(on_progress)
        return whole

    def _repeat(self, session: Words) -> str:
        """The command that hunts this session."""
        given = self._options
        words = ["segue", "chaos", *session, *self._command, "--world", given.world]
        words += [word for host in given.refused for word in ("--refuse-host", host)]
        words += ["--seed", str(given.seed)] if given.seed else []
        words += ["--output", str(given.output)] if given.output != OUTPUT else []
        return shlex.join(words)

    def _digest(self, cassette: Cassette) -> str:
        """Identify a hunt: its session, the code of tools and world, and its options."""
        given = self._options
        found = sha256(dump(cassette).encode())
        found.update(repr((version("segue"), given.world, [*self._faults], given.seed, self._refused)).encode())
        for file in _own_files(Path.cwd(), Path(given.agents).resolve().parent):
            found.update(file.read_bytes())
        found.update(Path(given.agents).read_bytes())
        return found.hexdigest()


async def prepare(
    app: App, sessions: Sequence[str], scenarios: Sequence[str], options: ChaosOptions, command: Sequence[str]
) -> Chaos:
    """Read the sessions, and hold the conversations of the scenarios."""
    if not hasattr(os, "fork"):
        raise ConfigurationError(
            "`segue chaos` forks processes, which Windows does not support: run it in WSL, or on Linux."
        )
    if file := production_file(options.agents):
        raise ConfigurationError("{file} has production = true: use the agents file of a staging system.", file=file)
    for name in app.agents:
        with suppress(MissingExtra):  # it says so below, if a session is of this agent
            await app.agents.prepare(app.agents.agent(name))
    found: dict[Words, Cassette] = {(name,): await read_session(app, name) for name in sessions}
    for named in scenarios:
        recorded = await record_scenarios(app, named, options.seed)
        found |= {("--scenarios", name): cassette for name, cassette in recorded.items()}
    for words, cassette in found.items():
        if not _calls(cassette):
            raise ConfigurationError("{session} calls no tools: name a session that does.", session=words[-1])
    tools = {
        name: tool
        for cassette in found.values()
        for turn in cassette.turns
        for name, tool in app.agents.tools_in(app.agents.agent(turn.agent), turn.mode).items()
    }
    return Chaos(found, tools, options, command)


def _jobs(given: int | None, worlds: Worlds) -> int:
    if given is None:
        return os.cpu_count() or 1 if worlds.takes_namespace else 1
    if given > 1 and not worlds.takes_namespace:
        raise ConfigurationError(
            "--jobs {n} needs a world for each run: give its class `def __init__(self, namespace)`, or leave --jobs "
            "out.",
            n=given,
        )
    return given


def _calls(cassette: Cassette) -> list[str]:
    return [call.name for turn in cassette.turns for call in turn.tool_calls]


def _own_files(*folders: Path) -> list[Path]:
    """The modules' files that lie in these folders, installed ones left out."""
    files = {Path(file).resolve() for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))}
    installed = (Path(sys.prefix).resolve(), Path(__file__).resolve().parents[2])
    own = (file for file in files if any(file.is_relative_to(folder.resolve()) for folder in folders))
    return sorted(file for file in own if file.is_file() and not any(file.is_relative_to(top) for top in installed))
