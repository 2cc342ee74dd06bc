"""The built-in stream of alerts that other systems post: one row for each post of an alert.

Its event time is the clock of the server at which the post arrived, which no source can set. The
rows are never late: an alert fires however long ago it started.
"""

from functools import cache

from moirae.config.streams import Stream

EXTERNAL_ALERTS = "external_alerts"


@cache
def external_alerts_stream() -> Stream:
    """The declaration of the stream.

    `labels`, `annotations`: JSON objects of texts, sorted by name. `ends_at`: NULL if the post names
    no end. `digest`: of the post, so that two posts at the same time are two rows.
    """
    return Stream.model_validate(
        {
            "columns": {
                "ts": "timestamp",
                "alertname": "string",
                "labels": "string",
                "starts_at": "timestamp",
                "ends_at": "timestamp",
                "annotations": "string",
                "generator_url": "string",
                "digest": "string",
            },
            "time": "ts",
            "id": ["labels", "starts_at", "digest"],
            "key": ["alertname"],
            "lateness": "0s",
            "future": "1h",
            "source": {"http": True},
        }
    )
