"""Models of a rule file: groups of derived streams and alert rules.

`moirae.rules.rule_set` turns them into the rules that are deployed. The texts of fields appear in
the JSON Schema and in the reference pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from moirae.config import Duration, PositiveDuration
from moirae.documents import KeyPath, format_value
from moirae.documents.types import (
    ConfigModel,
    Flag,
    LabelName,
    Parameter,
    PositiveInt,
    Sql,
    TableName,
    Text,
    TextOrNumber,
    Title,
    ValueProblem,
    raise_problems,
)
from moirae.errors import TemplateFault
from moirae.rules.external import EXTERNAL_GROUP, complete_external_rule
from moirae.rules.questions import (
    AnyRecall,
    ContextSpec,
    Recall,
    SimilarRecall,
    SurroundingSpec,
    ThenStage,
    check_attributes,
    complete_norms,
)
from moirae.rules.templates import find_attributes, find_variables

LintName = Literal[
    "unused-context",
    "unbounded-recall",
    "spark-expression",
    "no-route",
    "partial-comparison",
    "hidden-coverage",
    "missing-severity",
    "missing-runbook",
    "short-keep-firing",
    "flapping",
    "always-together",
    "never-matched",
]
"""Lints of `moirae rules check`: warnings; notes, which begin with `missing`; and from
`short-keep-firing` on those of `--history`.
"""

RESERVED_LABELS = frozenset({"alertname"})
# Variables that templates of annotations may use.
TEMPLATE_VARIABLES = frozenset({"event", "labels", "parameters"})


class DerivedStreamSpec(ConfigModel):
    """A named query whose result is a stream that all rules of its group may read."""

    stream: TableName = Field(description="Name of the stream, unique in all files.")
    expr: Sql = Field(description="Spark SQL. Select the event time of each row AS ts.")
    archive: Flag = Field(
        default=False, description="Archive its rows even if no recall reads them."
    )


class AlertSpec(ConfigModel):
    """An alert rule: its event query, labels, contexts and recalls.

    Set either `expr`, whose rows are events, or `absent` with `stream` and `key`. Absence gives an
    event for each key value that was seen in the stream, then missing for `absent` of event time.
    """

    alert: Title = Field(description="Name of the alert, unique in its group.")
    parameters: Mapping[TableName, Parameter] = Field(
        default_factory=dict,
        description=(
            "Constants by name: in the SQL of the rule, :threshold stands for the value of "
            "threshold. `moirae rules tune` tries other values."
        ),
        examples=[{"threshold": 90}],
    )
    expr: Sql | None = Field(
        default=None,
        description=(
            "Spark SQL whose rows are events. Select the event time AS ts; the other columns "
            "are attributes of the event. It reads streams, relations, derived streams, the events "
            "of other rules (events.NAME) and alerts of rules that it names."
        ),
    )
    external: Flag = Field(
        default=False,
        description=(
            "Alternative to expr: events are the posts of alerts with the name `alert` by other "
            "systems. The rule is called external/<alert>; event.<label> is a label. It has the "
            "context labels and the recall similar, which compares them."
        ),
    )
    absent: PositiveDuration | None = Field(
        default=None,
        validate_default=True,
        description=(
            "Alternative to expr: time in event time without rows of a known key value after "
            "which there is an event."
        ),
    )
    stream: TableName | None = Field(
        default=None,
        validate_default=True,
        description="With absent: the stream or derived stream to watch.",
    )
    expected: TableName | None = Field(
        default=None,
        validate_default=True,
        description=(
            "With absent: a relation with the columns of key. A key of it that has not been seen "
            "since its row became valid, or since the first row of the stream, counts as absent too."
        ),
    )
    key: tuple[Text, ...] | None = Field(
        default=None,
        validate_default=True,
        description=(
            "Attributes that, with the name of the alert, form its fingerprint. Default: all "
            "string columns."
        ),
    )
    id: tuple[Text, ...] | None = Field(
        default=None,
        description="Attributes that, with ts, identify an event. Default: those of key.",
    )
    for_: Duration = Field(
        default=timedelta(0),
        alias="for",
        description="Event time for which events must continue before the alert fires.",
    )
    keep_firing_for: Duration = Field(
        default=timedelta(minutes=5),
        description="Event time without another event after which the alert is resolved.",
    )
    on_silence: Literal["resolve", "hold"] | None = Field(
        default=None,
        description=(
            "What becomes of an alert when no row with the values of its key comes for "
            "keep_firing_for after its last event: it is resolved, with reason no_data, or held "
            "until rows come again. hold needs a key of plain columns of streams. null: resolve."
        ),
    )
    delay: Duration = Field(
        default=timedelta(0),
        description=(
            "Event time after an event up to which its contexts and surroundings read rows, "
            "unless they set their own delay. The event is settled when all streams have passed "
            "it."
        ),
    )
    early: Flag = Field(
        default=False,
        description=(
            "Of a windowed rule: evaluate open windows with every batch. Such events are "
            "provisional and start recalls; they are confirmed, updated or withdrawn when their "
            "window closes."
        ),
    )
    where_wait: Duration | None = Field(
        default=None,
        description=(
            "Wall-clock time for which the first notification of an alert waits for the result of "
            "where; null: 30s."
        ),
    )
    history_wait: Duration | None = Field(
        default=None,
        description=(
            "Wall-clock time for which the first notification of an alert waits for the answers of "
            "its recalls; null: 0.5s."
        ),
    )
    labels: Mapping[LabelName, TextOrNumber] = Field(
        default_factory=dict, description="Labels of the alert."
    )
    annotations: Mapping[LabelName, TextOrNumber] = Field(
        default_factory=dict,
        description=(
            "Jinja templates of texts for operators. event.<attribute> is an attribute of the "
            "event, labels.<name> a label, parameters.<name> a constant."
        ),
    )
    context: Mapping[TableName, ContextSpec] = Field(
        default_factory=dict,
        description="Contexts by name. Similarity recalls compare events by them.",
    )
    surroundings: Mapping[TableName, SurroundingSpec] = Field(
        default_factory=dict,
        description="Surroundings by name. They are shown with an event, not compared.",
    )
    recall: Mapping[TableName, AnyRecall] = Field(
        default_factory=dict, description="Recalls by name: queries over the archive."
    )
    recall_on: Literal["firing", "every"] = Field(
        default="firing",
        description=(
            "Start recalls when the alert fires (for its first event), or for every event of "
            "the alert."
        ),
    )
    where: Sql | None = Field(
        default=None,
        description=(
            "Spark SQL condition over the event and its SQL recalls, evaluated at each of their "
            "revisions. While it is false, the alert is hidden and exported as withdrawn."
        ),
    )
    then: tuple[ThenStage, ...] = Field(
        default=(), description="Streams computed from recalls, other stages and live streams."
    )
    lint: Mapping[LintName, Text] = Field(
        default_factory=dict,
        description=(
            "Lints of `moirae rules check` that are silenced, by name, each with the reason."
        ),
        examples=[{"no-route": "shown on the wall only"}],
    )
    enabled: Flag = Field(
        default=True, description="If false, the rule is checked and stored, but not evaluated."
    )
    limit: PositiveInt | None = Field(
        default=None,
        description=(
            "Maximum number of events per evaluation. Further events are dropped and counted, "
            "and the evaluation counts as a failure of the rule. Default: the limit of the "
            "group."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _complete_external(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("external") is True:
            return complete_external_rule(data)
        return data

    @field_validator("absent")
    @classmethod
    def _require_one_trigger(
        cls, absent: timedelta | None, info: ValidationInfo
    ) -> timedelta | None:
        if "expr" in info.data and (absent is None) == (info.data["expr"] is None):
            raise ValueError("set exactly one of expr and absent")
        return absent

    @field_validator("stream")
    @classmethod
    def _require_stream_with_absent(cls, stream: str | None, info: ValidationInfo) -> str | None:
        if "absent" in info.data and (stream is None) != (info.data["absent"] is None):
            raise ValueError("set absent and stream together, or neither")
        return stream

    @field_validator("expected")
    @classmethod
    def _require_absent_with_expected(
        cls, expected: str | None, info: ValidationInfo
    ) -> str | None:
        if expected is not None and info.data.get("absent") is None:
            raise ValueError("expected is for rules with absent")
        return expected

    @field_validator("key")
    @classmethod
    def _validate_key(
        cls, key: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        if info.data.get("absent") is not None and not key:
            raise ValueError("absent requires key: the columns whose values are watched")
        names = key or ()
        check_attributes(names)
        problems: list[ValueProblem] = []
        for index, name in enumerate(names):
            if name == "ts":
                message = "ts is not allowed in key: every event would form an alert of its own"
                problems.append(ValueProblem((index,), message))
        raise_problems(problems)
        return key

    @field_validator("id")
    @classmethod
    def _validate_id(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        check_attributes(names or ())
        return names

    @field_validator("labels")
    @classmethod
    def _reject_reserved_labels(cls, labels: Mapping[str, str]) -> Mapping[str, str]:
        problems: list[ValueProblem] = []
        for name in labels:
            if name in RESERVED_LABELS or name.startswith("__"):
                problems.append(ValueProblem((name,), f"label name {name!r} is reserved"))
        raise_problems(problems)
        return labels

    @field_validator("annotations")
    @classmethod
    def _validate_templates(
        cls, annotations: Mapping[str, str], info: ValidationInfo
    ) -> Mapping[str, str]:
        problems: list[ValueProblem] = []
        for name, template in annotations.items():
            try:
                unknown = sorted(find_variables(template) - TEMPLATE_VARIABLES)
                parameters = find_attributes(template, "parameters")
            except TemplateFault as fault:
                problems.append(ValueProblem((name,), fault.message, fault.line))
                continue
            for parameter, line in parameters.items():
                if parameter not in info.data.get("parameters", ()):
                    message = f"unknown parameter {format_value(parameter)}"
                    problems.append(ValueProblem((name,), message, line))
            if unknown:
                available = ", ".join(sorted(TEMPLATE_VARIABLES))
                message = f"unknown variable {format_value(unknown[0])}; available: {available}"
                problems.append(ValueProblem((name,), message, 1))
        raise_problems(problems)
        return annotations

    @field_validator("context", "surroundings", "recall")
    @classmethod
    def _reject_name_clashes(
        cls, tables: Mapping[str, Any], info: ValidationInfo
    ) -> Mapping[str, Any]:
        other_fields = {"context", "surroundings"} - {info.field_name}
        used_names = _event_table_names(info, other_fields)
        _reject_used_names(((name,), name) for name in tables if name in used_names)
        return tables

    @field_validator("recall")
    @classmethod
    def _require_known_contexts(
        cls, recalls: Mapping[str, Recall], info: ValidationInfo
    ) -> Mapping[str, Recall]:
        contexts = info.data.get("context")
        if contexts is None:  # invalid, and reported as such
            return recalls
        problems: list[ValueProblem] = []
        for name, recall in recalls.items():
            if not isinstance(recall, SimilarRecall):
                continue
            for index, context in enumerate(recall.similar.contexts or ()):
                if context not in contexts:
                    path = (name, "similar", "contexts", index)
                    problems.append(ValueProblem(path, f"unknown context {context!r}"))
        raise_problems(problems)
        return recalls

    @field_validator("recall")
    @classmethod
    def _complete_norms(
        cls, recalls: Mapping[str, Recall], info: ValidationInfo
    ) -> Mapping[str, Recall]:
        if not {"expr", "stream"} <= info.data.keys():  # invalid, and reported as such
            return recalls
        return complete_norms(recalls, info.data["expr"], info.data["stream"])

    @field_validator("then")
    @classmethod
    def _validate_stages(
        cls, stages: tuple[ThenStage, ...], info: ValidationInfo
    ) -> tuple[ThenStage, ...]:
        used_names = _event_table_names(info, ("context", "surroundings", "recall"))
        clashes: list[tuple[KeyPath, str]] = []
        for index, stage in enumerate(stages):
            if stage.stream in used_names:
                clashes.append(((index, "stream"), stage.stream))
            used_names.add(stage.stream)
        _reject_used_names(clashes)
        return stages


def _event_table_names(info: ValidationInfo, fields: Iterable[str]) -> set[str]:
    """The name `event` and those in the given fields; fields that are invalid have none."""
    names = {"event"}
    for field in fields:
        names.update(info.data.get(field) or ())
    return names


def _reject_used_names(clashes: Iterable[tuple[KeyPath, str]]) -> None:
    raise_problems(
        ValueProblem(path, f"the name {name!r} is already used in this rule")
        for path, name in clashes
    )


class Group(ConfigModel):
    """Rules that belong together and share derived streams."""

    name: Title = Field(description="Name of the group, unique in all files.")
    interval: PositiveDuration | None = Field(
        default=None,
        description=(
            "Minimum wall-clock time between two evaluations. No effect yet: rules are evaluated "
            "with every batch."
        ),
    )
    query_offset: Duration = Field(
        default=timedelta(0),
        description="Event time by which evaluation stays behind the watermark.",
    )
    limit: PositiveInt | None = Field(
        default=None,
        description=(
            "Maximum number of events of one rule per evaluation. Default: limits.matches of "
            "the workspace."
        ),
    )
    derived: tuple[DerivedStreamSpec, ...] = Field(
        default=(), description="Derived streams of the group."
    )
    rules: tuple[AlertSpec, ...] = Field(default=(), description="Alert rules of the group.")

    @field_validator("rules")
    @classmethod
    def _reject_reserved_group(
        cls, rules: tuple[AlertSpec, ...], info: ValidationInfo
    ) -> tuple[AlertSpec, ...]:
        if info.data.get("name") == EXTERNAL_GROUP and not all(rule.external for rule in rules):
            raise ValueError("the group external is reserved for rules with `external: true`")
        return rules


class RuleFile(ConfigModel):
    """A file of rules."""

    groups: tuple[Group, ...] = Field(min_length=1, description="The groups of the file.")
