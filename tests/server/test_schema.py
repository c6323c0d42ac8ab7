"""What the OpenAPI document promises, tried with requests that are made up from it."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.utils import many
from schemathesis.specs.openapi.checks import positive_data_acceptance

from segue.server import ServerSettings, create_app

from .serving import ALPHA, KEYS, Served, chat


def more(elements: many) -> bool:
    """Whether a collection that is made up gets one more element: what hypothesis-jsonschema asks of Hypothesis.

    Hypothesis has put a loop in its place, which the library does not know yet.
    """
    if not hasattr(elements, "loop"):
        elements.loop = iter(elements.__enter__())
    for _ in elements.loop:
        return True
    elements.__exit__(None)
    return False


if not hasattr(many, "more"):
    many.more = more

EXAMPLES = 6
"""Requests a route."""
LOADED = schemathesis.openapi.from_dict(create_app(":memory:").openapi())
LOADED.config.phases.coverage.enabled = False  # it takes longer to think of them than to try them
LOADED.config.generation.allow_extra_parameters = False
LOADED.config.generation.codec = "ascii"  # `\w` of a pattern is any letter here, and one of ASCII in JSON Schema


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a key, without limits, with one task."""
    settings = ServerSettings(keys=KEYS, chats_a_minute=10**6, requests_a_minute=10**6, streams=10**6)
    with Served(tmp_path_factory.mktemp("schema") / "segue.db", settings) as served:
        with served.client(headers=ALPHA) as client:
            chat(client, "帮我规划北京3日游", mode="plan", session_id="session_123")
        yield served


# The service runs in this process: its random numbers are none of the strategies'.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@LOADED.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[*HealthCheck],
)
def test_every_request_gets_what_the_document_promises(case: Any, roomy: Served) -> None:
    # that a mode or a snapshot is there, no schema can say
    case.call_and_validate(base_url=roomy.url, headers=ALPHA, timeout=30, excluded_checks=[positive_data_acceptance])
