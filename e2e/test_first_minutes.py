"""The first ten minutes: an agent with an endpoint and a tool of one's own, as README and guides tell it."""

import os
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.fakes import answer, call_tool
from tests.loopback import LoopbackServer, Text

from .conftest import Visit
from .serving import STARTING_SECONDS, Service, environment, wait_until

PACKING = '''
import time
from pathlib import Path

import segue


@segue.tool(idempotent=True)
def pack(order_id: int) -> str:
    """Pack an order."""
    Path("begun").touch()
    while not Path("ready").exists():
        time.sleep(0.05)
    return f"Order {order_id} is packed."
'''
CALLS = [("lookup", {"order_id": 17}), ("pack", {"order_id": 17}), ("refund", {"order_id": 17})]
PYTEST = ("-q", "-p", "segue.pytest_plugin", "-p", "no:cacheprovider")
"""Options that leave out the other plugins that are installed here."""
ANSWER = answer("Order 17 is packed and refunded.")
CONVERSATION = [*(call_tool(call) for call in CALLS), ANSWER]
WITHOUT_PACKING = [call_tool(CALLS[0]), call_tool(CALLS[2]), ANSWER]
"""What the model says with another prompt."""


class Shop:
    """The project of a newcomer: a folder, a home without settings, and commands."""

    def __init__(self, folder: Path, endpoint: LoopbackServer) -> None:
        self.folder = folder / "shop"
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        given = {"HOME": str(folder), "PATH": path, "OPENAI_BASE_URL": endpoint.base_url, "SEGUE_AGENTS": "agents.toml"}
        given["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        self.environ = {**environment(), **given}
        self.run("segue", "init", "shop", folder=folder)
        (self.folder / "packing.py").write_text(PACKING, encoding="utf-8")
        self.replace("agents.toml", '"calculator"', '"packing:pack"')

    def replace(self, file: str, old: str, new: str, into: str = "") -> None:
        text = (self.folder / file).read_text(encoding="utf-8")
        assert old in text
        (self.folder / (into or file)).write_text(text.replace(old, new), encoding="utf-8")

    def begin(self, *command: str, folder: Path | None = None) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=folder or self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str, code: int = 0, folder: Path | None = None) -> str:
        """What a command prints; it must end with the code."""
        process = self.begin(*command, folder=folder)
        said, _ = process.communicate(timeout=STARTING_SECONDS)
        assert process.returncode == code, said
        return said


def test_a_task_that_is_killed_is_resumed_approved_on_the_page_recorded_and_backtested(
    tmp_path: Path, visit: Visit
) -> None:
    with LoopbackServer([Text(said) for said in CONVERSATION]) as endpoint:
        shop = Shop(tmp_path, endpoint)
        killed = shop.begin("segue", "chat", "Pack order 17, then refund it.", "--session", "ann")
        wait_until((shop.folder / "begun").exists, STARTING_SECONDS)
        killed.kill()
        killed.communicate()
        assert "interrupted" in shop.run("segue", "tasks")

        (shop.folder / "ready").touch()
        assert "refund" in shop.run("segue", "resume", "--all", code=3)
        with Service(shop.folder, **shop.environ) as service:
            page = visit(service, "#/s/ann")
            card = page.get_by_role("region", name="Approve this call?")
            card.get_by_role("button", name=re.compile("^Approve")).first.click()
            expect(page.get_by_text("Order 17 is packed and refunded.")).to_be_visible()
        endpoint.assert_spent()

    assert "pack" in shop.run("segue", "trace", "--last")
    shop.run("segue", "record", "ann", "--out", "tests")
    assert "1 passed" in shop.run(sys.executable, "-m", "pytest", *PYTEST, "tests")

    shop.replace("agents.toml", "Look an order up", "Never pack. Look an order up", into="new.toml")
    with LoopbackServer([Text(said) for said in WITHOUT_PACKING]) as endpoint:
        shop.environ["OPENAI_BASE_URL"] = endpoint.base_url
        said = shop.run("segue", "backtest", "ann", "--agents", "new.toml", code=1)
        endpoint.assert_spent()
    assert "would have different effects" in said
