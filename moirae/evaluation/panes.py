"""Sliding windows judged by panes that are kept in memory: each row is aggregated once, a window
merged of its panes.

Panes cover time before the watermark, whose rows do not change any more; what comes late is no
input of a window. They are lost with the process, and made again of the archive. See
`recall.query.plain.Paned` for the method.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from moirae.evaluation.batches import RuleBatch, RuleBatches
from moirae.evaluation.local import LocalEvaluator, RuleEventRows, parse_event_rows
from moirae.evaluation.plan import ActiveRule, RuleSlice
from recall.query import sql_names
from recall.query.plain import PanedQuery

_LOG = structlog.get_logger()

# What all panes may take, in bytes of Arrow memory. Windows whose panes do not fit are aggregated
# whole.
_MAX_BYTES = 256 << 20
# Rows in memory, counted once for each window that holds them, up to which one query over all of
# them is done sooner than two, one over new rows and one over panes.
_MIN_ROWS = 100_000
# Before all time, in microseconds.
_MIN_TIME = -(1 << 62)

_RuleKey = tuple[str, str]
_PaneKey = tuple[object, ...]


class PaneInput(Protocol):
    """Where on-time rows come from."""

    def read_tables(self, stream: str, low: int | None, high: int) -> Iterable[pa.Table]:
        """Rows with event times in [low, high), microseconds, in any number of tables."""

    def count_in_memory(self, stream: str, low: int | None, high: int | None) -> int | None:
        """About how many these are, where all of them are in memory; else None."""


@dataclass
class _CachedPanes:
    """Partial aggregates of the rows with event times in [since, to), microseconds; `since` None:
    of all before `to`, and there `to` None: of none yet. `needs`: of each rule that reads them,
    from when on, and how long its windows are.
    """

    since: int | None
    until: int | None
    rows: list[pa.Table] = field(default_factory=list)
    readers: dict[_RuleKey, tuple[int | None, int]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What they take."""
        return sum(rows.nbytes for rows in self.rows)

    def covers(self, since: int | None) -> bool:
        """Whether panes from `since` on need only be added to."""
        if since is None or self.since is None:
            return self.since is None
        return self.until is not None and self.since <= since <= self.until

    def drop_unneeded(self) -> None:
        """Panes that nobody needs any more; who is behind the first by more than the longest window
        is left behind.
        """
        needs = [_MIN_TIME if since is None else since for since, _ in self.readers.values()]
        longest = max(size for _, size in self.readers.values())
        since = max(min(needs), max(needs) - longest)
        if self.since is None or since > self.since:
            self.since = since
            self.rows = [rows.filter(pc.greater_equal(rows["_w"], since)) for rows in self.rows]


@dataclass(frozen=True)
class _WindowRequest:
    """Windows that a group looks at: those within [since, to), microseconds; `since` None: all
    before `to`.
    """

    batch: RuleBatch
    paned: PanedQuery
    key: _PaneKey
    stream: str
    since: int | None
    until: int


class PaneCache:
    """The panes of all rules that run. `limit`: bytes that they may take."""

    def __init__(self, local: LocalEvaluator, rows: PaneInput, max_bytes: int = _MAX_BYTES) -> None:
        self._local = local
        self._rows = rows
        self._max_bytes = max_bytes
        self._cached: dict[_PaneKey, _CachedPanes] = {}
        self._key_by_rule: dict[_RuleKey, _PaneKey] = {}
        # Panes that could not be kept, and the end of the windows at that time: once these are past
        # they may fit.
        self._evicted_until: dict[_PaneKey, int] = {}

    def evaluate(
        self, rule_slice: RuleSlice, batches: RuleBatches
    ) -> list[tuple[RuleBatch, RuleEventRows]]:
        """What groups over sliding windows find in a slice's input, with the place of the rule.
        Those that failed, whose panes are too large, or whose rows are few are left out.
        """
        wanted = [
            one
            for group in batches.batches
            if (one := _build_request(group, rule_slice)) and self._is_worthwhile(one, rule_slice)
        ]
        for one in wanted:
            self._register_readers(
                [rule_slice.rules[place] for place in one.batch.rule_indexes], one
            )
        self._advance(wanted)
        answers = []
        for one in wanted:
            if one.key in self._cached:
                with suppress(duckdb.Error, pa.ArrowException):  # as in `LocalJudge.found`
                    answers.append((one.batch, self._merge_windows(one)))
        return answers

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Other rules run than before."""
        for gone in self._key_by_rule.keys() - {rule.key for rule in active_rules}:
            self._unregister_reader(gone)
        self._evicted_until.clear()

    def _is_worthwhile(self, wanted: _WindowRequest, part: RuleSlice) -> bool:
        """Whether panes are to be kept."""
        until = self._evicted_until.get(wanted.key)
        if until is not None and (wanted.since is None or wanted.since < until):
            return False
        rows = self._rows.count_in_memory(wanted.stream, part.input_low, part.input_high)
        size, slide, _ = wanted.paned.window
        return rows is None or rows * size > _MIN_ROWS * slide

    def _register_readers(self, rules: Sequence[ActiveRule], wanted: _WindowRequest) -> None:
        """These rules read these panes, and no others."""
        kept = self._cached.get(wanted.key)
        if kept is None or not kept.covers(wanted.since):
            kept = self._cached[wanted.key] = _CachedPanes(wanted.since, wanted.since)
        for rule in [one.key for one in rules]:
            if self._key_by_rule.get(rule, wanted.key) != wanted.key:
                self._unregister_reader(rule)
            self._key_by_rule[rule] = wanted.key
            kept.readers[rule] = wanted.since, wanted.paned.window[0]
        if wanted.since is not None:
            kept.drop_unneeded()

    def _unregister_reader(self, rule: _RuleKey) -> None:
        """A rule reads its panes no more."""
        key = self._key_by_rule.pop(rule)
        kept = self._cached.get(key)
        if kept is not None:
            kept.readers.pop(rule, None)
            if not kept.readers:
                del self._cached[key]

    def _advance(self, wanted: Sequence[_WindowRequest]) -> None:
        """Aggregate the rows that the panes lack. Who lacks the same reads them together."""
        lacking: dict[tuple[str, int | None, int], dict[_PaneKey, _WindowRequest]] = {}
        for one in wanted:
            known = self._cached[one.key].until
            if known is None or known < one.until:
                lacking.setdefault((one.stream, known, one.until), {})[one.key] = one
        for (stream, low, high), some in lacking.items():
            try:
                for rows in self._rows.read_tables(stream, low, high):
                    for one in some.values():
                        if one.key in self._cached:
                            self._aggregate(one, rows)
            except (
                OSError,
                pa.ArrowException,
            ) as error:  # Spark will say what is wrong with a file
                for one in some.values():
                    self._evict(one.key, one.until, str(error))
            for kept in [self._cached[key] for key in some if key in self._cached]:
                kept.rows, kept.until = (
                    [pa.concat_tables(kept.rows).combine_chunks()] if kept.rows else [],
                    high,
                )

    def _aggregate(self, wanted: _WindowRequest, rows: pa.Table) -> None:
        """Aggregate rows into panes. If that cannot be there are none."""
        sql = self._local.register_constants(wanted.batch).join(wanted.paned.partial)
        try:
            more = self._local.query(sql, {wanted.paned.stream: rows}, {})
        except (duckdb.Error, pa.ArrowException) as error:
            self._evict(wanted.key, wanted.until, str(error))
            return
        grown = self._cached[wanted.key]
        grown.rows.append(more)
        while sum(kept.size_bytes for kept in self._cached.values()) > self._max_bytes:
            # Not those that were fine before another came.
            fair = self._max_bytes / len(self._cached)
            largest = max(self._cached, key=lambda key: self._cached[key].size_bytes)
            too_large = (
                wanted.key if wanted.key in self._cached and grown.size_bytes > fair else largest
            )
            self._evict(too_large, wanted.until, "too large")

    def _evict(self, key: _PaneKey, until: int, why: str) -> None:
        """These panes are not kept for a while; windows are aggregated whole."""
        kept = self._cached.pop(key, None)
        if kept is not None:
            self._evicted_until[key] = until
            rules = [rule for rule, _ in kept.readers]
            _LOG.warning(
                "windows are aggregated whole", action="panes_given_up", rules=rules, error=why
            )

    def _merge_windows(self, wanted: _WindowRequest) -> RuleEventRows:
        """What the windows say."""
        rows = self._cached[wanted.key].rows
        if not rows:
            return []
        size, slide, offset = wanted.paned.window
        low = _MIN_TIME if wanted.since is None else _round_up(wanted.since, slide, offset)
        sql = self._local.register_constants(wanted.batch).join(wanted.paned.merge)
        return parse_event_rows(
            wanted.batch,
            self._local.query(
                sql, {sql_names.PANES_TABLE: rows[0]}, {"low": low, "high": wanted.until - size}
            ),
        )


def _build_request(group: RuleBatch, part: RuleSlice) -> _WindowRequest | None:
    """None: its windows do not slide."""
    paned = group.duckdb_query.paned_query
    if paned is None or part.input_high is None:
        return None
    rules = [part.rules[place] for place in group.rule_indexes]
    # With constants in them panes are those of these rules, by place.
    own = (
        tuple((place, rule.key) for place, rule in zip(group.rule_indexes, rules, strict=True))
        if len(paned.partial) > 1
        else ()
    )
    (stream,) = rules[0].shape.streams
    offset = paned.window[2]
    since = None if part.input_low is None else _round_up(part.input_low, paned.pane_length, offset)
    to = part.input_high - (part.input_high - offset) % paned.pane_length
    return _WindowRequest(
        group, paned, (paned.partial, own), stream, since, to if since is None else max(to, since)
    )


def _round_up(moment: int, step: int, offset: int) -> int:
    """The next multiple of a step, from an offset on."""
    return moment + (offset - moment) % step
