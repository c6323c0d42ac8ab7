"""What `segue chaos` finds in 53 tools, thirty of which have a fault; writes chaos.md here."""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests import postgres
from tests.chaos.staging import services
from tests.chaos.staging.sessions import AGENTS, CASES, MORE, Case, record

HERE = Path(__file__).parent
AT_ONCE = 2


@dataclass(frozen=True)
class Measured:
    """What one command said of a tool."""

    case: Case
    runs: int
    kinds: dict[str, str]
    """The kinds that were found, with the faults that showed them."""
    seconds: float

    @property
    def is_found(self) -> bool:
        return self.case.kind in self.kinds

    @property
    def alarms(self) -> list[str]:
        """Kinds that are no fault of the tool."""
        return sorted(self.kinds.keys() - {self.case.kind, self.case.advice, *self.case.also})


def measure(case: Case, folder: Path) -> Measured:
    """Run the command for one tool."""
    words = ["chaos", case.tool, "--agents", str(AGENTS), "--world", case.worlds, "--yes", "--json", "--jobs", "1"]
    words += ["--db", str(folder / "segue.db"), "--output", str(folder / "runs" / case.tool)]
    began = time.perf_counter()
    ran = subprocess.run([sys.executable, "-m", "segue", *words], capture_output=True, text=True, check=False)
    if not ran.stdout:
        raise SystemExit(f"{case.tool}: {ran.stderr}")
    made = json.loads(ran.stdout)
    kinds = {finding["kind"]: finding["fault"] for finding in made["findings"]}
    found = Measured(case, made["runs"], kinds, time.perf_counter() - began)
    print(f"{case.tool:16} {made['runs']:3} runs {found.seconds:5.1f} s", made["findings"], flush=True)
    return found


def report(found: Sequence[Measured], seconds: float, left: Sequence[str]) -> str:
    """The page."""
    planted = [each for each in found if each.case.kind]
    advised = [each for each in found if each.case.advice]
    lines = [
        "# What segue chaos finds",
        "",
        f"Written by `python -m benchmarks.chaos`, on {os.cpu_count()} cores with {AT_ONCE} commands at once.",
        "",
        f"- Found: {sum(each.is_found for each in planted)} of {len(planted)} planted faults.",
        f"- False alarms: {sum(len(each.alarms) for each in found)}.",
        f"- Advice: {sum(each.case.advice in each.kinds for each in advised)} of {len(advised)}.",
        f"- {sum(each.runs for each in found)} runs in {seconds:.0f} seconds, {_processor():.0f} of the processor; "
        f"the machine's load was {os.getloadavg()[2]:.0f}.",
        *(f"- Left out: {name}." for name in left),
        "",
        "| tool | planted | found | by | false alarms | runs | seconds |",
        "| --- | --- | --- | --- | --- | --: | --: |",
    ]
    for each in found:
        kind = each.case.kind or each.case.advice
        cells = (
            f"`{each.case.tool}`",
            f"`{kind}`" if kind else "",
            ("yes" if kind in each.kinds else "no") if kind else "",
            each.kinds.get(kind, ""),
            ", ".join(f"`{kind}`" for kind in each.alarms),
            str(each.runs),
            f"{each.seconds:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", help="some of the tools; then no page is written")
    given = parser.parse_args()
    cases = tuple(case for case in (*CASES, *MORE) if not given.tools or case.tool in given.tools)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="segue-chaos-")))
        os.environ |= {"STAGING": str(folder / "staging"), **stack.enter_context(services.started())}
        os.environ["STAGING_POSTGRES"] = stack.enter_context(postgres.started()).url()
        asyncio.run(record(folder / "segue.db", cases))
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = [*pool.map(lambda case: measure(case, folder), cases)]
        text = report(found, time.perf_counter() - began, ())
    print(text)
    if not given.tools:
        (HERE / "chaos.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
