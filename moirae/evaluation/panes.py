"""Sliding windows merged from panes in memory, so that each row is aggregated once.

Panes cover time before the watermark, whose rows do not change any more; late rows are no input of
windows. Panes are lost with the process and rebuilt from the archive. See
`recall.query.plain.PanedQuery` for the method.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.evaluation.duckdb_rules import DuckDBRules, parse_event_rows
from moirae.evaluation.engine import (
    Declined,
    EvaluationRequest,
    Events,
    Outcome,
    RuleEngine,
    RuleEventRows,
)
from moirae.evaluation.plan import ActiveRule, RuleSlice, RuleVersion
from moirae.evaluation.rule_groups import RuleGroup
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.plain import PanedQuery

_LOG = structlog.get_logger()

_MAX_BYTES = 256 << 20  # of Arrow memory for all panes; windows whose panes do not fit have none
# Rows in memory, counted once for each window that contains them, up to which one query over all of
# them is faster than one over new rows and one over panes.
_MIN_ROWS = 100_000
_MIN_TIME = -(1 << 62)  # microseconds, before every event time

_PaneKey = tuple[object, ...]
RowReducer = Callable[[Sequence[RuleGroup], str, pa.Table], dict[RuleGroup, pa.Table]]
"""The rows of a stream that groups need; groups that need none are left out."""


class PaneInput(Protocol):
    """Source of on-time rows."""

    def read_tables(self, stream: str, time_range: TimeRange) -> Iterable[pa.Table]:
        """Rows with event times in a range, in any number of tables."""

    def count_in_memory(self, stream: str, time_range: TimeRange) -> int | None:
        """About how many rows a range has, if memory holds all of them; else None."""


@dataclass
class _CachedPanes:
    """Partial aggregates of rows with event times in [since, until), in microseconds.

    `since` None: of all rows before `until`; `until` None, too: of no rows yet. `readers`: for each
    rule that reads the panes, the time from which it reads and the size of its windows.
    """

    since: Micros | None
    until: Micros | None
    tables: list[pa.Table] = field(default_factory=list)
    readers: dict[RuleVersion, tuple[int | None, int]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Arrow memory of the panes."""
        return sum(table.nbytes for table in self.tables)

    def covers(self, since: Micros | None) -> bool:
        """Whether later rows are all that panes from `since` on still lack."""
        if since is None or self.since is None:
            return self.since is None
        return self.until is not None and self.since <= since <= self.until

    def drop_unneeded(self) -> None:
        """Drop panes before the time from which any rule reads.

        A rule that lags behind the first one by more than the longest window does not count.
        """
        needs: list[int] = []
        longest = 0
        for since, window_size in self.readers.values():
            needs.append(_MIN_TIME if since is None else since)
            longest = max(longest, window_size)
        since = max(min(needs), max(needs) - longest)
        if self.since is None or since > self.since:
            self.since = since
            filtered: list[pa.Table] = []
            for table in self.tables:
                filtered.append(table.filter(pc.greater_equal(table["_w"], since)))
            self.tables = filtered

    def extend_to(self, until: Micros) -> None:
        """Record that all rows before `until` are aggregated; merge the tables."""
        if self.tables:
            self.tables = [pa.concat_tables(self.tables).combine_chunks()]
        self.until = until


@dataclass(frozen=True)
class _WindowRequest:
    """The windows of a group within [since, until), in microseconds.

    `since` None: all windows that end by `until`.
    """

    group: RuleGroup
    paned_query: PanedQuery
    key: _PaneKey
    stream: str
    since: Micros | None
    until: Micros


class PaneCache(RuleEngine):
    """The panes of all active rules."""

    def __init__(
        self,
        duckdb: DuckDBRules,
        rows: PaneInput,
        reduce: RowReducer | None = None,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        """`reduce`: finds the rows that groups need."""
        self._reduce = reduce
        self._duckdb = duckdb
        self._rows = rows
        self._max_bytes = max_bytes
        self._cached: dict[_PaneKey, _CachedPanes] = {}
        self._key_by_rule: dict[RuleVersion, _PaneKey] = {}
        # Evicted panes, with the end of the windows at that time: later panes may fit again.
        self._evicted_until: dict[_PaneKey, int] = {}

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """See `RuleEngine`: sliding windows whose panes fit into memory, and save time."""
        rule_slice = request.rule_slice
        if rule_slice is None or rule_slice.range.end is None:
            return []  # windows of a slice without end are open
        selected: list[RuleGroup] = []
        for group in groups:
            window_request = _build_request(group, rule_slice)
            if window_request is not None and self._is_worthwhile(window_request, rule_slice):
                selected.append(group)
        return selected

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`. Groups that fail are declined."""
        assert request.rule_slice is not None
        window_requests: list[_WindowRequest] = []
        for group in groups:
            window_request = _build_request(group, request.rule_slice)
            assert window_request is not None
            window_requests.append(window_request)
            self._register_readers(group.rules, window_request)
        self._advance(window_requests)
        for window_request in window_requests:
            group = window_request.group
            if window_request.key not in self._cached:
                yield Declined([group], request, "panes that do not fit into memory")
                continue
            try:
                event_rows = self._merge_windows(window_request)
            except SparkRequired as error:
                yield Declined([group], request, str(error))
            else:
                yield Events([group], event_rows)

    def get_memory(self) -> Mapping[str, int]:
        """The bytes of panes by rule; those that several rules read are shared evenly."""
        memory: dict[str, int] = {}
        for panes in self._cached.values():
            for version in panes.readers:
                share = panes.size_bytes // len(panes.readers)
                memory[version.rule] = memory.get(version.rule, 0) + share
        return memory

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop the panes that only inactive rules read."""
        active_versions = {rule.rule_version for rule in active_rules}
        for inactive in self._key_by_rule.keys() - active_versions:
            self._unregister_reader(inactive)
        self._evicted_until.clear()

    def _is_worthwhile(self, request: _WindowRequest, rule_slice: RuleSlice) -> bool:
        """Whether panes fit into memory and are faster than aggregating all rows."""
        evicted_until = self._evicted_until.get(request.key)
        if evicted_until is not None and (request.since is None or request.since < evicted_until):
            return False
        row_count = self._rows.count_in_memory(request.stream, rule_slice.input_range)
        if row_count is None:
            return True
        window = request.paned_query.window
        return row_count * window.size > _MIN_ROWS * window.slide

    def _register_readers(self, rules: Iterable[ActiveRule], request: _WindowRequest) -> None:
        """Record that rules read the panes of a request, and no others."""
        panes = self._cached.get(request.key)
        if panes is None or not panes.covers(request.since):
            panes = _CachedPanes(request.since, request.since)
            self._cached[request.key] = panes
        window_size = request.paned_query.window.size
        for rule in rules:
            if self._key_by_rule.get(rule.rule_version, request.key) != request.key:
                self._unregister_reader(rule.rule_version)
            self._key_by_rule[rule.rule_version] = request.key
            panes.readers[rule.rule_version] = request.since, window_size
        if request.since is not None:
            panes.drop_unneeded()

    def _unregister_reader(self, rule_version: RuleVersion) -> None:
        pane_key = self._key_by_rule.pop(rule_version)
        panes = self._cached.get(pane_key)
        if panes is None:
            return
        panes.readers.pop(rule_version, None)
        if not panes.readers:
            del self._cached[pane_key]

    def _advance(self, requests: Sequence[_WindowRequest]) -> None:
        """Aggregate the rows that panes lack; those that lack the same rows share one read."""
        groups: dict[tuple[str, TimeRange], dict[_PaneKey, _WindowRequest]] = {}
        for request in requests:
            missing = TimeRange(self._cached[request.key].until, request.until)
            if not missing.is_empty:
                groups.setdefault((request.stream, missing), {})[request.key] = request
        for (stream, missing), requests_by_key in groups.items():
            try:
                for rows in self._rows.read_tables(stream, missing):
                    self._aggregate_all(stream, rows, requests_by_key)
            except (OSError, pa.ArrowException) as error:
                # Spark evaluates the windows then, and reports a file that cannot be read.
                for key, request in requests_by_key.items():
                    self._evict(key, request.until, str(error))
            for key, request in requests_by_key.items():
                if key in self._cached:
                    self._cached[key].extend_to(request.until)

    def _aggregate_all(
        self, stream: str, rows: pa.Table, requests: Mapping[_PaneKey, _WindowRequest]
    ) -> None:
        """Add the rows to all panes that need any of them."""
        groups = [request.group for request in requests.values()]
        tables = dict.fromkeys(groups, rows)
        if self._reduce is not None:
            tables = self._reduce(groups, stream, rows)
        for key, request in requests.items():
            if key in self._cached and request.group in tables:
                self._aggregate(request, tables[request.group])

    def _aggregate(self, request: _WindowRequest, rows: pa.Table) -> None:
        """Add rows to panes. Panes that fail or exceed the memory limit are evicted."""
        query = request.paned_query
        sql = self._duckdb.register_constants(request.group).join(query.partial)
        try:
            # Relations are joined to windows only.
            partials = self._duckdb.run_step(
                request.group, sql, {query.stream: rows}, has_join=False
            )
        except SparkRequired as error:
            self._evict(request.key, request.until, str(error))
            return
        panes = self._cached[request.key]
        panes.tables.append(partials)
        while sum(cached.size_bytes for cached in self._cached.values()) > self._max_bytes:
            # New panes above the average yield to those that fitted before.
            average = self._max_bytes / len(self._cached)
            if request.key in self._cached and panes.size_bytes > average:
                evicted_key = request.key
            else:
                evicted_key = max(self._cached, key=lambda key: self._cached[key].size_bytes)
            self._evict(evicted_key, request.until, "too large")

    def _evict(self, key: _PaneKey, until: Micros, reason: str) -> None:
        """Drop panes. Windows that start before `until` are aggregated from all their rows."""
        panes = self._cached.pop(key, None)
        if panes is None:
            return
        self._evicted_until[key] = until
        rule_names = [name for name, _ in panes.readers]
        _LOG.warning("panes evicted", action="panes_evicted", rules=rule_names, error=reason)

    def _merge_windows(self, request: _WindowRequest) -> RuleEventRows:
        tables = self._cached[request.key].tables
        if not tables:
            return []
        query = request.paned_query
        window = query.window
        first_start = _MIN_TIME
        if request.since is not None:
            first_start = _round_up(request.since, window.start_period, window.offset)
        bounds = {sql_names.LOW: [first_start], sql_names.HIGH: [request.until - window.size]}
        sql = self._duckdb.register_constants(request.group).join(query.merge)
        windows = self._duckdb.run_step(
            request.group,
            sql,
            {sql_names.PANES_TABLE: tables[0], sql_names.WINDOW_BOUNDS_TABLE: pa.table(bounds)},
            has_join=request.group.plain_query.has_relations,
        )
        return parse_event_rows(request.group, windows)


def _build_request(group: RuleGroup, rule_slice: RuleSlice) -> _WindowRequest | None:
    """The windows of a group in the input of a slice; None: its windows do not slide."""
    paned_query = None if group.query is None else group.query.paned_query
    start, end = rule_slice.input_range
    if paned_query is None or end is None:
        return None
    # Panes that depend on constants belong to these rules in this order.
    rule_versions: tuple[RuleVersion, ...] = ()
    if len(paned_query.partial) > 1:
        rule_versions = tuple(rule.rule_version for rule in group.rules)
    (stream,) = group.streams
    offset = paned_query.window.offset
    pane_length = paned_query.pane_length
    until = end - (end - offset) % pane_length
    since = None
    if start is not None:
        since = _round_up(start, pane_length, offset)
        until = max(until, since)
    return _WindowRequest(
        group=group,
        paned_query=paned_query,
        key=(paned_query.partial, rule_versions),
        stream=stream,
        since=since,
        until=until,
    )


def _round_up(time: Micros, step: Micros, offset: Micros) -> Micros:
    """The first of the times `offset` plus multiples of `step` that is not before `time`."""
    return time + (offset - time) % step
