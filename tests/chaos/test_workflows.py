import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AGENTS = Path(__file__).parent / "staging" / "workflows.toml"
SCENARIOS = {
    "travel_change:change_without_fee": "change_booking",
    "clinic_appointment:book_internal_medicine": "book_appointment",
    "device_return:refund_unwanted": "create_return",
}
"""A scenario of each shipped workflow, and the call of it that changes something."""


@pytest.mark.slow
def test_a_scenario_of_each_shipped_workflow_is_clean(tmp_path: Path) -> None:
    words = [word for name in SCENARIOS for word in ("--scenarios", name)]
    words += ["--agents", str(AGENTS), "--world", "tests.chaos.staging.workflows:Systems", "--yes", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "segue", "chaos", *words, "--output", str(tmp_path / "runs")],
        env={**os.environ, "STAGING": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout, ran.stderr
    made = json.loads(ran.stdout)
    assert (ran.returncode, made["findings"], made["failed"], made["notes"]) == (0, [], {}, [])
    for name, effect in SCENARIOS.items():
        runs = (tmp_path / "runs" / name.replace(":", ".") / "runs" / "runs.jsonl").read_text()
        assert f"{effect}#1/kill-after-call" in runs
