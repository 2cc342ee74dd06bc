"""The recall worker: active tasks, their history queries and comparisons, and the main loop."""

from recall.worker.key_counts import KeyCounts
from recall.worker.manager import ManagerConfig, RecallManager
from recall.worker.metrics import RecallMetrics
from recall.worker.run import RecallConfig, run_task, run_worker

__all__ = [
    "KeyCounts",
    "ManagerConfig",
    "RecallConfig",
    "RecallManager",
    "RecallMetrics",
    "run_task",
    "run_worker",
]
