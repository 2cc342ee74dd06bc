"""What is asked of the past, and about which event: the words of the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID, uuid5

# A piece of history: the chunk that it is cut from, and [low, high) in microseconds; low None: from the first row.
Piece = tuple[int, int | None, int]

# Identities of tasks follow from what they are about.
_NAMESPACE = UUID("0d6c6a0e-52cb-5f0e-8a6f-5c3d0f6f9a42")

DEFAULT_TICKETS = 100

Order = Literal["newest", "oldest", "promising", "mixed"]


@dataclass(frozen=True)
class RecallEvent:
    """The event that a question is about. `ts` in microseconds; `key`: what its answer's rows carry."""

    eid: UUID
    ts: int
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As stored; the eid stands beside it."""
        return {"ts": self.ts, "key": dict(self.key), "attributes": dict(self.attributes)}

    @classmethod
    def from_json(cls, eid: UUID, stored: Mapping[str, Any]) -> "RecallEvent":
        """From what was stored."""
        return cls(eid, stored["ts"], stored["key"], stored["attributes"])


@dataclass(frozen=True)
class RecallQuestion:
    """What the two kinds of recall have in common. `range` in microseconds (None: all of history before the event),
    `every` in seconds by the clock; `order` of reading; `feedback`: seconds by the clock after which it is suspended
    (None: never)."""

    range: int | None
    every: float
    order: Order
    feedback: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class SqlQuestion(RecallQuestion):
    """SQL over history. `tables`: streams with their time, relations, derived streams with their SQL;
    `attributes`: of the event, with their Spark types; `own`: the rule's contexts and surroundings, with the types
    of their columns; `columns`: of the answer, with their types; `where`: the rule's condition, judged when this and
    the other recalls that it names (`judged`, with the types of their columns) are answered; `types`: of its groups
    and aggregates (see `recall.query.split.Split.typing`)."""

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
    kind: Literal["sql"] = "sql"


@dataclass(frozen=True)
class SimilarQuestion(RecallQuestion):
    """The `k` past events most alike by some `contexts`, by a `measure`; older by `gap` microseconds at least.
    `numeric`: columns that are compared as numbers, with their bandwidths (None: by Silverman's rule)."""

    contexts: tuple[str, ...]
    k: int
    measure: str
    gap: int
    numeric: Mapping[str, float | None] = field(default_factory=dict)
    kind: Literal["similar"] = "similar"


AnyQuestion = SqlQuestion | SimilarQuestion


@dataclass(frozen=True)
class RecallRequest:
    """A recall to begin: whose, about what. `level` 0: somebody may be waiting; 1: the event is long past."""

    rule: str
    version: str
    recall: str
    question: AnyQuestion
    event: RecallEvent
    level: int


def parse_question(stored: Mapping[str, Any]) -> AnyQuestion:
    """A question as stored (`vars`)."""
    kinds: dict[str, type[SqlQuestion] | type[SimilarQuestion]] = {
        "sql": SqlQuestion,
        "similar": SimilarQuestion,
    }
    lists = {n: tuple(stored[n]) for n in ("relations", "contexts") if n in stored}
    return kinds[stored["kind"]](**{**stored, **lists})


def task_id(rule: str, version: str, recall: str, eid: UUID) -> UUID:
    """The one task of a recall of a rule's version about an event."""
    return uuid5(_NAMESPACE, f"{rule} {version} {recall} {eid}")


def plan_pieces(
    chunks: Iterable[tuple[int, int | None, int | None]], event_ts: int, question: RecallQuestion
) -> list[Piece]:
    """Which pieces of history are read, in order: the chunks (id, from, to; oldest first), cut to what lies before
    the event and in its range."""
    since = None if question.range is None else event_ts - question.range
    found: list[Piece] = []
    for chunk, start, end in chunks:
        low = since if start is None else start if since is None else max(start, since)
        high = event_ts if end is None else min(end, event_ts)
        if low is None or low < high:
            found.append((chunk, low, high))
    return found if question.order == "oldest" else found[::-1]


@dataclass(frozen=True)
class Coverage:
    """What an answer was computed from.

    Times in microseconds of event time: asked for from (None: from the first row), read from and to. Pieces of
    history: read, left, failed, and those known by their summaries to hold nothing of use (`by_summary`). `final`:
    there will be no other answer; `partial`: not all that was asked for is in; `hopeful`: of a similarity recall, how
    many of the pieces left may still change the answer, None where that is not known.
    """

    asked_from: int | None
    read_from: int | None
    read_to: int | None
    read: int
    left: int
    failed: int
    final: bool
    partial: bool
    by_summary: int = 0
    hopeful: int | None = None


def compute_coverage(
    ordered_pieces: Sequence[Piece], pieces_done: int, failed: int, skipped: int = 0
) -> Coverage:
    """The coverage after `done` pieces, `failed` of which gave nothing; the first `skipped` need not be read."""
    final = pieces_done == len(ordered_pieces)
    # In the end what a summary has ruled out is covered as well.
    read = ordered_pieces if final else ordered_pieces[skipped:pieces_done]
    return Coverage(
        asked_from=_lowest_bound([low for _, low, _ in ordered_pieces]),
        read_from=_lowest_bound([low for _, low, _ in read]),
        read_to=max((high for _, _, high in read), default=None),
        read=pieces_done - failed - skipped,
        left=len(ordered_pieces) - pieces_done,
        failed=failed,
        final=final,
        partial=failed > 0 or pieces_done < len(ordered_pieces),
        by_summary=skipped,
    )


def enclosing_range(pieces: Iterable[Piece]) -> tuple[int | None, int]:
    """From the first of some pieces to the end of the last; there is one at least."""
    taken = list(pieces)
    return _lowest_bound([low for _, low, _ in taken]), max(high for _, _, high in taken)


def _lowest_bound(lows: Sequence[int | None]) -> int | None:
    return None if None in lows else min((low for low in lows if low is not None), default=None)
