"""The past of rules: events and contexts that a rule would have produced, chunk by chunk."""

from moirae.history.builder import HistoryBuilder
from moirae.history.derived_streams import select_archived_streams
from moirae.history.engines import PastEngines
from moirae.history.finder import PastFinder, RelationVersions
from moirae.history.plan import event_overlap, undecided_duration
from moirae.history.progress import (
    format_progress,
    list_index_progress,
    list_view_progress,
)
from moirae.history.summaries import WantedSummaries, explain_summary

__all__ = [
    "HistoryBuilder",
    "PastEngines",
    "PastFinder",
    "RelationVersions",
    "WantedSummaries",
    "event_overlap",
    "explain_summary",
    "format_progress",
    "list_index_progress",
    "list_view_progress",
    "select_archived_streams",
    "undecided_duration",
]
