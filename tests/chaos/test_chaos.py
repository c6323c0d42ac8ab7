import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

import segue
from tests.fakes import ScriptedChatModel

HERE = Path(__file__).parent
AGENTS = """
[[agent]]
agent_id = "shop"
mode = "react"
protocol = "native"
tools = ["payments:pay", "payments:pay_once"]
prompt = "You help."
"""
COMMAND = "chaos bought --agents agents.toml --world payments:World --faults kill,duplicate --yes --json"

pytestmark = pytest.mark.slow


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={"PATH": "", "PAYMENTS": str(folder / "payments.jsonl")},
        capture_output=True,
        text=True,
        check=False,
    )


def _chaos(folder: Path, command: str) -> tuple[int, dict[str, object]]:
    ran = _run(folder, "segue", *shlex.split(command))
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


async def _record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "agents.toml").write_text(AGENTS)
    (folder / "payments.py").write_text((HERE / "payments.py").read_text())
    monkeypatch.setenv("PAYMENTS", str(folder / "payments.jsonl"))
    monkeypatch.syspath_prepend(str(folder))
    calls = [{"name": name, "args": {"order": 1}, "id": name} for name in ("pay", "pay_once")]
    replies = [AIMessage("", tool_calls=[call]) for call in calls]
    (agent,) = segue.load_agents(folder / "agents.toml")
    agent = agent.model_copy(update={"model": ScriptedChatModel([*replies, AIMessage("Paid.")])})
    async with segue.open(folder / "segue.db", agents=[agent]) as app:
        assert (await app.ask("Pay", session_id="bought", agent="shop"))["status"] == "done"


async def test_a_double_payment_is_found_and_repeated_and_a_keyed_one_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _record(tmp_path, monkeypatch)
    code, made = _chaos(tmp_path, COMMAND)
    (found,) = made["findings"]  # type: ignore[misc]
    assert code == 1
    assert (found["tool"], found["kind"], found["fault"]) == ("pay", "not_idempotent", "duplicate")  # type: ignore[index]
    again = str(found["repeat"]).removeprefix("segue ") + " --yes --json"  # type: ignore[index]
    code, repeated = _chaos(tmp_path, again)
    assert (code, repeated["findings"]) == (1, [found])


async def test_tools_of_production_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _record(tmp_path, monkeypatch)
    (tmp_path / "agents.toml").write_text("production = true\n" + AGENTS)
    with pytest.raises(AssertionError, match="has production = true"):
        _chaos(tmp_path, COMMAND)


async def test_a_hunt_goes_on_where_its_budget_ended_until_the_code_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _record(tmp_path, monkeypatch)
    command = COMMAND.replace("kill,duplicate", "duplicate")
    first = _run(tmp_path, "segue", *shlex.split(f"{command} --budget 1s"))
    second = _run(tmp_path, "segue", *shlex.split(command))
    assert len(json.loads(first.stdout)["left"]) == 1
    assert "Continuing after 1 finished runs" in second.stderr and "Continuing" not in first.stderr
    assert [found["tool"] for found in json.loads(second.stdout)["findings"]] == ["pay"]

    once = "    if {'order': order} not in _rows():\n        _add(order=order)\n"
    fixed = (tmp_path / "payments.py").read_text().replace("    _add(order=order)\n", once)
    (tmp_path / "payments.py").write_text(fixed)
    (tmp_path / "test_tools.py").write_text(
        "def test_tools(segue_chaos):\n    segue_chaos('segue.db', 'bought', agents='agents.toml', output='chaos', "
        "world='payments:World', faults=['duplicate'])\n"
    )
    assert "1 passed" in _run(tmp_path, "pytest", "-p", "no:cacheprovider", "test_tools.py").stdout


async def test_a_fixture_fails_with_what_was_found_and_a_refused_host_is_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _record(tmp_path, monkeypatch)
    source = (tmp_path / "payments.py").read_text()
    call = 'def pay(order: int) -> str:\n    """Pay an order."""\n'
    reach = "    import socket\n    socket.create_connection(('bank.example', 443), timeout=1)\n"
    (tmp_path / "payments.py").write_text(source.replace(call, call + reach))
    refused = _run(tmp_path, "segue", *shlex.split(f"{COMMAND} --refuse-host bank.example"))
    assert refused.returncode == 2
    assert "tried to connect to bank.example, which is refused. No connection was made" in " ".join(
        refused.stderr.split()
    )

    (tmp_path / "payments.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nsegue_agents = agents.toml\n")
    (tmp_path / "test_tools.py").write_text(
        "def test_tools(segue_chaos):\n"
        "    segue_chaos('segue.db', 'bought', world='payments:World', faults=['duplicate'])\n"
    )
    said = _run(tmp_path, "pytest", "-p", "no:cacheprovider", "test_tools.py").stdout
    assert "ToolsUnsafe: pay: not idempotent" in said and "1 failed" in said


async def test_an_empty_file_that_a_full_disk_leaves_behind_hides_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _record(tmp_path, monkeypatch)
    source = (tmp_path / "payments.py").read_text()
    changed = source.replace('_file().write_text("")', "_file().unlink(missing_ok=True)").replace(
        'return {"payments": _rows()}', 'return {"payments": _rows()} if _file().exists() else {}'
    )
    (tmp_path / "payments.py").write_text(changed)
    code, made = _chaos(tmp_path, COMMAND.replace("kill,duplicate", "disk"))
    assert (code, made["findings"]) == (0, [])


async def test_a_lock_that_a_killed_call_leaves_behind_is_found_although_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _record(tmp_path, monkeypatch)
    source = (tmp_path / "payments.py").read_text()
    pays = '@tool(idempotent=True)\ndef pay(order: int) -> str:\n    """Pay an order."""\n    _add(order=order)\n'
    locked = pays.replace("idempotent=True", "").replace(
        "    _add(order=order)\n",
        "    lock = _file().with_suffix('.lock')\n    lock.mkdir()\n    _add(order=order)\n    lock.rmdir()\n",
    )
    snapshot = 'return {"payments": _rows()}'
    shown = 'return {"payments": _rows(), "locks": {lock.name: [] for lock in _file().parent.glob("*.lock")}}'
    reset = '_file().write_text("")\n'
    cleared = f"{reset}        [lock.rmdir() for lock in _file().parent.glob('*.lock')]\n"
    changed = source.replace(pays, locked).replace(snapshot, shown).replace(reset, cleared)
    (tmp_path / "payments.py").write_text(changed)
    code, made = _chaos(tmp_path, COMMAND.replace("kill,duplicate", "kill"))
    found = [each for each in made["findings"] if each["tool"] == "pay"]  # type: ignore[attr-defined]
    assert code == 1 and {each["fault"] for each in found} == {"kill-line"}
    assert any("locks.payments.lock" in each["detail"] for each in found)
