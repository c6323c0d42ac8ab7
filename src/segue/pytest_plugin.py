"""The pytest plugin: a `*.cassette.yaml` file is a test, and fixtures.

`segue_replay` replays a cassette, `segue_backtest` is a backtest, `segue_chaos` finds tools that are not safe
to resume.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from .core.records import SUFFIX

if TYPE_CHECKING:
    from .testing.backtest import Backtest
    from .testing.chaos.runs import Hunted

Replays: TypeAlias = Callable[..., None]
Backtests: TypeAlias = "Callable[..., Backtest]"
Hunts: TypeAlias = "Callable[..., Hunted]"


class ReplayDiffers(AssertionError):
    """The agent does not do what was recorded; the message shows the first difference."""


class BacktestDiffers(AssertionError):
    """Changed agents would call tools otherwise in recorded sessions, or fail; the message shows where."""


class ToolsUnsafe(AssertionError):
    """Tools are not safe to resume; the message shows what they do, what to change, and the command that repeats it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "segue_agents",
        "Cassettes are replayed with this agents file, beside the configuration file; by default ./agents.toml.",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return CassetteFile.from_parent(parent, path=file_path) if file_path.name.endswith(SUFFIX) else None


class CassetteFile(pytest.File):
    """A cassette, which is one test."""

    def collect(self) -> Iterator[pytest.Item]:
        yield CassetteItem.from_parent(self, name=self.path.name.removesuffix(SUFFIX))


class CassetteItem(pytest.Item):
    """The replay of a cassette with the agents of the agents file."""

    def runtest(self) -> None:
        _replay(self.path, *_agents_file(self.config))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from .core.errors import SegueError

        if isinstance(excinfo.value, ReplayDiffers | SegueError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"replay of {self.name}"


@pytest.fixture
def segue_replay(pytestconfig: pytest.Config) -> Replays:
    """A function (cassette, agents=None, modes=None) that fails the test at the first difference.

    Without agents, those of the agents file are taken, and its modes if none are given.
    """

    def replays(
        cassette: str | Path, agents: Iterable[Any] | None = None, modes: Mapping[str, Any] | None = None
    ) -> None:
        __tracebackhide__ = True
        if agents is None:
            agents, in_file = _agents_file(pytestconfig)
            modes = in_file if modes is None else modes
        _replay(Path(cassette), list(agents), modes or {})

    return replays


@pytest.fixture
def segue_backtest(pytestconfig: pytest.Config) -> Backtests:
    """A function (database, *session_ids, agents=None, modes=None, **options) that fails the test if calls change.

    It returns the backtest. Agents and modes are as in `segue_replay`, options those of `App.backtest`.
    """

    def backtests(
        database: str | Path,
        *session_ids: str,
        agents: Iterable[Any] | None = None,
        modes: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "Backtest":
        __tracebackhide__ = True
        if agents is None:
            agents, in_file = _agents_file(pytestconfig)
            modes = in_file if modes is None else modes
        made = asyncio.run(_backtest(str(database), session_ids, list(agents), modes or {}, options))
        if made.is_changed:
            raise BacktestDiffers("\n\n".join(task.describe() for task in made.differing))
        return made

    return backtests


@pytest.fixture
def segue_chaos(pytestconfig: pytest.Config, tmp_path: Path) -> Hunts:
    """A function (database, *session_ids, world, scenarios=(), agents="", output="", **options).

    It fails the test if a tool is not safe to resume, and else returns what was found. `world` is `module:Class`,
    `agents` an agents file, by default that of pytest's settings; the runs are in the folder `output`, by default the
    test's. Options are those of `ChaosOptions`.
    """

    def hunts(
        database: str | Path,
        *session_ids: str,
        scenarios: Iterable[str] = (),
        agents: str | Path = "",
        output: str | Path = "",
        **options: Any,
    ) -> "Hunted":
        __tracebackhide__ = True
        options |= {"agents": str(agents) or _agents_path(pytestconfig), "output": Path(output or tmp_path / "chaos")}
        made = _hunt(str(database), [*session_ids], [*scenarios], options)
        if not made.is_safe:
            failed = [f"{run}: {why}" for run, why in made.failed.items()]
            raise ToolsUnsafe("\n\n".join([*(found.described() for found in made.faults), *failed]))
        return made

    return hunts


def _hunt(database: str, sessions: list[str], scenarios: list[str], options: Mapping[str, Any]) -> "Hunted":
    from .cli.exits import prepared
    from .cli.settings import Settings
    from .testing.chaos.run import ChaosOptions

    given = ChaosOptions(**options)
    return asyncio.run(prepared(Settings(database, given.agents), sessions, scenarios, given)).run()


async def _backtest(
    database: str, session_ids: Iterable[str], agents: list[Any], modes: Mapping[str, Any], options: Mapping[str, Any]
) -> "Backtest":
    from .entry import open as open_app

    async with open_app(database, agents=agents, modes=modes) as app:
        return await app.backtest(*session_ids, **options)


def _agents_path(config: pytest.Config) -> str:
    """The path of the agents file that pytest's settings name, else of agents.toml where pytest runs; empty without."""
    if given := str(config.getini("segue_agents")):
        return str((config.inipath.parent if config.inipath else config.rootpath) / given)
    usual = config.invocation_params.dir / "agents.toml"
    return str(usual) if usual.is_file() else ""


def _agents_file(config: pytest.Config) -> tuple[list[Any], Mapping[str, Any]]:
    """The agents and modes of that file."""
    from .cli.settings import Settings

    settings = Settings(agents_file=_agents_path(config))
    return settings.agents(), settings.modes()


def _replay(file: Path, agents: list[Any], modes: Mapping[str, Any]) -> None:
    __tracebackhide__ = True
    from .testing.cassette import read_cassette, replay

    made = asyncio.run(replay(read_cassette(file), agents=agents, modes=modes))
    if made.difference:
        raise ReplayDiffers(made.difference.describe())
