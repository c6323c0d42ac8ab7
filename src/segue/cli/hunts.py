"""A hunt as the command and the fixture of pytest prepare it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .settings import Settings, places

if TYPE_CHECKING:
    from ..chaos.run import Chaos, ChaosOptions


async def prepared(
    settings: Settings, sessions: Sequence[str], scenarios: Sequence[str], given: "ChaosOptions"
) -> "Chaos":
    """Read the sessions of the database, and play the scenarios, which need none.

    Raises:
        ConfigurationError: there are neither, or no agents file; or as `prepare`.
    """
    from ..chaos.hosts import hosts_of, refusing, with_addresses
    from ..chaos.run import prepare
    from ..core.errors import ConfigurationError

    if not given.agents:
        raise ConfigurationError("Name the agents file whose tools to run with --agents.")
    if not sessions and not scenarios:
        raise ConfigurationError("Name sessions, or scenarios with --scenarios.")
    with refusing([*with_addresses(hosts_of(given.refused, given.agents))]):
        if sessions:
            async with settings.reading() as app:
                return await prepare(app, sessions, scenarios, given, places(settings))
        async with Settings(":memory:", settings.agents_file).opened() as app:
            return await prepare(app, sessions, scenarios, given, ["--agents", settings.agents_file])
