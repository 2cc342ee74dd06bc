"""Streams whose rows other systems send by a protocol of theirs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from archiver.formats import Format
from moirae.config.matchers import Selectors
from moirae.documents.types import ConfigModel, OnlyTrue


class PushSource(ConfigModel):
    """What a protocol without a format of its own is stored as."""

    @property
    def record_format(self) -> Format:
        """The format in which rows are stored until they are archived."""
        return Format("jsonl")


class RemoteWriteSource(PushSource):
    """Samples that Prometheus sends by remote write.

    A row has the fields ts, metric, value, and one for each label.
    """

    remote_write: OnlyTrue = Field(description="true: samples are sent to /api/v1/write.")
    match: Selectors = Field(
        default=(),
        description="Series that the stream takes: a selector in PromQL's syntax, or a list of "
        "which one suffices. Default: all.",
        examples=['{__name__=~"node_.*"}'],
    )


class OtlpSource(PushSource):
    """Log records or metrics that OpenTelemetry sends by OTLP over HTTP.

    Attributes are the fields `attributes.NAME` and `resource.NAME` of a row. A log record has the
    fields ts, observed_ts, severity, severity_number, body, event_name, trace_id, span_id and scope;
    a data point ts, start_ts, metric, value, unit, temporality and scope.
    """

    otlp: Literal["logs", "metrics"] = Field(
        description="logs: log records sent to /v1/logs; metrics: gauges and sums sent to "
        "/v1/metrics."
    )
    match: Selectors = Field(
        default=(),
        description="Records that the stream takes, by their attributes and those of their "
        "resource, and `__name__`, the metric: a selector, or a list of which one suffices. Default: "
        "all.",
        examples=['{"service.name"="checkout"}'],
    )


class LokiSource(PushSource):
    """Log entries that Promtail, Alloy and others send by Loki's push protocol.

    A row has the fields ts, line, one for each label, and `metadata.NAME` for each structured
    metadata.
    """

    loki: OnlyTrue = Field(description="true: entries are sent to /loki/api/v1/push.")
    match: Selectors = Field(
        default=(),
        description="Entries that the stream takes, by their labels: a selector, or a list of which "
        "one suffices. Default: all.",
        examples=['{app="checkout"}'],
    )
