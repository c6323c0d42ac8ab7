"""Backtests: what an agent would do otherwise in recorded sessions, without any effect."""

from .comparison import Difference, Effects, TaskReport, Verdict
from .confirmation import Confirmation
from .recording import Restored, UnfinishedTask, check_unfinished
from .run import Backtest, BacktestOptions, Cost, backtest, estimate

__all__ = [
    "Backtest",
    "BacktestOptions",
    "Confirmation",
    "Cost",
    "Difference",
    "Effects",
    "Restored",
    "TaskReport",
    "UnfinishedTask",
    "Verdict",
    "backtest",
    "check_unfinished",
    "estimate",
]
