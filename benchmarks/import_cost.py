"""What `import segue` adds to the start of an interpreter, as a ratio to a start that imports nothing."""

import statistics
import subprocess
import sys
import time

RUNS = 40


def seconds(statement: str) -> float:
    """Wall-clock time of one fresh interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    statements = ["pass", "import segue", "import pydantic", "import langgraph.graph"]
    times: dict[str, list[float]] = {statement: [] for statement in statements}
    for run in range(RUNS + 1):
        for statement in statements:  # in turn, so that a busy machine slows all of them alike
            taken = seconds(statement)
            if run:  # the first round only fills the caches
                times[statement].append(taken)
    bare = statistics.median(times["pass"])
    for statement in statements:
        median = statistics.median(times[statement])
        print(f"{statement:24} {median * 1000:7.1f} ms  x {median / bare:5.2f}  + {(median - bare) * 1000:7.1f} ms")


if __name__ == "__main__":
    main()
