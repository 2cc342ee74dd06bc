"""What a rule asks about an event: contexts, surroundings, recalls and their joins with live data.

A query about an event is Spark SQL in which `event.<attribute>` stands for the new event's attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Tag

from moirae.config import Duration, PositiveDuration
from moirae.documents import (
    ConfigModel,
    KeyPath,
    Number,
    PositiveInt,
    Sql,
    TableName,
    Text,
    discriminate_by_key,
    raise_problems,
)

# What the system itself puts beside an event's attributes.
RESERVED_ATTRIBUTES = frozenset({"eid", "chunk"})


def check_attributes(names: Iterable[str]) -> None:
    """Refuse attribute names that are reserved or named twice."""
    problems: list[tuple[KeyPath, str]] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name.lower() in RESERVED_ATTRIBUTES or name.startswith("_"):
            problems.append(((place,), f"attribute name {name[:80]!r} is reserved"))
        if name in seen:
            problems.append(((place,), f"attribute {name[:80]!r} is named twice"))
        seen.add(name)
    raise_problems(problems)


def _parse_bandwidths(value: Any) -> Any:
    """Read `[cpu]` as `{cpu: null}`."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        check_attributes(value)
        return dict.fromkeys(value)
    return value


_Bandwidth = Annotated[Number, Field(gt=0)]
NumericColumns = Annotated[
    Mapping[Text, _Bandwidth | None],
    BeforeValidator(
        _parse_bandwidths, json_schema_input_type=list[str] | dict[str, _Bandwidth | None]
    ),
]


class QuerySpec(ConfigModel):
    """A query about an event."""

    sql: Sql = Field(description="Spark SQL; event.<attribute> stands for the event's attribute.")
    within: PositiveDuration | None = Field(
        default=None,
        description="How far before the event rows are taken, in event time. Needed where the query reads a "
        "stream; relations are read as of the event.",
    )
    delay: Duration | None = Field(
        default=None,
        description="How far after the event rows are taken, in event time; absent: the rule's delay.",
    )


class SurroundingSpec(QuerySpec):
    """What happened around an event: shown, never compared."""


class ContextSpec(QuerySpec):
    """What an event is compared by: each row's columns are attributes, their values terms."""

    numeric: NumericColumns = Field(
        default_factory=dict,
        description="Columns compared as numbers: a list, or a mapping to the bandwidth, in the column's "
        "unit; null: by Silverman's rule from history.",
    )


class Recall(ConfigModel):
    """A question to the past, asked for each event and answered in revisions."""

    every: PositiveDuration = Field(
        default=timedelta(seconds=1), description="Time between two revisions, by the clock."
    )
    feedback: PositiveDuration | None = Field(
        default=None,
        description="Time, by the clock, after which the recall is suspended until someone refines it; "
        "absent: never suspended.",
    )


class SqlRecall(Recall):
    """SQL over the archive before the event."""

    sql: Sql = Field(description="Spark SQL; event.<attribute> stands for the event's attribute.")
    range: PositiveDuration | None = Field(
        default=None,
        description="How far before the event history is read, in event time; absent: all of it.",
    )
    order: Literal["newest", "oldest", "promising", "mixed"] = Field(
        default="newest",
        description="Which chunks are read first: the newest, the oldest, those that hold most rows with the event's "
        "key, or by turns the newest and those.",
    )


class Similarity(ConfigModel):
    """How past events are compared with the new one."""

    contexts: tuple[TableName, ...] | None = Field(
        default=None,
        min_length=1,
        description="Contexts of the rule that are compared; absent: all of them.",
    )
    k: PositiveInt = Field(default=10, le=1000, description="Number of past events in the answer.")
    measure: TableName = Field(
        default="tfidf", description="Similarity measure: tfidf, binary or attributes."
    )
    gap: Duration = Field(
        default=timedelta(0),
        description="Past events must be at least this much older, in event time.",
    )
    order: Literal["newest", "oldest", "promising", "mixed"] = Field(
        default="newest",
        description="Which chunks are read first: the newest, the oldest, those whose term summaries promise most, or "
        "by turns the newest and those.",
    )


class SimilarRecall(Recall):
    """The past events whose contexts resemble the new event's most."""

    similar: Similarity = Field(description="How past events are compared.")


AnyRecall = Annotated[
    Annotated[SqlRecall, Tag("<sql>")] | Annotated[SimilarRecall, Tag("<similar>")],
    discriminate_by_key(
        "a recall has exactly one of sql and similar", sql=SqlRecall, similar=SimilarRecall
    ),
]


class ThenStage(ConfigModel):
    """A stream that joins the rule's recalls with live data."""

    stream: TableName = Field(description="Name of the stream that this stage makes.")
    sql: Sql = Field(description="Spark SQL over the rule's recalls, contexts and live streams.")
    within: PositiveDuration = Field(
        description="How far live rows may lie from the event, in event time."
    )
    analysis: Literal["event", "present"] = Field(
        default="event",
        description="event: live rows of the event's own window; present: also those that come later.",
    )
