"""Models of a file of rule tests. Keys are those of `promtool test rules` where they mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from moirae.config import DURATION_SCHEMA, Duration, PositiveDuration
from moirae.documents.types import (
    ConfigModel,
    LabelName,
    Number,
    TableName,
    Text,
    TextNumberOrFlag,
    ValueProblem,
    raise_problems,
)

Row = Mapping[str, Any]
"""A row of a stream, relation, event or answer: values by name of the column."""


def _read_zero(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return "0s" if value == "0" or (is_number and value == 0) else value


TestTime = Annotated[
    Duration,
    BeforeValidator(_read_zero),
    WithJsonSchema({"anyOf": [DURATION_SCHEMA, {"const": 0}]}),
]
"""A time since the start of a test: a duration, or 0, as promtool accepts it."""

_ABOUT_EVENT = ("exp_contexts", "exp_recalls", "exp_similar", "exp_stages")


class _WithForeignKeys(ConfigModel):
    """Refuses keys that others know, and that mean nothing here, with the reason."""

    foreign_keys: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_foreign_keys(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            raise_problems(
                ValueProblem((key,), message)
                for key, message in cls.foreign_keys.items()
                if key in data
            )
        return data


class InputSeries(ConfigModel):
    """Rows at a fixed interval from the start of the test."""

    series: Row = Field(description="Columns with the same value in all rows.")
    values: Mapping[Text, TextNumberOrFlag] = Field(
        min_length=1,
        description="Values of other columns, one for each interval: 1+2x3 is 1 3 5 7, 1-2x3 is "
        "1 -1 -3 -5, 5x3 is 5 5 5 5, _ leaves a value out, _x3 three of them.",
        examples=[{"cpu": "20x4 95x10 _ 30"}],
    )


class InputFile(ConfigModel):
    """The rows of a file, as the source of the stream would read it."""

    file: Text = Field(description="Path relative to the file of the test.")


def _input_kind(value: Any) -> str:
    if isinstance(value, InputSeries) or (
        isinstance(value, Mapping) and value.keys() == {"series", "values"}
    ):
        return "<series>"
    if isinstance(value, InputFile) or (isinstance(value, Mapping) and value.keys() == {"file"}):
        return "<file>"
    return "<row>"


InputRows = Annotated[
    Annotated[InputSeries, Tag("<series>")]
    | Annotated[InputFile, Tag("<file>")]
    | Annotated[Row, Tag("<row>")],
    Discriminator(_input_kind),
]
"""A row; several at an interval; or those of a file."""


class ExpectedAlert(ConfigModel):
    """An alert at the time of an evaluation."""

    state: Literal["pending", "firing", "resolved"] = Field(
        default="firing", description="State of the alert."
    )
    exp_labels: Mapping[LabelName, TextNumberOrFlag] = Field(
        default_factory=dict,
        description="Labels of the rule and values of the key, as receivers get them, without "
        "alertname.",
    )
    exp_annotations: Mapping[LabelName, TextNumberOrFlag] = Field(
        default_factory=dict, description="Annotations, filled in."
    )


class ExpectedMessageAlert(ConfigModel):
    """An alert in a message."""

    state: Literal["firing", "resolved"] = Field(
        default="firing", description="State of the alert."
    )
    exp_labels: Mapping[LabelName, TextNumberOrFlag] = Field(
        default_factory=dict,
        description="Labels as receivers get them. alertname is that of the entry, if it is not "
        "named.",
    )


class ExpectedNotification(ConfigModel):
    """A message to a receiver."""

    receiver: Text = Field(description="Name of the receiver.")
    time: TestTime | None = Field(
        default=None, description="Time since the start at which it is sent. Default: any."
    )
    status: Literal["firing", "resolved"] | None = Field(
        default=None, description="Whether one of its alerts fires. Default: either."
    )
    group_labels: Mapping[LabelName, TextNumberOrFlag] | None = Field(
        default=None, description="All labels of its group. Default: any."
    )
    exp_alerts: tuple[ExpectedMessageAlert, ...] | None = Field(
        default=None, description="Its alerts, those of other rules too. Default: any."
    )


class AlertTest(ConfigModel):
    """What is expected of an alert rule at a time."""

    eval_time: TestTime = Field(
        description="Time since the start of the test; the events up to it count."
    )
    alertname: Text = Field(description="Name of the rule, with or without its group.")
    match: Literal["exact", "contains"] = Field(
        default="exact",
        description="exact: nothing else is there; contains: other alerts, labels, annotations, "
        "events and rows may be.",
    )
    tolerance: Number | None = Field(
        default=None,
        ge=0,
        description="How far numbers of events, contexts and answers may differ, as a part of the "
        "larger one; null: 1e-9.",
    )
    exp_alerts: tuple[ExpectedAlert, ...] | None = Field(
        default=None,
        description="The alerts that fire, and those in any other state that an entry names. "
        "Default, without other expectations: none.",
    )
    exp_events: tuple[Row, ...] | None = Field(
        default=None,
        description="The events up to the time, by some of their attributes. ts may be a time "
        "since the start.",
    )
    event: Row | None = Field(
        default=None,
        description="Attributes of the event of which contexts, answers, similar events and stages "
        "are expected. Default: the only first event of an alert.",
    )
    exp_contexts: Mapping[TableName, tuple[Row, ...]] | None = Field(
        default=None, description="Rows of contexts and surroundings of the event, by name."
    )
    exp_recalls: Mapping[TableName, tuple[Row, ...]] | None = Field(
        default=None,
        description="Rows of final answers of SQL recalls about the event, by name. They read "
        "earlier rows only.",
    )
    exp_similar: Mapping[TableName, tuple[Row, ...]] | None = Field(
        default=None,
        description="Past events in the final answers of similarity recalls about the event, by "
        "name: rank, score, ts, and attributes of the past event.",
    )
    exp_stages: Mapping[TableName, tuple[Row, ...]] | None = Field(
        default=None,
        description="Final rows of stages of the event, by the name of their stream.",
    )
    exp_notifications: tuple[ExpectedNotification, ...] | None = Field(
        default=None,
        validate_default=True,
        description="The messages up to the time in which alerts of the rule are, by the routes of "
        "the workspace.",
    )

    @property
    def is_about_event(self) -> bool:
        """Whether it expects something of one event."""
        return any(getattr(self, name) is not None for name in _ABOUT_EVENT)

    @field_validator("exp_notifications")
    @classmethod
    def _require_use(cls, value: Any, info: Any) -> Any:
        """`event` and `tolerance` would do nothing without what they are for."""
        data = info.data
        about_event = any(data.get(name) is not None for name in _ABOUT_EVENT)
        names = ", ".join(_ABOUT_EVENT)
        problems: list[ValueProblem] = []
        if data.get("event") is not None and not about_event:
            problems.append(ValueProblem((), f"event needs one of {names}"))
        has_numbers = about_event or data.get("exp_events") is not None
        if data.get("tolerance") is not None and not has_numbers:
            problems.append(ValueProblem((), f"tolerance needs one of exp_events, {names}"))
        raise_problems(problems)
        return value


class RuleTest(_WithForeignKeys):
    """Input rows, and what rules make of them."""

    foreign_keys: ClassVar[Mapping[str, str]] = {
        "input_series": "write `input: {STREAM: [{series: {…}, values: {COLUMN: …}}]}`",
        "promql_expr_test": "there is no PromQL here; expect events with exp_events",
        "external_labels": "not supported",
        "external_url": "not supported",
    }

    name: Text | None = Field(
        default=None,
        description="Name of the test, unique in its file. Default: `test` and its number.",
    )
    start_timestamp: TextNumberOrFlag = Field(
        default="1970-01-01T00:00:00Z",
        validate_default=True,
        description="Event time at which the test starts: ISO 8601, or seconds since 1970.",
    )
    interval: PositiveDuration = Field(
        default=timedelta(minutes=1), description="Event time between the values of a series."
    )
    input: Mapping[TableName, tuple[InputRows, ...]] = Field(
        default_factory=dict,
        description="Rows by stream: single ones, series, or files. Event times may be written as "
        "time since the start. All rows are in time, in whichever order they are written.",
    )
    relations: Mapping[TableName, tuple[Row, ...]] = Field(
        default_factory=dict,
        description="Rows of relations. Without valid_from they are valid at all times. Relations "
        "that are not named are empty.",
    )
    alert_rule_test: tuple[AlertTest, ...] = Field(
        min_length=1, description="What is expected, at any times."
    )


class RuleTestFile(_WithForeignKeys):
    """A file of rule tests."""

    foreign_keys: ClassVar[Mapping[str, str]] = {
        "evaluation_interval": "rules are evaluated continuously; set `interval` of tests",
        "group_eval_order": "the order of groups has no effect; remove it",
        "fuzzy_compare": "set `tolerance` of an expectation",
    }

    rule_files: tuple[Text, ...] = Field(
        default=(),
        description="Rule files, relative to this file; * and ** match. Default: those of the "
        "workspace.",
    )
    tests: tuple[RuleTest, ...] = Field(min_length=1, description="The tests of the file.")

    @field_validator("tests")
    @classmethod
    def _require_unique_names(cls, tests: tuple[RuleTest, ...]) -> tuple[RuleTest, ...]:
        names = [test.name for test in tests]
        raise_problems(
            ValueProblem((index, "name"), f"duplicate name {name!r}", 1)
            for index, name in enumerate(names)
            if name is not None and name in names[:index]
        )
        return tests
