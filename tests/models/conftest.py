"""Models know nothing of an endpoint when a test begins."""

import pytest

from segue.models.openai import model


@pytest.fixture(autouse=True)
def fresh_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_found", {})
