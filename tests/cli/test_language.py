"""The language of the terminal: --language, SEGUE_LANGUAGE, then the locale."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import chdir, closing

import pytest
from typer.testing import CliRunner

from segue.cli import app

from .conftest import PLAIN_TERMINAL

ENGLISH = {"SEGUE_LANGUAGE": "", "LC_ALL": "", "LANG": "en_GB.UTF-8"}
CHINESE = {**ENGLISH, "LANG": "zh_CN.UTF-8"}


def said(environ: dict[str, str], *arguments: str, stdin: str = "") -> str:
    return CliRunner().invoke(app, arguments, input=stdin, env=PLAIN_TERMINAL | environ).output


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A finished task in the current folder's database, and one whose process is gone."""
    with chdir(tmp_path_factory.mktemp("cli")):
        for session in ("done", "gone"):
            said(ENGLISH, "chat", "hello", "--session", session, "--model", "offline")
        with closing(sqlite3.connect("segue.db")) as database, database:
            database.execute("UPDATE tasks SET status = 'running', result = NULL WHERE thread_id = 'gone'")
            (task_id,) = database.execute("SELECT task_id FROM tasks WHERE thread_id = 'done'").fetchone()
        yield str(task_id)


TEXTS = {
    "tasks": (("tasks",), "已完成", "done"),
    "interrupted": (("tasks",), "正在运行（已中断）", "running (interrupted)"),
    "resume": (("tasks",), "以下任务在进程结束时中断。要继续：", "Interrupted when its process ended. To resume it:"),
    "sessions": (("sessions",), "最近的消息", "last message"),
    "history": (("history", "done"), "你：hello", "you: hello"),
    "modes": (("modes",), "一次模型调用", "one model call"),
    "agents": (("agents",), "智能体", "agent"),
    "trace": (("trace", "{task}"), "已完成", "done"),
    "pause": (("pause", "{task}"), "任务 {task} 已完成", "Task {task} is done"),
    "recover": (("recover", "done"), "会话 done 没有损坏", "Session done is not damaged"),
    "no graph": (("graph", "none"), "没有图“none”", "There is no graph 'none'"),
    "no database": (("tasks", "--db", "no.db"), "数据库 no.db 还不存在", "There is no database no.db yet"),
    "unfinished": (("chat", "x", "--session", "gone"), "继续它：", "resume it:"),
    "chat": (("chat", "hello", "--model", "offline"), "没有使用语言模型", "NO LANGUAGE MODEL"),
    "next": (("chat", "hello", "--model", "offline"), "继续此会话", "continue this session"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_the_terminal_says_is_in_the_language_of_the_locale(task: str, name: str) -> None:
    arguments, chinese, english = TEXTS[name]
    given = [argument.format(task=task) for argument in arguments]
    assert english.format(task=task) in said(ENGLISH, *given)
    assert chinese.format(task=task) in said(CHINESE, *given)


def test_the_option_wins_over_the_environment_and_that_over_the_locale(task: str) -> None:
    assert "会话" in said(ENGLISH | {"SEGUE_LANGUAGE": "zh"}, "threads")
    assert "continue this session" in said(CHINESE | {"SEGUE_LANGUAGE": "zh"}, "chat", "你好", "--language", "en")


def test_the_commands_of_a_conversation_are_in_the_language_of_the_terminal(task: str) -> None:
    printed = said(CHINESE, "chat", "--interactive", "--model", "offline", stdin="/help\n/wild\n")
    assert re.search("^/cancel  +取消任务", printed, re.MULTILINE)
    assert "没有命令 /wild。" in printed
