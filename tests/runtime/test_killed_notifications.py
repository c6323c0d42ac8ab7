"""A process that is killed between a task's end and the delivery of its notification: the next one delivers it."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.process import CommandProcess
from tests.polling import wait_until
from tests.receivers import HttpReceiver

pytestmark = pytest.mark.slow
SECRET = "whsec_" + "A" * 44
HURRIED = {"segue.runtime.notifications.CLAIM_SECONDS": 0.2, "segue.runtime.worker.LOOK_SECONDS": 0.1}


def command(tmp_path: Path, *arguments: str) -> CommandProcess:
    environ = {"HOOK_SECRET": SECRET, "SEGUE_AGENTS": "agents.toml", "PATH": os.environ["PATH"]}
    return CommandProcess(arguments, tmp_path, environ, HURRIED, out="out", err="err")


def test_a_killed_process_loses_no_notification(tmp_path: Path) -> None:
    with HttpReceiver() as receiver:
        receiver.go.clear()
        table = f'name = "ops"\nurl = "{receiver.url}"\nsecret = "HOOK_SECRET"\nallow_private = true\n'
        agent = 'agent_id = "a"\nmodel = "offline"\nmode = "direct"\n'
        (tmp_path / "agents.toml").write_text(f"[[agent]]\n{agent}\n[[notify]]\n{table}")
        first = command(tmp_path, "chat", "hello")
        wait_until(lambda: receiver.got)
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        receiver.go.set()
        wait_until(lambda: _delivered(tmp_path))
    ids = {each.headers["webhook-id"] for each in receiver.got}
    assert len(ids) == 1 and len(receiver.got) >= 2 and set(receiver.types) == {"task.done"}


def _delivered(tmp_path: Path) -> bool:
    assert command(tmp_path, "notifications").wait() == 0
    return "Every notification was delivered." in (tmp_path / "out").read_text()
