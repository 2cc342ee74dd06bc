"""Sliding windows judged by panes that are kept in memory: each row is aggregated once, a window merged of its panes.

Panes cover time before the watermark, whose rows do not change any more; what comes late is no input of a window. They
are lost with the process, and made again of the archive. See `recall.query.plain.Paned` for the method.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from moirae.live.local import LocalJudge, Places, finds
from moirae.live.plan import Running, Slice
from moirae.live.share import Shared, Shares
from recall.query.plain import PANES, Paned

_LOG = structlog.get_logger()

# What all panes may take, in bytes of Arrow memory. Windows whose panes do not fit are aggregated whole.
_BYTES = 256 << 20
# Before all time.
_NEVER = -(1 << 62)

_Rule = tuple[str, str]
_Key = tuple[object, ...]


class _TooLarge(Exception):
    """The panes of some rules do not fit."""


class Pieces(Protocol):
    """Where on-time rows come from."""

    def pieces(self, stream: str, low: int | None, high: int) -> Iterable[pa.Table]:
        """Rows with event times in [low, high), microseconds, in any number of tables."""


@dataclass
class _Kept:
    """Partial aggregates of the rows with event times in [since, to), microseconds; `since` None: of all before `to`,
    and there `to` None: of none yet. `needs`: of each rule that reads them, from when on.
    """

    since: int | None
    to: int | None
    rows: pa.Table | None = None
    needs: dict[_Rule, int | None] = field(default_factory=dict)

    def covers(self, since: int | None) -> bool:
        """Whether panes from `since` on need only be added to."""
        if since is None or self.since is None:
            return self.since is None
        return self.to is not None and self.since <= since <= self.to


class Panes:
    """The panes of all rules that run. `limit`: bytes that they may take."""

    def __init__(self, local: LocalJudge, rows: Pieces, limit: int = _BYTES) -> None:
        self._local = local
        self._rows = rows
        self._limit = limit
        self._kept: dict[_Key, _Kept] = {}
        self._reads: dict[_Rule, _Key] = {}
        self._too_large: set[_Key] = set()

    def found(self, part: Slice, shares: Shares) -> list[tuple[Shared, Places]]:
        """What groups over sliding windows find in a slice's input, with the place of the rule; those that failed, or
        whose panes are too large, are left out.
        """
        answers = []
        for group in shares.groups:
            paned = group.duck.paned
            key = () if paned is None else _key(paned, group, part.rules)
            if paned is None or part.input_high is None or key in self._too_large:
                continue
            try:
                answers.append((group, self._found(key, paned, group, part, part.input_high)))
            except (duckdb.Error, pa.ArrowException):
                continue  # as in `LocalJudge.found`
            except _TooLarge:
                self._too_large.add(key)
                self._kept.pop(key, None)
                names = [part.rules[place].rule for place in group.members]
                _LOG.warning("panes too large: windows are aggregated whole", action="panes_given_up", rules=names)
        return answers

    def forget(self, running: Sequence[Running]) -> None:
        """Other rules run than before."""
        rules = set(map(_rule, running))
        for gone in self._reads.keys() - rules:
            self._leave(gone)
        self._too_large.clear()

    def _found(self, key: _Key, paned: Paned, group: Shared, part: Slice, input_high: int) -> Places:
        size, slide, offset = paned.window
        since = None if part.input_low is None else _up(part.input_low, paned.length, offset)
        to = input_high - (input_high - offset) % paned.length
        to = to if since is None else max(to, since)
        members = [part.rules[place] for place in group.members]
        kept = self._filled(key, paned, group, members, since, to)
        for rule in map(_rule, members):
            if self._reads.get(rule, key) != key:
                self._leave(rule)
            self._reads[rule] = key
            kept.needs[rule] = since
        if kept.rows is None:
            return []
        sql = self._local.constants(group).join(paned.merge)
        low = _NEVER if since is None else _up(since, slide, offset)
        return finds(group, self._local.ask(sql, {PANES: kept.rows}, {"low": low, "high": to - size}))

    def _filled(
        self, key: _Key, paned: Paned, group: Shared, members: Sequence[Running], since: int | None, to: int
    ) -> _Kept:
        """Panes of at least [since, to). Raises `_TooLarge`."""
        kept = self._kept.pop(key, None)
        if kept is None or not kept.covers(since):
            kept = _Kept(since, since)
        if kept.to is None or to > kept.to:
            (stream,) = members[0].shape.streams
            sql = self._local.constants(group).join(paned.partial)
            room = self._limit - sum(_bytes(one.rows) for one in self._kept.values())
            held = _needed(kept)
            for rows in self._rows.pieces(stream, kept.to, to):
                more = self._local.ask(sql, {paned.stream: rows}, {})
                held = more if held is None else pa.concat_tables([held, more])
                if _bytes(held) > room:
                    raise _TooLarge
            kept.rows = None if held is None else held.combine_chunks()
            kept.to = to
        self._kept[key] = kept
        return kept

    def _leave(self, rule: _Rule) -> None:
        """A rule reads no panes any more."""
        key = self._reads.pop(rule)
        kept = self._kept.get(key)
        if kept is not None:
            kept.needs.pop(rule, None)
            if not kept.needs:
                del self._kept[key]


def _key(paned: Paned, group: Shared, rules: Sequence[Running]) -> _Key:
    """The same for what has the same panes. With constants in them they are those of their rules, by place."""
    with_constants = len(paned.partial) > 1
    members = tuple((place, *_rule(rules[place])) for place in group.members) if with_constants else ()
    return paned.partial, members


def _rule(rule: Running) -> _Rule:
    return rule.rule, rule.definition.version


def _up(moment: int, step: int, offset: int) -> int:
    """The next multiple of a step, from an offset on."""
    return moment + (offset - moment) % step


def _needed(kept: _Kept) -> pa.Table | None:
    """The panes that somebody still needs."""
    needs = [need for need in kept.needs.values() if need is not None]
    if kept.rows is None or len(needs) < len(kept.needs) or not needs:
        return kept.rows
    kept.since = max(min(needs), kept.since) if kept.since is not None else min(needs)
    return kept.rows.filter(pc.greater_equal(kept.rows["_w"], kept.since))


def _bytes(rows: pa.Table | None) -> int:
    return 0 if rows is None else int(rows.nbytes)
