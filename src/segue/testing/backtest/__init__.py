"""Backtests: what an agent would do otherwise in recorded sessions, without any effect."""

from .comparison import Difference, Effects, TaskReport, Verdict
from .recording import Restored, UnfinishedTask, check_unfinished
from .run import Backtest, BacktestOptions, backtest

__all__ = [
    "Backtest",
    "BacktestOptions",
    "Difference",
    "Effects",
    "Restored",
    "TaskReport",
    "UnfinishedTask",
    "Verdict",
    "backtest",
    "check_unfinished",
]
