"""What Segue does on systems without the calls that only Unix or Linux has: every module can be imported there."""

import os
import subprocess
import sys

import pytest

import segue
from segue.core.errors import ConfigurationError
from segue.runtime import runner
from segue.testing.chaos.run import ChaosOptions, prepare
from tests.source import ROOT

_IMPORT_ALL = """
import builtins, importlib, os, select, signal, socket, sys, tomllib
from pathlib import Path

LACKING = {"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
CALLS = {
    os: ("fork", "getuid", "geteuid", "kill", "killpg", "mkfifo", "sched_getaffinity", "setsid", "uname", "waitid",
         "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "WNOHANG"),
    signal: ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD",
             "pthread_kill", "setitimer", "alarm"),
    select: ("poll", "epoll"),
    socket: ("AF_UNIX", "socketpair"),
}
settings = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
folders = settings["tool"]["setuptools"]["package-dir"].items()
names = [
    f"{package}.{file.stem}"
    for package, folder in folders
    for file in sorted((Path(sys.argv[1]).parent / folder).glob("*.py"))
    if file.stem not in ("__init__", "__main__")
]
for name in names:  # with all that others need, which choose for themselves what a system has
    importlib.import_module(name)
for name in [name for name in sys.modules if name.partition(".")[0] == "segue"]:
    del sys.modules[name]

load = builtins.__import__

def lacking(name, globals=None, *rest):
    if name.partition(".")[0] in LACKING and (globals or {}).get("__name__", "").startswith("segue"):
        raise ImportError(f"{name} is not there")
    return load(name, globals, *rest)

builtins.__import__ = lacking
for module, calls in CALLS.items():
    for call in calls:
        if hasattr(module, call):
            delattr(module, call)
for name in names:
    importlib.import_module(name)
print(len(names), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_no_import_needs_what_windows_or_macos_lacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL, ROOT / "pyproject.toml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


async def test_chaos_says_that_it_needs_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match="forks processes"):
            await prepare(app, ["s"], [], ChaosOptions(agents="agents.toml", world="staging:World"), [])


def test_on_windows_an_owner_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("signal 0 is Ctrl-C there"))
    assert not runner.is_dead(f"{runner._this_machine()}:1:x")
