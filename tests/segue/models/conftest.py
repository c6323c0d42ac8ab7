"""Models know nothing of an endpoint when a test begins."""

import pytest

from segue.models.response_formats import forget_endpoints


@pytest.fixture(autouse=True)
def fresh_endpoints() -> None:
    forget_endpoints()
