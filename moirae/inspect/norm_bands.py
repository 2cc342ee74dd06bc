"""The bands of an event's norms around it, hour by hour, for charts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

import sql
from archiver.delta import StreamSchema, StreamTable
from archiver.read import read_newest_rows
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from archiver.times import (
    Micros,
    duration_to_micros,
    from_micros,
    micros_column,
    optional_datetime,
)
from recall.history_ranges import HOUR, Season
from recall.ledger import Ledger
from recall.norms import NormSpec, compute_band
from recall.requests import RecallEvent

_MAX_ROWS = 2_000_000  # of the files that are read; more take seconds


@dataclass(frozen=True)
class NormBand:
    """What a norm says is usual of a column from each of `starts` to each of `ends`, by quantiles.

    Of the rows before the event that it compares at that time. `since`: earlier rows are left out,
    since they are too many to be read for a chart; None: none are. `reason`: why there is no band;
    None: there is one.
    """

    recall: str
    stream: str
    column: str
    season: str
    starts: Sequence[datetime]
    ends: Sequence[datetime]
    q025: Sequence[float]
    median: Sequence[float]
    q975: Sequence[float]
    since: datetime | None = None
    reason: str | None = None


def load_norm_bands(
    storage: StorageRoot,
    connection: sql.Connection,
    schemas: Iterable[StreamSchema],
    eid: UUID,
    *,
    before: timedelta,
    after: timedelta,
) -> list[NormBand]:
    """The bands of the norms of an event that have an answer, which names their season."""
    schemas_by_name = {schema.name: schema for schema in schemas}
    reach = max(duration_to_micros(before), duration_to_micros(after))
    bands = []
    for row in Ledger(connection).latest_answers(eid).values():
        stored = row.request.get("norm")
        if stored is None or not row.answer:
            continue
        spec = NormSpec.from_json(stored)
        (stream,) = row.request["streams"]
        if spec.by is None or stream not in schemas_by_name:
            continue  # asked by an earlier version, or of a stream that is gone
        event = RecallEvent.from_json(eid, row.event)
        season = row.answer[0]["season"]
        shown = TimeRange(
            event.ts - duration_to_micros(before), event.ts + duration_to_micros(after)
        )
        band = NormBand(row.recall, stream, spec.of, season, [], [], [], [], [])
        rows = _read_rows(storage, schemas_by_name[stream], spec, season, event, reach)
        bands.append(_add_hours(band, season, spec, event, shown, rows))
    return bands


def _read_rows(
    storage: StorageRoot,
    schema: StreamSchema,
    spec: NormSpec,
    season: Any,
    event: RecallEvent,
    reach: Micros,
) -> tuple[pa.Table, Micros | None] | str:
    """The time and value of rows of the event's key, as far as the shown hours need them, and since
    when; or why there are none.
    """
    past = TimeRange(event.ts - spec.span, event.ts)
    ranges: Sequence[TimeRange] = (past,)
    if season != "none":
        ranges = Season(season, spec.zone, reach + HOUR).find_ranges(past, event.ts)
    if not StreamTable.exists(storage, schema.name):
        return "nothing is archived yet"
    table = StreamTable(storage, schema)
    key: Mapping[str, Any] = {name: event.attributes.get(name) for name in spec.by or ()}
    rows, since = read_newest_rows(table, key, [spec.of], ranges, _MAX_ROWS)
    if rows is None:
        return "no earlier rows" if since is None else f"more than {_MAX_ROWS:,} rows to read"
    return rows.select([schema.time, spec.of]).rename_columns(["ts", "value"]), since


def _add_hours(
    band: NormBand,
    season: Any,
    spec: NormSpec,
    event: RecallEvent,
    shown: TimeRange,
    rows_since: tuple[pa.Table, Micros | None] | str,
) -> NormBand:
    if isinstance(rows_since, str):
        return replace(band, reason=rows_since)
    rows, since = rows_since
    values = rows["value"].cast(pa.float64()).to_numpy(zero_copy_only=False)
    times = micros_column(rows, "ts")
    pieces = compute_band(
        spec, season, event.ts, shown, times, values.astype(np.float64), event.alerts
    )
    return replace(
        band,
        starts=[from_micros(piece.start) for piece in pieces],
        ends=[from_micros(piece.end) for piece in pieces],
        q025=[piece.band.q025 for piece in pieces],
        median=[piece.band.median for piece in pieces],
        q975=[piece.band.q975 for piece in pieces],
        since=optional_datetime(since),
        reason=None if pieces else "too few cycles",
    )
