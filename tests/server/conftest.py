"""One service for the tests of a module that need nothing of their own."""

from collections.abc import Iterator

import httpx
import pytest

from segue.core.agents import Agent

from .serving import KEYS, Held, Served, ServerSettings


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def own_agents() -> list[Agent]:
    """Agents beside the travel example; a module may say which."""
    return []


@pytest.fixture(scope="module", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty data folder in place of the working directory's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEGUE_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, own_agents: list[Agent]) -> Iterator[Served]:
    """A service with two tenants, over a database in a file."""
    folder = tmp_path_factory.mktemp("served")
    room = {"chats_a_minute": 10_000, "requests_a_minute": 100_000}
    settings = ServerSettings(keys=KEYS, backtests=folder / "backtests", **room)
    with Served(folder / "segue.db", settings, agents=own_agents) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    """A client of the tenant alpha."""
    from .serving import ALPHA

    with served.client(headers=ALPHA) as client:
        yield client


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test of a route an id of its own: Schemathesis gives all those of a schema the same."""
    if (label := getattr(item, "operation_label", None)) and label not in item.nodeid:
        assert item.parent
        item._id = item.parent.id.child(item.name)
