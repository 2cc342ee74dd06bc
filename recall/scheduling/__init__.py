"""Scheduling of history queries: stride scheduling, order of pieces, concurrency and forecasts.

No I/O: times and loads are arguments.
"""

from recall.scheduling.chunk_order import interleave, rank_pieces
from recall.scheduling.concurrency import CpuTimes, adjust_concurrency
from recall.scheduling.forecast import RemainingWork, forecast_finishes
from recall.scheduling.run_length import MAX_RUN_SECONDS, choose_run_length
from recall.scheduling.stride import StrideScheduler

__all__ = [
    "CpuTimes",
    "MAX_RUN_SECONDS",
    "RemainingWork",
    "StrideScheduler",
    "adjust_concurrency",
    "choose_run_length",
    "forecast_finishes",
    "interleave",
    "rank_pieces",
]
