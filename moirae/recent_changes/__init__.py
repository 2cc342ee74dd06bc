"""What changed near an alert in time and place, and how often such changes came before alerts."""

from moirae.recent_changes.describe import describe_change
from moirae.recent_changes.load import RecentChanges, UnreadChanges, load_recent_changes
from moirae.recent_changes.ranking import RankedChange
from moirae.recent_changes.statistics import HourCounts

__all__ = [
    "HourCounts",
    "RankedChange",
    "RecentChanges",
    "UnreadChanges",
    "describe_change",
    "load_recent_changes",
]
