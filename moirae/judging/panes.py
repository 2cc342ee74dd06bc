"""Sliding windows judged by panes that are kept in memory: each row is aggregated once, a window merged of its panes.

Panes cover time before the watermark, whose rows do not change any more; what comes late is no input of a window. They
are lost with the process, and made again of the archive. See `recall.query.plain.Paned` for the method.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from moirae.judging.local import LocalJudge, Places, finds
from moirae.judging.plan import Running, Slice
from moirae.judging.share import Shared, Shares
from recall.query.plain import PANES, Paned

_LOG = structlog.get_logger()

# What all panes may take, in bytes of Arrow memory. Windows whose panes do not fit are aggregated whole.
_BYTES = 256 << 20
# Rows in memory, counted once for each window that holds them, up to which one query over all of them is done sooner
# than two, one over new rows and one over panes.
_FEW = 100_000
# Before all time, in microseconds.
_NEVER = -(1 << 62)

_Rule = tuple[str, str]
_Key = tuple[object, ...]


class Pieces(Protocol):
    """Where on-time rows come from."""

    def pieces(self, stream: str, low: int | None, high: int) -> Iterable[pa.Table]:
        """Rows with event times in [low, high), microseconds, in any number of tables."""

    def at_hand(self, stream: str, low: int | None, high: int | None) -> int | None:
        """About how many these are, where all of them are in memory; else None."""


@dataclass
class _Kept:
    """Partial aggregates of the rows with event times in [since, to), microseconds; `since` None: of all before `to`,
    and there `to` None: of none yet. `needs`: of each rule that reads them, from when on, and how long its windows are.
    """

    since: int | None
    to: int | None
    rows: list[pa.Table] = field(default_factory=list)
    needs: dict[_Rule, tuple[int | None, int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(rows.nbytes for rows in self.rows)

    def covers(self, since: int | None) -> bool:
        """Whether panes from `since` on need only be added to."""
        if since is None or self.since is None:
            return self.since is None
        return self.to is not None and self.since <= since <= self.to

    def drop(self) -> None:
        """Panes that nobody needs any more; who is behind the first by more than the longest window is left behind."""
        needs = [_NEVER if since is None else since for since, _ in self.needs.values()]
        longest = max(size for _, size in self.needs.values())
        since = max(min(needs), max(needs) - longest)
        if self.since is None or since > self.since:
            self.since = since
            self.rows = [rows.filter(pc.greater_equal(rows["_w"], since)) for rows in self.rows]


@dataclass(frozen=True)
class _Wanted:
    """Windows that a group looks at: those within [since, to), microseconds; `since` None: all before `to`."""

    group: Shared
    paned: Paned
    key: _Key
    stream: str
    since: int | None
    to: int


class Panes:
    """The panes of all rules that run. `limit`: bytes that they may take."""

    def __init__(self, local: LocalJudge, rows: Pieces, limit: int = _BYTES) -> None:
        self._local = local
        self._rows = rows
        self._limit = limit
        self._kept: dict[_Key, _Kept] = {}
        self._reads: dict[_Rule, _Key] = {}
        # Panes that could not be kept, and the end of the windows at that time: once these are past they may fit.
        self._given_up: dict[_Key, int] = {}

    def found(self, part: Slice, shares: Shares) -> list[tuple[Shared, Places]]:
        """What groups over sliding windows find in a slice's input, with the place of the rule. Those that failed,
        whose panes are too large, or whose rows are few are left out.
        """
        wanted = [one for group in shares.groups if (one := _wanted(group, part)) and self._worth(one, part)]
        for one in wanted:
            self._read_by([part.rules[place] for place in one.group.members], one)
        self._advance(wanted)
        answers = []
        for one in wanted:
            if one.key in self._kept:
                with suppress(duckdb.Error, pa.ArrowException):  # as in `LocalJudge.found`
                    answers.append((one.group, self._merged(one)))
        return answers

    def forget(self, running: Sequence[Running]) -> None:
        """Other rules run than before."""
        for gone in self._reads.keys() - {rule.key for rule in running}:
            self._leave(gone)
        self._given_up.clear()

    def _worth(self, wanted: _Wanted, part: Slice) -> bool:
        """Whether panes are to be kept."""
        until = self._given_up.get(wanted.key)
        if until is not None and (wanted.since is None or wanted.since < until):
            return False
        rows = self._rows.at_hand(wanted.stream, part.input_low, part.input_high)
        size, slide, _ = wanted.paned.window
        return rows is None or rows * size > _FEW * slide

    def _read_by(self, rules: Sequence[Running], wanted: _Wanted) -> None:
        """These rules read these panes, and no others."""
        kept = self._kept.get(wanted.key)
        if kept is None or not kept.covers(wanted.since):
            kept = self._kept[wanted.key] = _Kept(wanted.since, wanted.since)
        for rule in [one.key for one in rules]:
            if self._reads.get(rule, wanted.key) != wanted.key:
                self._leave(rule)
            self._reads[rule] = wanted.key
            kept.needs[rule] = wanted.since, wanted.paned.window[0]
        if wanted.since is not None:
            kept.drop()

    def _leave(self, rule: _Rule) -> None:
        """A rule reads its panes no more."""
        key = self._reads.pop(rule)
        kept = self._kept.get(key)
        if kept is not None:
            kept.needs.pop(rule, None)
            if not kept.needs:
                del self._kept[key]

    def _advance(self, wanted: Sequence[_Wanted]) -> None:
        """Aggregate the rows that the panes lack. Who lacks the same reads them together."""
        lacking: dict[tuple[str, int | None, int], dict[_Key, _Wanted]] = {}
        for one in wanted:
            known = self._kept[one.key].to
            if known is None or known < one.to:
                lacking.setdefault((one.stream, known, one.to), {})[one.key] = one
        for (stream, low, high), some in lacking.items():
            try:
                for rows in self._rows.pieces(stream, low, high):
                    for one in some.values():
                        if one.key in self._kept:
                            self._add(one, rows)
            except (OSError, pa.ArrowException) as error:  # Spark will say what is wrong with a file
                for one in some.values():
                    self._give_up(one.key, one.to, str(error))
            for kept in [self._kept[key] for key in some if key in self._kept]:
                kept.rows, kept.to = [pa.concat_tables(kept.rows).combine_chunks()] if kept.rows else [], high

    def _add(self, wanted: _Wanted, rows: pa.Table) -> None:
        """Aggregate rows into panes. If that cannot be there are none."""
        sql = self._local.constants(wanted.group).join(wanted.paned.partial)
        try:
            more = self._local.ask(sql, {wanted.paned.stream: rows}, {})
        except (duckdb.Error, pa.ArrowException) as error:
            self._give_up(wanted.key, wanted.to, str(error))
            return
        grown = self._kept[wanted.key]
        grown.rows.append(more)
        while sum(kept.bytes for kept in self._kept.values()) > self._limit:
            # Not those that were fine before another came.
            fair = self._limit / len(self._kept)
            largest = max(self._kept, key=lambda key: self._kept[key].bytes)
            too_large = wanted.key if wanted.key in self._kept and grown.bytes > fair else largest
            self._give_up(too_large, wanted.to, "too large")

    def _give_up(self, key: _Key, until: int, why: str) -> None:
        """These panes are not kept for a while; windows are aggregated whole."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._given_up[key] = until
            rules = [rule for rule, _ in kept.needs]
            _LOG.warning("windows are aggregated whole", action="panes_given_up", rules=rules, error=why)

    def _merged(self, wanted: _Wanted) -> Places:
        """What the windows say."""
        rows = self._kept[wanted.key].rows
        if not rows:
            return []
        size, slide, offset = wanted.paned.window
        low = _NEVER if wanted.since is None else _up(wanted.since, slide, offset)
        sql = self._local.constants(wanted.group).join(wanted.paned.merge)
        return finds(wanted.group, self._local.ask(sql, {PANES: rows[0]}, {"low": low, "high": wanted.to - size}))


def _wanted(group: Shared, part: Slice) -> _Wanted | None:
    """None: its windows do not slide."""
    paned = group.duck.paned
    if paned is None or part.input_high is None:
        return None
    rules = [part.rules[place] for place in group.members]
    # With constants in them panes are those of these rules, by place.
    own = (
        tuple((place, rule.key) for place, rule in zip(group.members, rules, strict=True))
        if len(paned.partial) > 1
        else ()
    )
    (stream,) = rules[0].shape.streams
    offset = paned.window[2]
    since = None if part.input_low is None else _up(part.input_low, paned.length, offset)
    to = part.input_high - (part.input_high - offset) % paned.length
    return _Wanted(group, paned, (paned.partial, own), stream, since, to if since is None else max(to, since))


def _up(moment: int, step: int, offset: int) -> int:
    """The next multiple of a step, from an offset on."""
    return moment + (offset - moment) % step
