"""Scheduling of history queries: stride scheduling, order of chunks, concurrency and forecasts."""

from recall.scheduling.chunk_order import interleave, rank_pieces
from recall.scheduling.concurrency import CpuTimes, adjust_concurrency
from recall.scheduling.forecast import RemainingWork, forecast_finishes
from recall.scheduling.stride import MAX_RUN_SECONDS, StrideScheduler, choose_run_length

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
