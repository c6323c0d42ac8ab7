"""The gates of `make check` see what they are for."""

import json
from pathlib import Path

import pytest

from gates import style, trends


def test_a_trend_that_grew_is_named_and_one_that_fell_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "trends.json"
    kept.write_text(json.dumps({"files": 60, "helpers": 9}), encoding="utf-8")
    monkeypatch.setattr(trends, "KEPT", kept)
    assert trends.find_grown({"files": 61, "helpers": 8, "names of new": 2}) == [
        "files: 61, was 60",
        "names of new: 2, was 0",
    ]


def test_a_function_and_a_module_that_are_too_long_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nodes"
    package.mkdir()
    (package / "long.py").write_text("def endless():\n" + "    pass\n" * 1000, encoding="utf-8")
    monkeypatch.setattr(style, "ROOT", tmp_path)
    monkeypatch.setattr(style, "FOLDERS", ("nodes",))
    assert list(style.find_long()) == [
        "nodes/long.py: 1001 lines, more than 1000",
        "nodes/long.py: endless has 1001 lines, more than 80",
    ]
