"""The rule file as it is written: groups of derived streams and alert rules.

What is deployed is made from these models by `moirae.rules.rule_set`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from moirae.config import Duration, PositiveDuration
from moirae.documents import (
    ConfigModel,
    Flag,
    KeyPath,
    LabelName,
    PositiveInt,
    Sql,
    TableName,
    Text,
    TextOrNumber,
    Title,
    format_value,
    raise_problems,
)
from moirae.errors import TemplateFault
from moirae.rules.questions import (
    AnyRecall,
    ContextSpec,
    Recall,
    SimilarRecall,
    SurroundingSpec,
    ThenStage,
    check_attributes,
)
from moirae.rules.templates import find_variables

RESERVED_LABELS = frozenset({"alertname"})
# What annotations are filled from.
TEMPLATE_VARIABLES = frozenset({"event", "labels"})


class DerivedStreamSpec(ConfigModel):
    """A named query whose result is a stream that all rules of the group may read."""

    stream: TableName = Field(description="Name of the stream, unique over all files.")
    expr: Sql = Field(description="Spark SQL; every row has a column ts, its event time.")
    archive: Flag = Field(
        default=False, description="Whether its rows are archived even if no recall needs them."
    )


class AlertSpec(ConfigModel):
    """An alert with its query, its context and its questions to the past.

    It has either `expr`, whose rows are events, or `absent` with `stream` and `key`: then there is an event
    for each key value that was seen in that stream and has been silent, in event time, as long as `absent`.
    """

    alert: Title = Field(description="Name of the alert, unique in its group.")
    expr: Sql | None = Field(
        default=None,
        description="Spark SQL whose rows are events: a column ts, the others are attributes.",
    )
    absent: PositiveDuration | None = Field(
        default=None,
        validate_default=True,
        description="Instead of expr: silence of a key seen before, in event time, that makes an event.",
    )
    stream: TableName | None = Field(
        default=None,
        validate_default=True,
        description="With absent: the stream or derived stream that is watched.",
    )
    key: tuple[Text, ...] | None = Field(
        default=None,
        validate_default=True,
        description="Attributes that make the fingerprint with the alert's name; absent: all string columns.",
    )
    id: tuple[Text, ...] | None = Field(
        default=None,
        description="Attributes that, with ts, identify an event; absent: those of key.",
    )
    for_: Duration = Field(
        default=timedelta(0),
        alias="for",
        description="How long events must go on, in event time, before it fires.",
    )
    keep_firing_for: Duration = Field(
        default=timedelta(minutes=5),
        description="How long, in event time, it goes on without another event before it is resolved.",
    )
    delay: Duration = Field(
        default=timedelta(0),
        description="How far past an event, in event time, streams must be to settle it.",
    )
    labels: Mapping[LabelName, TextOrNumber] = Field(
        default_factory=dict, description="Labels of the alert, by which it is routed."
    )
    annotations: Mapping[LabelName, TextOrNumber] = Field(
        default_factory=dict,
        description="Jinja templates for people; event.<attribute> is the event's.",
    )
    context: Mapping[TableName, ContextSpec] = Field(
        default_factory=dict, description="What an event is compared by, by name."
    )
    surroundings: Mapping[TableName, SurroundingSpec] = Field(
        default_factory=dict, description="What is shown beside an event, by name."
    )
    recall: Mapping[TableName, AnyRecall] = Field(
        default_factory=dict, description="Questions to the past, by name."
    )
    recall_on: Literal["firing", "every"] = Field(
        default="firing", description="Recalls start when the alert fires, or at every event."
    )
    where: Sql | None = Field(
        default=None,
        description="Spark SQL condition over event and recalls; false holds the alert back.",
    )
    then: tuple[ThenStage, ...] = Field(
        default=(), description="Streams that join the recalls with live data."
    )
    enabled: Flag = Field(default=True, description="false: checked and kept, but not run.")
    limit: PositiveInt | None = Field(
        default=None,
        description="Most events in one evaluation; what is over is left out and counted, and the rule charged. "
        "Absent: the group's limit.",
    )

    @field_validator("absent")
    @classmethod
    def _require_one_trigger(
        cls, absent: timedelta | None, info: ValidationInfo
    ) -> timedelta | None:
        if "expr" in info.data and (absent is None) == (info.data["expr"] is None):
            raise ValueError("a rule has exactly one of expr and absent")
        return absent

    @field_validator("stream")
    @classmethod
    def _require_stream_with_absent(cls, stream: str | None, info: ValidationInfo) -> str | None:
        if "absent" in info.data and (stream is None) != (info.data["absent"] is None):
            raise ValueError("absent needs stream, and stream goes only with absent")
        return stream

    @field_validator("key")
    @classmethod
    def _validate_key(
        cls, key: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        if info.data.get("absent") is not None and not key:
            raise ValueError("absent needs key: the columns whose values may fall silent")
        check_attributes(key or ())
        places = (place for place, name in enumerate(key or ()) if name == "ts")
        raise_problems(
            ((place,), "ts cannot be in key: no two events would share an alert")
            for place in places
        )
        return key

    @field_validator("id")
    @classmethod
    def _validate_id(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        check_attributes(names or ())
        return names

    @field_validator("labels")
    @classmethod
    def _reject_reserved_labels(cls, labels: Mapping[str, str]) -> Mapping[str, str]:
        taken = [name for name in labels if name in RESERVED_LABELS or name.startswith("__")]
        raise_problems(((name,), f"label name {name!r} is reserved") for name in taken)
        return labels

    @field_validator("annotations")
    @classmethod
    def _validate_templates(cls, annotations: Mapping[str, str]) -> Mapping[str, str]:
        problems: list[tuple[KeyPath, str] | tuple[KeyPath, str, int]] = []
        for name, text in annotations.items():
            try:
                unknown = sorted(find_variables(text) - TEMPLATE_VARIABLES)
            except TemplateFault as fault:
                problems.append(((name,), fault.message, fault.line))
                continue
            if unknown:
                problems.append(
                    (
                        (name,),
                        f"unknown variable {format_value(unknown[0])}; there are event and labels",
                        1,
                    )
                )
        raise_problems(problems)
        return annotations

    @field_validator("context", "surroundings", "recall")
    @classmethod
    def _reject_name_clashes(
        cls, tables: Mapping[str, Any], info: ValidationInfo
    ) -> Mapping[str, Any]:
        earlier = {"context", "surroundings"} - {info.field_name}
        taken = {"event"}.union(*(info.data.get(field) or {} for field in earlier))
        _reject_taken_names(((name,), name) for name in tables if name in taken)
        return tables

    @field_validator("recall")
    @classmethod
    def _require_known_contexts(
        cls, recalls: Mapping[str, Recall], info: ValidationInfo
    ) -> Mapping[str, Recall]:
        known = info.data.get("context")
        problems: list[tuple[KeyPath, str]] = [
            ((name, "similar", "contexts", place), f"unknown context {context!r}")
            for name, recall in recalls.items()
            if isinstance(recall, SimilarRecall) and known is not None
            for place, context in enumerate(recall.similar.contexts or ())
            if context not in known
        ]
        raise_problems(problems)
        return recalls

    @field_validator("then")
    @classmethod
    def _validate_stages(
        cls, stages: tuple[ThenStage, ...], info: ValidationInfo
    ) -> tuple[ThenStage, ...]:
        taken = {"event"}.union(
            *(info.data.get(f) or {} for f in ("context", "surroundings", "recall"))
        )
        clashes: list[tuple[KeyPath, str]] = []
        for place, stage in enumerate(stages):
            if stage.stream in taken:
                clashes.append(((place, "stream"), stage.stream))
            taken.add(stage.stream)
        _reject_taken_names(clashes)
        return stages


def _reject_taken_names(places: Iterable[tuple[KeyPath, str]]) -> None:
    raise_problems((path, f"the name {name!r} is taken in this rule") for path, name in places)


class Group(ConfigModel):
    """Rules that belong together and share derived streams."""

    name: Title = Field(description="Name of the group, unique over all files.")
    interval: PositiveDuration | None = Field(
        default=None,
        description="Least time between two evaluations, by the clock; absent: with every batch.",
    )
    query_offset: Duration = Field(
        default=timedelta(0),
        description="How far behind the watermark rules are evaluated, in event time.",
    )
    limit: PositiveInt | None = Field(
        default=None,
        description="Most events of one rule in one evaluation; absent: limits.matches of the workspace.",
    )
    derived: tuple[DerivedStreamSpec, ...] = Field(
        default=(), description="Derived streams of the group."
    )
    rules: tuple[AlertSpec, ...] = Field(default=(), description="Alert rules of the group.")


class RuleFile(ConfigModel):
    """A file of rules."""

    groups: tuple[Group, ...] = Field(min_length=1, description="The groups of the file.")
