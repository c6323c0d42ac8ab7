"""The catalogues of texts and of errors: complete in both languages, and English where it is asked for."""

from string import Formatter

import pytest

from segue.core.errors import (
    Clause,
    ConfigurationError,
    DatabaseUnavailable,
    FileUnavailable,
    InvalidMessage,
    ModelUnreachable,
    SegueError,
    TaskError,
)
from segue.core.task import TaskStatus
from segue.prompts.catalogue import FOLDER, Texts, catalogue, error_text, render_over_http, template_of
from segue.server.tenants import Tenant
from tests.cases import cases
from tests.core.test_errors import DEFINED, MADE

TRANSLATIONS = ("errors", "clauses", "words", "labels")
"""Sections of the Chinese catalogue whose English is in the code."""
SECTIONS = tuple(catalogue("en"))


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_there_is_one_catalogue_per_language() -> None:
    assert {file.name for file in (FOLDER / "locales").iterdir()} == {"en.json", "zh.json"}


def test_both_languages_have_the_same_ids() -> None:
    assert {section: list(texts) for section, texts in catalogue("en").items()} == {
        section: list(texts) for section, texts in catalogue("zh").items() if section not in TRANSLATIONS
    }


@cases("section", SECTIONS)
def test_every_text_has_the_same_values_in_both_languages(section: str) -> None:
    for name, english in catalogue("en")[section].items():
        chinese = catalogue("zh")[section][name]
        assert fields(chinese) == fields(english), name
        assert not any("\u4e00" <= char <= "\u9fff" for char in english), name


@cases("section", catalogue("zh").keys() - {"separators"})
def test_every_chinese_text_is_chinese(section: str) -> None:
    without = {
        "why",
        "judge_says",
        "ANSWER",
        "SegueError",
        "api",
        "{problem}",
        "{fault}: {advice}.",
        "{fault}.",
        "happened",
    }
    for name, text in catalogue("zh")[section].items():
        assert any("\u4e00" <= char <= "\u9fff" for char in text) or name in without, name


def test_a_text_keeps_the_braces_of_its_values() -> None:
    assert Texts("task")("why", "en", reason="{x} {0}") == ": {x} {0}"


def test_an_unknown_id_and_a_missing_value_are_errors() -> None:
    with pytest.raises(KeyError):
        Texts("task")("no_such_text", "en")
    with pytest.raises(KeyError):
        Texts("task")("why", "zh")


# Every error in Chinese: complete, with the same fields, and English where it is asked for.

CHINESE = catalogue("zh")["errors"]
ERRORS = {name: text for name, text in CHINESE.items() if name.isidentifier()}
"""The Chinese templates by class."""
TRANSLATED = {english: text for english, text in CHINESE.items() if english not in ERRORS}
"""The Chinese templates by English template."""
OVER_HTTP = {
    name: (text, catalogue("en")["errors_over_http"][name])
    for name, text in catalogue("zh")["errors_over_http"].items()
}


def test_every_error_class_has_a_chinese_template() -> None:
    assert DEFINED.keys() <= ERRORS.keys()


@cases("error", MADE)
def test_an_error_reads_in_both_languages(error: SegueError) -> None:
    assert error_text(error, "en") == str(error)
    chinese = error_text(error, "zh")
    assert any("\u4e00" <= char <= "\u9fff" for char in chinese) or template_of(error, "zh") == "{sentence}"
    used = fields(template_of(error, "zh"))
    missing = {name for name in error.params.keys() - used if name != "sentence"}
    assert "sentence" in used or not missing, f"{type(error).__name__} in Chinese leaves out {missing}"


def test_a_sentence_has_the_same_fields_in_both_languages() -> None:
    for english, chinese in TRANSLATED.items():
        values = dict.fromkeys(fields(english), "x1")
        assert values.keys() == fields(chinese), english
        assert error_text(TaskError(english, **values), "zh") == chinese.format(**values)


def test_words_in_the_fields_are_translated_and_free_text_is_kept() -> None:
    paused = TaskError("Task {task_id} is {status}: there is nothing to cancel.", task_id="t1", status="done")
    assert error_text(paused, "zh") == "任务 t1 已完成：没有可以取消的内容。"
    free = DatabaseUnavailable("The disk {sda1} is full.")
    assert str(free) == "The disk {sda1} is full."
    assert error_text(free, "zh") == "数据库无法使用：The disk {sda1} is full."
    lost = FileUnavailable("missing", "segue.db.files/aa")
    assert "（缺失）" in error_text(lost, "zh")


def test_clauses_are_translated_around_what_the_endpoint_said() -> None:
    why = Clause("answered {status} ({why})", status=503, why="busy {x}")
    error = ModelUnreachable(
        "{fault}, the last of {attempts} attempts: {advice}.",
        fault=Clause('The model "{name}" at {address} {reason}', name="m", address="http://x/v1", reason=why),
        attempts=3,
        advice=Clause("wait a moment, then resume"),
    )
    assert str(error).startswith('The model "m" at http://x/v1 answered 503 (busy {x}), the last of 3 attempts')
    assert error_text(error, "zh") == "模型“m”（http://x/v1）返回了 503（busy {x}）（共尝试 3 次）：请稍候，然后继续。"


def test_a_clause_has_the_same_values_in_both_languages() -> None:
    for english, chinese in catalogue("zh")["clauses"].items():
        assert fields(english) == fields(chinese), english


def test_every_status_of_a_task_has_its_word() -> None:
    assert catalogue("zh")["words"].keys() >= {*TaskStatus}


class OwnError(ConfigurationError):
    """An error that is defined outside Segue."""


def test_an_error_of_ones_own_has_the_template_of_its_parent() -> None:
    assert error_text(OwnError("Set X."), "zh") == "配置有误：Set X."
    assert error_text(InvalidMessage(), "zh") == "消息无法发送："


def test_a_tenants_prefix_is_removed_in_chinese_too() -> None:
    for text in (*ERRORS.values(), *TRANSLATED.values()):
        names = {name: "alpha:s1" if name in ("thread_id", "task_id", "name") else "x" for name in fields(text)}
        assert "alpha" not in Tenant("alpha").without_prefix(text.format(**names)), text


NOT_SERVED = {"DatabaseTooNew", "NothingStored", "UnknownFact", "UnknownMemory"}
"""What ends a service before it answers, and what its routes answer in other words."""


@cases("error", [error for error in MADE if type(error).__name__ not in NOT_SERVED])
def test_a_client_of_the_service_is_told_of_no_command(error: SegueError) -> None:
    for sentence in (render_over_http(error, "en"), render_over_http(error, "zh")):
        assert "segue " not in sentence and " --" not in sentence


def test_what_a_client_is_told_instead_says_the_same() -> None:
    for name, (chinese, english) in OVER_HTTP.items():
        assert fields(chinese) == fields(english), name
        assert name in DEFINED or name in TRANSLATED, f"no error reads {name}"
        assert name in DEFINED or fields(chinese) == fields(name) - {"path", "error"}, "where the database is"
