"""Models of a rule's queries about an event: contexts, surroundings, recalls and `then` stages.

They are Spark SQL in which `event.<attribute>` is an attribute of the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Tag, ValidationInfo, field_validator

from moirae.config import Duration, PositiveDuration
from moirae.documents.types import (
    ConfigModel,
    Number,
    PositiveInt,
    Sql,
    TableName,
    Text,
    ValueProblem,
    discriminate_by_key,
    raise_problems,
)
from moirae.rules.history_range import HistoryRange, Range
from moirae.rules.norms import Norm
from recall.query import Unsupported, tables_in

# Column names that the system adds to the attributes of an event.
RESERVED_ATTRIBUTES = frozenset({"eid", "chunk"})


def check_attributes(names: Iterable[str]) -> None:
    """Raise an error for each attribute name that is reserved or a duplicate."""
    problems: list[ValueProblem] = []
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name.lower() in RESERVED_ATTRIBUTES or name.startswith("_"):
            problems.append(ValueProblem((index,), f"attribute name {name[:80]!r} is reserved"))
        if name in seen:
            problems.append(ValueProblem((index,), f"duplicate attribute {name[:80]!r}"))
        seen.add(name)
    raise_problems(problems)


def _parse_bandwidths(value: Any) -> Any:
    """Read `[cpu]` as `{cpu: null}`."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        check_attributes(value)
        return dict.fromkeys(value)
    return value


_Fade = Annotated[Number, Field(gt=0, le=1)]
_Bandwidth = Annotated[Number, Field(gt=0)]
NumericColumns = Annotated[
    Mapping[Text, _Bandwidth | None],
    BeforeValidator(
        _parse_bandwidths, json_schema_input_type=list[str] | dict[str, _Bandwidth | None]
    ),
]


class QuerySpec(ConfigModel):
    """A query about an event."""

    sql: Sql = Field(description="Spark SQL; event.<attribute> is an attribute of the event.")
    within: PositiveDuration | None = Field(
        default=None,
        description=(
            "Event time before the event from which rows are read. Required if the query reads "
            "a stream. Relations are read as of the event."
        ),
    )
    delay: Duration | None = Field(
        default=None,
        description=(
            "Event time after the event up to which rows are read. Default: the delay of the rule."
        ),
    )


class SurroundingSpec(QuerySpec):
    """Rows around an event that are shown with it, not compared."""


class ContextSpec(QuerySpec):
    """Terms `column=value`, for each value of each row, by which recalls compare events."""

    numeric: NumericColumns = Field(
        default_factory=dict,
        description=(
            "Columns compared as numbers: a list, or a mapping to bandwidths in the unit of the "
            "column. For null, the bandwidth follows from history by Silverman's rule."
        ),
    )


class Recall(ConfigModel):
    """A query over the archive about an event; its result is published in revisions."""

    stream: TableName | None = Field(
        default=None,
        description=(
            "Name of the stream of its rows, unique in all files. Event queries and derived "
            "streams of other rules read it, and as <stream>_revisions each change of the rows."
        ),
    )
    every: PositiveDuration = Field(
        default=timedelta(seconds=1), description="Wall-clock time between two revisions."
    )
    feedback: PositiveDuration | None = Field(
        default=None,
        description=(
            "Wall-clock time without feedback after which the recall is suspended until it is "
            "refined. Default: never."
        ),
    )


class SqlRecall(Recall):
    """A recall by SQL over the rows before the event."""

    sql: Sql = Field(description="Spark SQL; event.<attribute> is an attribute of the event.")
    range: Range = Field(
        default=None,
        description=(
            "Event time before the event from which history is read, such as 7d, or an offset, such "
            "as 8d..7d, or a mapping: which of these times. Default: all history."
        ),
    )
    order: Literal["newest", "oldest", "promising", "mixed", "weighted", "extreme"] = Field(
        default="newest",
        description=(
            "Which chunks are read first: newest, oldest, promising (most rows with the key of "
            "the event), mixed (alternately the newest and the most promising), weighted (drawn "
            "with chances in proportion to their rows with the key) or extreme (those with the "
            "values farthest from the usual ones of a column)."
        ),
    )
    extreme: Text | None = Field(
        default=None,
        validate_default=True,
        description="With order: extreme: the column, a number or a time, of the only stream.",
    )
    fade: _Fade | None = Field(
        default=None,
        description=(
            "With order: weighted: how much a chunk counts as a share of the next newer one, for "
            "the order and for coverage, above 0 up to 1; null: 1."
        ),
    )
    summary: Literal["auto", "on", "off"] = Field(
        default="auto",
        description=(
            "Whether partial answers of closed chunks are computed before an event asks: auto (as "
            "long as they save more than they cost), on or off."
        ),
    )

    @field_validator("extreme")
    @classmethod
    def _require_extreme_order(cls, column: str | None, info: ValidationInfo) -> str | None:
        if "order" in info.data and (column is None) == (info.data["order"] == "extreme"):
            raise ValueError("set order: extreme and extreme, its column, together")
        return column

    @field_validator("fade")
    @classmethod
    def _require_weighted_order(cls, fade: float | None, info: ValidationInfo) -> float | None:
        if fade is not None and info.data.get("order", "weighted") != "weighted":
            raise ValueError("fade is for order: weighted")
        return fade


class NormalRecall(Recall):
    """A recall of what is normal: compiled to SQL over the rows with the event's key."""

    normal: Norm = Field(description="What is compared, and with which past.")

    @property
    def sql(self) -> str:
        """The query of the rows."""
        return self.normal.sql

    @property
    def range(self) -> HistoryRange:
        """The times of the rows."""
        return self.normal.history_range


# Recalls by a query over the rows before an event.
HistoryRecall = SqlRecall | NormalRecall


class Similarity(ConfigModel):
    """Parameters of a similarity recall."""

    contexts: tuple[TableName, ...] | None = Field(
        default=None,
        min_length=1,
        description="Contexts of the rule to compare. Default: all.",
    )
    k: PositiveInt = Field(default=10, le=1000, description="Number of past events in the result.")
    measure: TableName = Field(
        default="tfidf", description="Similarity measure: tfidf, binary, attributes or learned."
    )
    gap: Duration = Field(
        default=timedelta(0),
        description="Minimum event time between a past event and the event.",
    )
    order: Literal["newest", "oldest", "promising", "mixed"] = Field(
        default="newest",
        description=(
            "Which chunks are read first: newest, oldest, promising (highest upper bound of the "
            "similarity) or mixed (alternately the newest and the most promising)."
        ),
    )


class SimilarRecall(Recall):
    """A recall of the past events whose contexts are most similar to those of the event."""

    similar: Similarity = Field(description="Parameters of the comparison.")
    corpus: Literal["fired", "events"] = Field(
        default="fired",
        description=(
            "Past events that are compared: those of alerts that fired, or all events of the rule. "
            "With events each event has a context."
        ),
    )


AnyRecall = Annotated[
    Annotated[SqlRecall, Tag("<sql>")]
    | Annotated[SimilarRecall, Tag("<similar>")]
    | Annotated[NormalRecall, Tag("<normal>")],
    discriminate_by_key(
        "set exactly one of sql, similar and normal",
        sql=SqlRecall,
        similar=SimilarRecall,
        normal=NormalRecall,
    ),
]


def complete_norms(
    recalls: Mapping[str, Recall], expr: str | None, stream: str | None
) -> dict[str, Recall]:
    """The recalls, norms with the table that the event query `expr` reads, or else `stream`.

    Raises an error unless it is one stream.
    """
    completed = dict(recalls)
    problems: list[ValueProblem] = []
    for name, recall in recalls.items():
        if not isinstance(recall, NormalRecall) or recall.normal.stream is not None:
            continue
        names = _find_tables(expr) if stream is None else [stream]
        if len(names) != 1 or "." in names[0]:
            message = (
                "set stream: it does not follow from the event query, which reads no or several"
            )
            problems.append(ValueProblem((name, "normal"), message))
            continue
        norm = recall.normal.model_copy(update={"stream": names[0]})
        completed[name] = recall.model_copy(update={"normal": norm})
    raise_problems(problems)
    return completed


def _find_tables(expr: str | None) -> list[str]:
    """The tables that a query reads; none if it cannot be parsed, which is reported by its check."""
    if expr is None:
        return []
    try:
        return sorted(tables_in(expr))
    except Unsupported:
        return []


class ThenStage(QuerySpec):
    """A stream computed from the event, its recalls and contexts, other stages and live streams.

    It is computed again at each revision of what it reads. Its rows carry the key of the event.
    """

    stream: TableName = Field(
        description=(
            "Name of the stream that this stage produces, unique in all files. Event queries and "
            "derived streams of other rules read it as that of a recall."
        ),
    )
    analysis: Literal["event", "present"] = Field(
        default="event",
        description=(
            "Which live rows are joined: event (those of the window of the event) or present "
            "(also later ones)."
        ),
    )
