import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from segue.testing.chaos.processes import Zygote

SERVER = """
import time
from segue.testing.chaos import processes

processes.serve(lambda orders: time.sleep(60))
"""

ASK = """
import os
from pathlib import Path
from segue.testing.chaos.processes import Zygote

with Zygote("server", Path.cwd(), os.environ) as zygote:
    pid = zygote.fork({"folder": "."})
    print(pid, flush=True)
    zygote.wait(pid)
"""


def _until_gone(pid: int) -> None:
    began = time.monotonic()
    while _is_there(pid) and time.monotonic() - began < 20:
        time.sleep(0.02)
    assert not _is_there(pid)


def _wait(zygote: Zygote, pid: int) -> None:
    with pytest.raises(RuntimeError, match="ended"):
        zygote.wait(pid)


def _is_there(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.slow
def test_after_an_interruption_no_process_is_waited_for_and_none_is_left(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    began, pids = time.monotonic(), []
    with pytest.raises(KeyboardInterrupt), Zygote("server", tmp_path, os.environ) as zygote:
        pids.append(zygote.fork({"folder": str(tmp_path)}))
        waiting = threading.Thread(target=_wait, args=(zygote, pids[0]))
        waiting.start()
        time.sleep(0.2)
        raise KeyboardInterrupt
    waiting.join()
    assert time.monotonic() - began < 20
    while any(map(_is_there, pids)) and time.monotonic() - began < 20:
        time.sleep(0.02)
    assert not any(map(_is_there, pids))


@pytest.mark.slow
def test_a_killed_process_leaves_none_that_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with subprocess.Popen(
        [sys.executable, "-c", ASK], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as asking:
        assert asking.stdout
        pid = int(asking.stdout.readline())
        time.sleep(0.2)
        asking.kill()
    _until_gone(pid)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="its kernel ends a process with its parent")
def test_a_process_to_fork_from_that_is_killed_leaves_no_child(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with Zygote("server", tmp_path, os.environ) as zygote:
        pid = zygote.fork({"folder": str(tmp_path)})
        os.kill(int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        _until_gone(pid)
