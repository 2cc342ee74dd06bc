"""Rows ahead of the clock in the status of a workspace. No I/O."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from archiver.times import format_duration, from_micros
from moirae.inspect.report import KeyAheadStatus, RowsAheadStatus

if TYPE_CHECKING:
    from archiver.ingest import KeyAhead

_MAX_KEYS = 10  # in the text of the status
_MAX_AGE = timedelta(hours=1)  # since rows of a key were last ahead
_MICROS_PER_SECOND = 1_000_000


def describe_rows_ahead(
    keys_ahead: Sequence["KeyAhead"], late: int, now: datetime
) -> RowsAheadStatus:
    """The part of a stream. `late`: number of its rows that are late because of rows ahead."""
    keys: list[KeyAheadStatus] = []
    for key in keys_ahead:
        at = from_micros(key.at)
        if at > now - _MAX_AGE:
            seconds = key.ahead / _MICROS_PER_SECOND
            keys.append({"key": dict(key.key), "ahead_seconds": seconds, "at": at})
    return {"late": late, "keys": keys}


def summarize_rows_ahead(streams: Mapping[str, Mapping[str, Any]]) -> str | None:
    """A line that names the keys furthest ahead of the clock; None if no row is.

    `streams`: as in the status.
    """
    entries = [
        (stream, entry) for stream, status in streams.items() for entry in status["ahead"]["keys"]
    ]
    late = sum(status["ahead"]["late"] for status in streams.values())
    if not entries and not late:
        return None
    entries.sort(key=lambda named: -float(named[1]["ahead_seconds"]))
    keys = [_format_key(stream, entry) for stream, entry in entries[:_MAX_KEYS]]
    names = ", ".join(keys) or "none in the last hour"
    return f"rows ahead of the clock: {names}; {late:,} other rows late because of them"


def _format_key(stream: str, entry: Mapping[str, Any]) -> str:
    key = " ".join(f"{column}={value}" for column, value in entry["key"].items())
    seconds = entry["ahead_seconds"]
    ahead = format_duration(
        timedelta(seconds=round(seconds) if seconds >= 1 else round(seconds, 3))
    )
    return f"{stream} {key} {ahead}" if key else f"{stream} {ahead}"
