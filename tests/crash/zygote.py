"""The process that the harness's children are forked from: see `segue.testing.chaos.processes`.

A child plays a scenario, races where its orders name a `letterbox`, or runs a command where they name an `errand`, and
works at a session with labels where they ask for `labels`.
"""

from typing import Any

from segue.testing.chaos import processes

from . import (
    clock,  # noqa: F401 - before anything keeps a reference to the real clock
    errand,
    labels,
    warm,
)
from .child import carry_on
from .worker import race


def main() -> None:
    warm.up()
    processes.serve(_work)


def _work(orders: dict[str, Any]) -> None:
    if "letterbox" in orders:
        race(orders)
    elif "errand" in orders:
        errand.run(orders)
    elif "labels" in orders:
        labels.run(orders)
    else:
        carry_on(orders)


if __name__ == "__main__":
    main()
