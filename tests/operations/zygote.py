"""The process that the month's processes are forked from: see `segue.testing.chaos.processes`."""

from segue.testing.chaos import processes
from tests.crash import warm
from tests.operations.process import live

if __name__ == "__main__":
    warm.up()
    processes.serve(live)
