"""Backtests: what an agent would do otherwise in recorded sessions, without any effect."""

from .comparison import Difference, Effects, TaskReport, Verdict
from .run import Backtest, BacktestOptions, backtest
from .unfinished import Restored, UnfinishedTask, check_unfinished

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
