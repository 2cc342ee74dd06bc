"""Scheduling of history queries: stride scheduling, order of pieces, concurrency and forecasts.

No I/O: times and loads are arguments.
"""

from recall.scheduling.chunk_order import (
    NO_VALUES,
    ValueRange,
    enclose_values,
    interleave,
    rank_by_extremes,
    rank_pieces,
)
from recall.scheduling.concurrency import CpuTimes, adjust_concurrency
from recall.scheduling.forecast import RemainingWork, forecast_finishes
from recall.scheduling.run_length import find_prefix_end
from recall.scheduling.statistics import TaskStatistics, TurnStatistics, share_query
from recall.scheduling.stride import StrideScheduler
from recall.scheduling.turn_plan import (
    EngineSlots,
    PlannedTask,
    SchedulableTask,
    Turn,
    plan_turns,
    shorten_turn,
)

__all__ = [
    "NO_VALUES",
    "CpuTimes",
    "EngineSlots",
    "PlannedTask",
    "RemainingWork",
    "SchedulableTask",
    "StrideScheduler",
    "TaskStatistics",
    "Turn",
    "TurnStatistics",
    "ValueRange",
    "adjust_concurrency",
    "enclose_values",
    "find_prefix_end",
    "forecast_finishes",
    "interleave",
    "plan_turns",
    "rank_by_extremes",
    "rank_pieces",
    "share_query",
    "shorten_turn",
]
