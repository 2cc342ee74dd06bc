"""What a recall asks of history and about which event, as stored in the ledger. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid5

from archiver.time_range import TimeRange, merge_ranges
from archiver.times import Micros
from recall.event_plans import NO_PLAN, EventPlan
from recall.history_ranges import Landmark, Season
from recall.norms import AlertSpan, NormSpec

# The order in which pieces are read: by time, or by the summaries of chunks; see
# `recall.scheduling.chunk_order`.
Order = Literal["newest", "oldest", "promising", "mixed", "weighted", "extreme"]
# Orders in which pieces that follow each other may lie apart, and are read by one query.
_APART: frozenset[Order] = frozenset(("weighted", "extreme"))

# Whether summaries answer a recall: those that pay, those that it wants whatever they cost, or none.
SummarySetting = Literal["auto", "on", "off"]

_DEFAULT_PIECE_SECONDS = 1.0
# Task ids are derived from what a task is about, so that a repeated request finds the same task.
_TASK_NAMESPACE = UUID("0d6c6a0e-52cb-5f0e-8a6f-5c3d0f6f9a42")

DEFAULT_TICKETS = 100
# In place of the name of a rule, which has a group and so a slash: the tasks of ad-hoc queries.
AD_HOC_RULE = "query"


@dataclass(frozen=True)
class RecallEvent:
    """The event that a recall is about.

    `key` holds the values that each row of its answers carries. `previous`: the time of the last
    event of the alert before its own, of the same rule and key; None: there is none, or it is not
    needed. `alerts`: those of its key up to its time, as they were known then, where a norm leaves
    out their spans.
    """

    eid: UUID
    ts: Micros
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]
    previous: Micros | None = None
    alerts: tuple[AlertSpan, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The stored form, without the eid, which has a column of its own."""
        stored = {"ts": self.ts, "key": dict(self.key), "attributes": dict(self.attributes)}
        if self.previous is not None:
            stored["previous"] = self.previous
        if self.alerts:
            stored["alerts"] = [alert.to_json() for alert in self.alerts]
        return stored

    @classmethod
    def from_json(cls, eid: UUID, stored: Mapping[str, Any]) -> "RecallEvent":
        """The inverse of `to_json`."""
        return cls(
            eid,
            stored["ts"],
            stored["key"],
            stored["attributes"],
            stored.get("previous"),
            tuple(map(AlertSpan.from_json, stored.get("alerts", ()))),
        )


# The fields of questions are keys of the stored JSON: do not rename them.


@dataclass(frozen=True)
class RecallQuestion:
    """What both kinds of recall have in common.

    `range`: how far before the event history is read; None: to its beginning.
    `every`: the interval between intermediate answers, in seconds. `order`: of reading.
    `feedback`: seconds without feedback after which the recall is suspended; None: never.
    `offset`: how far before the event the range ends. `season`: the stored form of a `Season`, of
    whose times alone rows are read; it has a `range`. `since`: that of a `Landmark`, from which on
    rows are read. `until`: "previous" if only rows after `RecallEvent.previous` are read.
    """

    range: Micros | None
    every: float
    order: Order
    feedback: float | None = field(default=None, kw_only=True)
    offset: Micros = field(default=0, kw_only=True)
    season: Mapping[str, Any] | None = field(default=None, kw_only=True)
    since: Mapping[str, Any] | None = field(default=None, kw_only=True)
    until: Literal["previous"] | None = field(default=None, kw_only=True)

    @property
    def is_bounded(self) -> bool:
        """Whether the beginning of what is read is known before history is, for each event."""
        return self.range is not None or self.since is not None

    @property
    def needs_alerts(self) -> bool:
        """Whether an answer depends on `RecallEvent.alerts`."""
        return False

    @property
    def needs_incidents(self) -> bool:
        """Whether it depends on the incidents of these alerts."""
        return False

    def asked_ranges(
        self, event_ts: Micros, previous: Micros | None = None
    ) -> tuple[TimeRange, ...]:
        """The event times that are read for an event, as far as they are archived.

        Oldest first, apart from each other. `previous`: see `RecallEvent`.
        """
        span = self._asked_span(event_ts, previous)
        if self.season is None:
            return () if span.is_empty else (span,)
        return Season.from_json(self.season).find_ranges(span, event_ts)

    def _asked_span(self, event_ts: Micros, previous: Micros | None) -> TimeRange:
        """May be empty."""
        starts: list[Micros] = []
        if self.until is not None and previous is not None:
            starts.append(previous + 1)
        if self.range is not None:
            starts.append(event_ts - self.range)
        if self.since is not None:
            starts.append(Landmark.from_json(self.since).find_before(event_ts))
        return TimeRange(max(starts, default=None), event_ts - self.offset)

    def asked_range(self, event_ts: Micros, previous: Micros | None = None) -> TimeRange:
        """The range from the first to the last event time that is read for an event."""
        return enclose_ranges(self.asked_ranges(event_ts, previous), event_ts)


@dataclass(frozen=True)
class SqlQuestion(RecallQuestion):
    """SQL over history.

    `streams`: with their time column; `derived`: derived streams with their SQL.
    `attributes`: of the event, with Spark's types.
    `own`: the rule's contexts and surroundings, with the types of their columns.
    `columns`: of the answer, with their types.
    `extreme`: the column of the order `extreme`. `fade`: how much a piece of history counts towards
    coverage, as a share of what the next newer one counts; of the order `weighted`.
    `where`, `judged`: stored by earlier versions; see `recall.event_plans.EventPlan`.
    `types`: of groups and aggregates; see `recall.query.split.Split.type_probe`.
    `follow`: whether rows that are archived later extend the answer until the task is ended.
    `summary`: whether summaries of chunks answer it, see `recall.summaries`.
    `norm`: the stored form of a `recall.norms.NormSpec`, whose answer follows from the rows of `sql`.
    """

    sql: str
    streams: Mapping[str, str]
    relations: tuple[str, ...]
    derived: Mapping[str, str]
    attributes: Mapping[str, str]
    own: Mapping[str, Mapping[str, str]]
    columns: Mapping[str, str]
    where: str | None = None
    judged: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    follow: bool = False
    summary: SummarySetting = "auto"
    extreme: str | None = None
    fade: float = 1.0
    norm: Mapping[str, Any] | None = None
    kind: Literal["sql"] = "sql"

    @property
    def norm_spec(self) -> NormSpec | None:
        """The norm that is computed of the rows; None: the rows are the answer."""
        return None if self.norm is None else NormSpec.from_json(self.norm)

    @property
    def needs_alerts(self) -> bool:
        """Whether an answer depends on `RecallEvent.alerts`."""
        spec = self.norm_spec
        return spec is not None and spec.exclude != "none"

    @property
    def needs_incidents(self) -> bool:
        """Whether it depends on the incidents of these alerts."""
        spec = self.norm_spec
        return spec is not None and spec.exclude == "incidents"

    @property
    def reads_ranges(self) -> bool:
        """Whether a query may read ranges of time that lie apart."""
        return self.season is not None or self.order in _APART


@dataclass(frozen=True)
class SimilarQuestion(RecallQuestion):
    """The `k` past events most similar by some `contexts`, by a `measure`.

    They are older than the event by at least `gap`. `numeric`: columns that are
    compared as numbers, with their bandwidths; None: by Silverman's rule.
    """

    contexts: tuple[str, ...]
    k: int
    measure: str
    gap: Micros
    numeric: Mapping[str, float | None] = field(default_factory=dict)
    kind: Literal["similar"] = "similar"


AnyQuestion = SqlQuestion | SimilarQuestion


@dataclass(frozen=True)
class RecallRequest:
    """A recall to start, for a version of a rule.

    `level`: 0 if a user may be waiting for the answer, 1 if the event is long past. `plan`: what
    follows from the recalls of the event; equal for all of them.
    """

    rule: str
    version: str
    recall: str
    question: AnyQuestion
    event: RecallEvent
    level: int
    plan: EventPlan = NO_PLAN


def parse_question(stored: Mapping[str, Any]) -> AnyQuestion:
    """A question from its stored form, the JSON of its fields."""
    fields = dict(stored)
    for name in ("relations", "contexts"):
        if name in fields:
            fields[name] = tuple(fields[name])
    match fields["kind"]:
        case "sql":
            return SqlQuestion(**fields)
        case "similar":
            return SimilarQuestion(**fields)
        case kind:
            raise ValueError(f"unknown kind of recall {kind!r}")


def task_id(rule: str, version: str, recall: str, eid: UUID) -> UUID:
    """The id of the one task of a recall of a rule's version about an event."""
    return uuid5(_TASK_NAMESPACE, f"{rule} {version} {recall} {eid}")


# Pieces


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of history: the rows of a chunk in the range [low, high) of event time.

    `low` None: from the first row on. `parts`: of that range, only the rows in these ranges, which
    are in ascending order and apart; empty: all rows.
    """

    chunk: int
    low: Micros | None
    high: Micros
    parts: tuple[TimeRange, ...] = ()

    @property
    def range(self) -> TimeRange:
        """The range that spans the piece."""
        return TimeRange(self.low, self.high)

    @property
    def ranges(self) -> tuple[TimeRange, ...]:
        """The ranges of the rows, in ascending order and apart."""
        return self.parts or (self.range,)

    def to_json(self) -> tuple[Any, ...]:
        """The stored form."""
        if self.parts:
            return self.chunk, self.low, self.high, [list(part) for part in self.parts]
        return self.chunk, self.low, self.high

    @classmethod
    def from_json(cls, stored: Sequence[Any]) -> "Piece":
        """The inverse of `to_json`."""
        chunk, low, high, *parts = stored
        return cls(
            chunk, low, high, tuple(TimeRange(*part) for part in (parts[0] if parts else ()))
        )

    @classmethod
    def of_range(cls, chunk: int, time_range: TimeRange) -> "Piece":
        """The rows of a chunk in a range, which has an end."""
        return cls.of_ranges(chunk, (time_range,))

    @classmethod
    def of_ranges(cls, chunk: int, ranges: Sequence[TimeRange]) -> "Piece":
        """The rows of a chunk in ranges in ascending order and apart; the last one has an end."""
        start, end = ranges[0].start, ranges[-1].end
        assert end is not None
        return cls(chunk, start, end, tuple(ranges) if len(ranges) > 1 else ())


class ChunkRange(NamedTuple):
    """A chunk and its range of event time."""

    chunk: int
    range: TimeRange


def plan_pieces(
    chunks: Iterable[ChunkRange],
    event_ts: Micros,
    question: RecallQuestion,
    previous: Micros | None = None,
) -> list[Piece]:
    """The pieces of history that a recall reads: oldest first for that order, else newest first.

    `chunks`: oldest first. They are cut to what lies before the event and within the question's
    ranges; those in no range are left out. `previous`: see `RecallEvent`.
    """
    asked_ranges = question.asked_ranges(event_ts, previous)
    pieces: list[Piece] = []
    first = 0
    for chunk, chunk_range in chunks:
        if len(asked_ranges) == 1:  # without the lists of the general case
            start, end = asked_ranges[0].intersect(chunk_range)
            if end is not None and (start is None or start < end):
                pieces.append(Piece(chunk, start, end))
            continue
        while first < len(asked_ranges) and _is_before(asked_ranges[first], chunk_range):
            first += 1
        ranges: list[TimeRange] = []
        for asked_range in asked_ranges[first:]:
            if _is_before(chunk_range, asked_range):
                break
            ranges.append(asked_range.intersect(chunk_range))
        ranges = [part for part in ranges if not part.is_empty]
        if ranges:
            pieces.append(Piece.of_ranges(chunk, ranges))
    if question.order != "oldest":
        pieces.reverse()
    return pieces


def _is_before(first: TimeRange, second: TimeRange) -> bool:
    """Whether a range ends before another one begins."""
    return first.end is not None and second.start is not None and first.end <= second.start


def enclose_ranges(ranges: Sequence[TimeRange], ts: Micros) -> TimeRange:
    """The range that spans some in ascending order; without any, an empty one at a time."""
    if not ranges:
        return TimeRange(ts, ts)
    return TimeRange(ranges[0].start, ranges[-1].end)


def enclosing_range(pieces: Iterable[Piece]) -> TimeRange:
    """The range of time that spans some pieces, of which there is at least one."""
    low: Micros | None = None
    high: Micros | None = None
    is_open = False
    for piece in pieces:
        if piece.low is None:
            is_open = True
        elif low is None or piece.low < low:
            low = piece.low
        if high is None or piece.high > high:
            high = piece.high
    return TimeRange(None if is_open else low, high)


def union_ranges(pieces: Iterable[Piece]) -> tuple[TimeRange, ...]:
    """The ranges of the rows of some pieces, in ascending order and apart."""
    return merge_ranges(part for piece in pieces for part in piece.ranges if not part.is_empty)


def join_pieces(pieces: Sequence[Piece]) -> Piece:
    """Some pieces, at least one, as one piece of the first one's chunk."""
    return Piece.of_ranges(pieces[0].chunk, union_ranges(pieces))


def piece_seconds(pieces: Sequence[Piece]) -> list[float]:
    """The length of each piece of history in seconds.

    A piece without a beginning counts as the mean of the others.
    """
    lengths: list[float | None] = []
    for piece in pieces:
        if piece.low is None or piece.parts:
            lengths.append(_count_seconds(piece.ranges))
        else:
            lengths.append((piece.high - piece.low) / 1e6)
    known_lengths = [length for length in lengths if length is not None]
    mean = _DEFAULT_PIECE_SECONDS
    if known_lengths:
        mean = sum(known_lengths) / len(known_lengths)
    return [mean if length is None else length for length in lengths]


def count_ages(pieces: Iterable[Piece]) -> dict[Piece, int]:
    """How many of the pieces are newer than each."""
    newest_first = sorted(pieces, key=_end_order, reverse=True)
    return {piece: age for age, piece in enumerate(newest_first)}


def _end_order(piece: Piece) -> Micros:
    return piece.high


def _count_seconds(ranges: Iterable[TimeRange]) -> float | None:
    """The length of some ranges that end; None: one has no beginning."""
    micros = 0
    for start, end in ranges:
        assert end is not None
        if start is None:
            return None
        micros += end - start
    return micros / 1e6


def _lowest_bound(lows: Sequence[Micros | None]) -> Micros | None:
    """The lowest of some bounds; None if there are none, or if one of them is open."""
    known_bounds = [low for low in lows if low is not None]
    if len(known_bounds) < len(lows):
        return None
    return min(known_bounds, default=None)


# Coverage


@dataclass(frozen=True)
class Coverage:
    """What an answer was computed from. The fields are keys of stored and exported JSON.

    Times are event time in microseconds. `asked_from`: where the requested range begins, also if
    the chunks there have expired; None: with the first row. `asked_to`: where it ends; None: at the
    event. `ranges`: of how many ranges of time it consists. `unread`: by column, the least and the
    greatest value that a row not read yet can have. `read_from`, `read_to`: the range that
    was read. Numbers of pieces: `read`, `left`, `failed`, and `by_summary`: those that need not be read as
    their summaries show that they hold nothing of use. `hopeful`: of a similarity recall, how many
    of the pieces left may still change the answer; None: not known. `summarised`: of the pieces that
    were read, those that summaries have answered (`recall.summaries`).
    `share`: which part of the requested range the answer was computed from, by time, 0 to 1; None: not known.
    `ended`: by stream, the event time before which its rows have expired although those of others
    have not. `final`: there will be no further answer. `partial`: part of the requested range is missing.
    """

    asked_from: Micros | None
    read_from: Micros | None
    read_to: Micros | None
    read: int
    left: int
    failed: int
    final: bool
    partial: bool
    by_summary: int = 0
    hopeful: int | None = None
    share: float | None = None
    ended: Mapping[str, Micros] = field(default_factory=dict)
    summarised: int = 0
    asked_to: Micros | None = None
    ranges: int = 1
    unread: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class LiveCoverage(Coverage):
    """The coverage of an answer that rows have extended that were archived after it was computed.

    `live_rows`: how many rows, or groups of rows, were added so far. `appends`: the answer consists
    of the rows since the previous answer only.
    """

    live_rows: int = 0
    appends: bool = False


def parse_coverage(stored: Mapping[str, Any]) -> Coverage:
    """A coverage from its stored form, the JSON of its fields."""
    if "live_rows" in stored:
        return LiveCoverage(**stored)
    return Coverage(**stored)


def compute_coverage(
    ordered_pieces: Sequence[Piece],
    pieces_done: int,
    failed: int,
    skipped: int = 0,
    fade: float = 1.0,
    lengths: Sequence[float] | None = None,
) -> Coverage:
    """The coverage after the first `pieces_done` pieces.

    Of these, `failed` could not be read and the first `skipped` need not be read. `fade`: see
    `SqlQuestion`. `lengths`: the `piece_seconds` of all pieces where they are known.
    """
    is_final = pieces_done == len(ordered_pieces)
    # In the end the pieces that summaries rule out are covered as well.
    covered_pieces = ordered_pieces if is_final else ordered_pieces[skipped:pieces_done]
    weights = piece_seconds(ordered_pieces) if lengths is None else lengths
    if fade < 1:
        ages = count_ages(ordered_pieces)
        weights = [
            seconds * fade ** ages[piece]
            for piece, seconds in zip(ordered_pieces, weights, strict=True)
        ]
    share = sum(weights[:pieces_done]) / sum(weights) if weights else 1.0
    if failed:
        # Which pieces have failed is not known: they count as pieces of mean length.
        share *= 1 - failed / pieces_done
    return Coverage(
        asked_from=_lowest_bound([piece.low for piece in ordered_pieces]),
        read_from=_lowest_bound([piece.low for piece in covered_pieces]),
        read_to=max((piece.high for piece in covered_pieces), default=None),
        read=pieces_done - failed - skipped,
        left=len(ordered_pieces) - pieces_done,
        failed=failed,
        final=is_final,
        partial=failed > 0 or not is_final,
        by_summary=skipped,
        share=share,
    )


def end_coverage(ordered_pieces: Sequence[Piece], pieces_done: int) -> Coverage:
    """The coverage of the last answer if the pieces after the first `pieces_done` cannot be read."""
    coverage = compute_coverage(ordered_pieces, pieces_done, 0)
    failed = len(ordered_pieces) - pieces_done
    return replace(coverage, left=0, failed=failed, final=True, partial=True)


def relate_to_request(
    coverage: Coverage, question: RecallQuestion, event: RecallEvent, pieces: Sequence[Piece]
) -> Coverage:
    """The coverage with the ranges that were asked for, of which expired chunks may be missing.

    `pieces`: all that the recall reads.
    """
    asked_ranges = question.asked_ranges(event.ts, event.previous)
    if question.offset:
        coverage = replace(coverage, asked_to=event.ts - question.offset)
    if question.season is not None:
        coverage = replace(coverage, ranges=len(asked_ranges))
    asked_from = enclose_ranges(asked_ranges, event.ts).start
    if asked_from is None:
        return coverage
    coverage = replace(coverage, asked_from=asked_from)
    available_seconds = _count_seconds(union_ranges(pieces))
    asked_seconds = _count_seconds(asked_ranges)
    if available_seconds is None or not asked_seconds or available_seconds >= asked_seconds:
        return coverage
    share = coverage.share
    if share is not None:
        share *= available_seconds / asked_seconds
    return replace(coverage, partial=True, share=share)
