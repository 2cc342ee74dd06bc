"""Rows that came late and that recalls about alerts read: live, they may have come too late."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from archiver.read import Reader
from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.evaluation.plan import ActiveRule
from moirae.rules.requests import build_questions
from recall.engines import DuckDBStatements, Statement, scan_files
from recall.requests import SqlQuestion


class LateRowFinder:
    """Counts late rows in the histories of recalls. The times of all late rows are in memory."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._duckdb = DuckDBStatements()
        self._times: dict[str, Sequence[Micros]] = {}

    def find(self, rule: ActiveRule, times: Iterable[Micros]) -> dict[Micros, Mapping[str, int]]:
        """How many late rows each SQL recall reads before events at some times.

        Recalls and times without any are left out.
        """
        questions = {
            name: question
            for name, question in build_questions(rule.definition, rule.tables).items()
            if isinstance(question, SqlQuestion)
        }
        counts_by_time: dict[Micros, Mapping[str, int]] = {}
        for ts in times:
            counts = {name: self._count(question, ts) for name, question in questions.items()}
            late = {name: count for name, count in counts.items() if count}
            if late:
                counts_by_time[ts] = late
        return counts_by_time

    def _count(self, question: SqlQuestion, ts: Micros) -> int:
        total = 0
        for stream in question.streams:
            late_times = self._late_times(stream)
            for start, end in question.asked_ranges(ts):
                first = 0 if start is None else bisect_left(late_times, start)
                total += bisect_left(late_times, ts if end is None else end) - first
        return total

    def _late_times(self, stream: str) -> Sequence[Micros]:
        """Ascending."""
        if stream not in self._times:
            self._times[stream] = self._read(stream)
        return self._times[stream]

    def _read(self, stream: str) -> Sequence[Micros]:
        if stream not in self._reader.streams:
            return ()
        snapshot = self._reader.snapshot(stream, TimeRange(None))
        if not snapshot.files:
            return ()
        time = self._reader.schema(stream).time
        text = f'SELECT epoch_us("{time}") AS at FROM {scan_files(snapshot)} WHERE _late ORDER BY 1'
        times: Sequence[Micros] = self._duckdb.run(Statement(text))["at"].to_pylist()
        return times
