"""An app over a database of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import segue
from segue.app import App


@pytest.fixture
async def app(database: Path) -> AsyncIterator[App]:
    async with segue.open(database) as opened:
        yield opened
