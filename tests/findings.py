"""Findings: work that was lost, repeated or left over. A test that has one is never tried again."""

import pytest

MARK = "FINDING"
"""What the Makefile's `--rerun-except` looks for in a failure's message."""


def no_findings(findings: object, said: str = "") -> None:
    """Fail if there are findings."""
    if findings:
        pytest.fail(f"{MARK}: {findings}\n{said}")
