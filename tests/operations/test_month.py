"""The first days of the month: the shortest part in which everything happens that `make month` is about."""

from pathlib import Path

import pytest

from tests.operations.__main__ import SECRET, differences

LAST = 8
"""The day of the first approval that was answered after it had expired."""


@pytest.mark.slow
def test_the_account_of_days_with_two_kills_each_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    assert [*differences(tmp_path, last=LAST)] == []
