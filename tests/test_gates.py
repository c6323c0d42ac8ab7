"""The gates of `make check` see what they are for."""

import json
from pathlib import Path

import pytest

from gates import documentation, style, texts, trends
from tests.source import nodes_of


def test_a_trend_that_grew_is_named_and_one_that_fell_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "trends.json"
    kept.write_text(json.dumps({"files": 60, "helpers": 9, "chat calls": 1000}), encoding="utf-8")
    monkeypatch.setattr(trends, "KEPT", kept)
    assert trends.find_grown({"files": 61, "helpers": 8, "names of new": 2}) == [
        "files: 61, was 60",
        "names of new: 2, was 0",
    ]
    assert [trends.find_grown({"chat calls": number}) for number in (1050, 1051)] == [
        [],
        ["chat calls: 1051, was 1000"],
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


def test_a_raises_section_outside_the_public_api_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raises = '    """Do it.\n\n    Raises:\n        ValueError.\n    """\n'
    code = "".join(f"def {name}():\n{raises}\n\n" for name in ("do", "_do")) + f"class Doer:\n{raises}"
    files = {
        "src/segue/__init__.py": "from .core.doing import do\n",
        "docs/reference/python.md": "::: segue.runtime.listed.Doer\n\n`segue.testing.parts` is public, too.\n",
        **dict.fromkeys(("src/segue/core/doing.py", "src/segue/runtime/listed.py", "nodes/inner.py"), code),
        **dict.fromkeys(("src/segue/testing/parts/__init__.py", "src/segue/testing/parts/one.py"), code),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(style, "ROOT", tmp_path)
    monkeypatch.setattr(style, "source", lambda: {path: nodes_of(path) for path in sorted(tmp_path.rglob("*.py"))})
    found = [fault.partition(" is internal")[0] for fault in style.find_internal_raises()]
    assert found == [
        *("nodes/inner.py:1: do", "nodes/inner.py:9: _do", "nodes/inner.py:17: Doer"),
        *("src/segue/core/doing.py:9: _do", "src/segue/runtime/listed.py:9: _do"),
        *("src/segue/testing/parts/__init__.py:9: _do", "src/segue/testing/parts/one.py:9: _do"),
    ]


def test_what_a_page_names_and_is_not_there_is_named_and_what_no_row_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {
        "docs/security.md": "| promise | tests |\n| --- | --- |\n| Kept. | `tests/test_kept.py::test_kept` |\n",
        "docs/documents.md": "| feature | test |\n| --- | --- |\n| One | `test_gone` |\n| Two | nothing |\n",
        "docs/reference/environment.md": "| `SEGUE_GONE` | `1` |\n",
        "tests/test_kept.py": "def test_other(): ...\n",
        "tests/documents/test_page.py": "async def test_unnamed(): ...\n\n\ndef helper(): ...\n",
        "nodes/read.py": 'limit = whole_number(environ, "SEGUE_LIMIT", 7)\n',
    }
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(documentation, "ROOT", tmp_path)
    monkeypatch.setattr(documentation, "FOLDERS", ("nodes",))
    for read in (documentation._defined, documentation._read):
        monkeypatch.setattr(documentation, read.__name__, read.__wrapped__)
    faults = [*documentation.find_missing_tests(), *documentation.find_undocumented_variables()]
    for expected in (
        "docs/security.md: tests/test_kept.py has no test_kept",
        "docs/documents.md: tests/documents has no test_gone",
        "docs/documents.md: no test is named for | Two | nothing |",
        "docs/documents.md: test_unnamed of tests/documents/test_page.py is in no row",
        "docs/reference/environment.md: SEGUE_LIMIT has no row",
        "docs/reference/environment.md: nothing reads SEGUE_GONE",
        "docs/reference/environment.md: the default of SEGUE_LIMIT is 7",
    ):
        assert expected in faults
    assert not [fault for fault in faults if "helper" in fault]


def test_an_id_that_is_not_there_and_a_sentence_without_a_chinese_form_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "read.py"
    code = """
say = Texts("task")
say("whyy", "en")
raise ConfigurationError("No {thing} is there at all.", thing=1)
raise ConfigurationError(f"{reason} again")
Clause("not in the catalogue")
"""
    file.write_text(code, encoding="utf-8")
    monkeypatch.setattr(texts, "source", lambda: {file: nodes_of(file)})
    for read in (texts._sections_of_names, texts._read_uses):
        monkeypatch.setattr(texts, read.__name__, read.__wrapped__)
    faults = texts.text_faults()
    for expected in (
        "prompts/locales/en.json: task has no whyy",
        "prompts/locales/en.json: nothing uses task.answer_alike",
        "prompts/locales/zh.json: errors has no form of 'No {thing} is there at all.', which read.py raises",
        """prompts/locales/zh.json: errors has no form of "f'{reason} again'", which read.py raises""",
        "prompts/locales/zh.json: clauses has no form of 'not in the catalogue' of read.py",
    ):
        assert expected in faults
    assert [fault for fault in faults if "nothing raises" in fault]
