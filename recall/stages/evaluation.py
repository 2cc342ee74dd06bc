"""Evaluates the query of a stage for many events: in DuckDB where it means the same, else in Spark.

Live rows are the archived on-time rows of streams, in one version of the archive for all stages
that are evaluated together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from archiver.errors import ArchiverError
from archiver.read import Reader, StreamSnapshot
from archiver.time_range import TimeRange
from archiver.times import micros_column
from recall.engines import (
    DuckDBStatements,
    SparkEngine,
    SparkStatements,
    Statement,
    evaluate_condition,
    select_range,
    to_json_value,
)
from recall.engines.isolation import run_isolated, split_in_halves
from recall.engines.pending_events import (
    PLAIN_TYPES,
    PendingEvent,
    create_event_table,
    create_pending_frame,
    create_pending_table,
    to_arrow_value,
)
from recall.engines.routing import EngineChoice
from recall.errors import EngineLost, ExecutorsAway, SparkRequired
from recall.event_plans import ColumnTypes, Condition, Stage
from recall.query import sql_names
from recall.requests import RecallEvent
from recall.sandbox import validate_query
from recall.stages.statements import (
    PENDING_TABLE,
    StageQuery,
    derived_input_table,
    input_table,
)

Rows = Sequence[Mapping[str, Any]]
# By recall name: the rows of its answer, and the types of their columns.
RecallAnswers = Mapping[str, tuple[Sequence[Mapping[str, Any]], ColumnTypes]]

_MICROS = pa.timestamp("us", tz="UTC")
_ARROW_TYPES = {**PLAIN_TYPES, "timestamp": _MICROS}
# 9999-12-31: a range of event time without end.
_MAX_TIMESTAMP = 253_402_214_400_000_000  # microseconds
_TIME_LIMIT = 60.0  # seconds of processor time of one statement


@dataclass(frozen=True)
class StageInput:
    """An event, and the rows of the tables that a stage names."""

    event: RecallEvent
    tables: Mapping[str, Rows]

    @property
    def row_count(self) -> int:
        return sum(map(len, self.tables.values()))


@dataclass(frozen=True)
class StageFailure:
    """Why a stage has no rows for an event."""

    reason: str


@dataclass
class LiveRows:
    """On-time rows of streams in one version of the archive, read when they are needed first."""

    reader: Reader
    snapshots: Mapping[str, StreamSnapshot]
    _tables: dict[tuple[str, TimeRange], pa.Table] = field(default_factory=dict)

    @property
    def append_counts(self) -> dict[str, int]:
        """The number of appends of each stream that the version contains."""
        return {name: snapshot.append_count for name, snapshot in self.snapshots.items()}

    def read(self, stream: str, time_range: TimeRange, duckdb: DuckDBStatements) -> pa.Table:
        """The on-time rows of a stream in a range."""
        key = stream, time_range
        if key not in self._tables:
            self._tables[key] = self._read(stream, time_range, duckdb)
        return self._tables[key]

    def _read(self, stream: str, time_range: TimeRange, duckdb: DuckDBStatements) -> pa.Table:
        schema = self.reader.schema(stream)
        columns = list(schema.query_columns)
        snapshot = self.snapshots.get(stream, StreamSnapshot())
        fields = [schema.arrow_schema().field(name) for name in columns]
        parts = [pa.schema(fields).empty_table()]
        for rows in snapshot.rows:
            parts.append(rows.filter(pc.invert(rows["_late"])).select(columns))
        if snapshot.files:
            parts.append(duckdb.run(Statement(select_range(snapshot, columns, time_range))))
        casted = [part.cast(parts[0].schema) for part in parts]
        table = pa.concat_tables(casted).combine_chunks()
        is_inside = time_range.mask(micros_column(table, schema.time))
        return table.filter(pa.array(is_inside))


class StageEvaluator:
    """Runs the queries of stages, and conditions, one at a time.

    `relations`: returns all versions of a relation. `session`: starts a Spark session if needed.
    `max_rows`: of the inputs of a stage for one event, live rows included, and of its result.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        relations: Callable[[str], pa.Table],
        session: Callable[[], SparkSession],
        choice: EngineChoice,
        max_rows: int,
    ) -> None:
        self._reader = reader
        self._relations = relations
        self._spark = SparkStatements(session)
        self._conditions = SparkEngine(session, reader, relations)
        self._choice = choice
        self._max_rows = max_rows
        self._duckdb = DuckDBStatements()
        self._checked: set[str] = set()

    def snapshot(self, stages: Sequence[Stage], events: Sequence[RecallEvent]) -> LiveRows:
        """The newest version of all streams that some stages read for some events."""
        ranges: dict[str, TimeRange] = {}
        for stage in stages:
            for event in events:
                window = live_range(stage, event)
                for stream in stage.streams:
                    # Derived streams read more: their inputs are not bounded here.
                    span = TimeRange(None) if stage.derived else window
                    ranges[stream] = ranges[stream].enclose(span) if stream in ranges else span
        readable = {name: span for name, span in ranges.items() if name in self._reader.streams}
        return LiveRows(self._reader, self._reader.acquire(readable))

    def evaluate(
        self, query: StageQuery, inputs: Sequence[StageInput], live_rows: LiveRows
    ) -> dict[UUID, list[dict[str, Any]] | StageFailure]:
        """The rows of a stage for each event, in an order of their own."""
        results: dict[UUID, list[dict[str, Any]] | StageFailure] = {}
        runnable = []
        live_tables = self._read_streams(query, inputs, live_rows)
        for stage_input in inputs:
            count = stage_input.row_count
            for stream, rows in live_tables.items():
                # An upper bound suffices where it is within the limit.
                if count + len(rows) > self._max_rows:
                    rows = _matching_rows(query, stream, rows, stage_input.event)
                count += len(rows)
            if count > self._max_rows:
                results[stage_input.event.eid] = self._too_many(f"{count:,} rows of its inputs")
            else:
                runnable.append(stage_input)
        if not runnable:
            return results

        def run(part: Sequence[StageInput]) -> dict[UUID, list[dict[str, Any]]]:
            return self._run(query, part, live_rows)

        for part, outcome in run_isolated(runnable, run, (Exception,), self._split):
            for stage_input in part:
                eid = stage_input.event.eid
                if isinstance(outcome, Exception):
                    results[eid] = StageFailure(_summarise(outcome))
                elif len(outcome.get(eid, ())) > self._max_rows:
                    results[eid] = self._too_many("more rows in its result")
                else:
                    results[eid] = outcome.get(eid, [])
        return results

    def _split(
        self, part: Sequence[StageInput], error: Exception
    ) -> Sequence[Sequence[StageInput]]:
        """Halves after an error of the query. Other errors are raised: it is run again later."""
        if isinstance(error, ArchiverError | OSError | ExecutorsAway):
            raise error
        if not self._conditions.is_alive():
            raise EngineLost from error
        return split_in_halves(part, error)

    def evaluate_condition(
        self, condition: Condition, event: RecallEvent, answers: RecallAnswers
    ) -> bool | None:
        """Whether a condition holds for any combination of the rows of its answers.

        None: all combinations give NULL. Raises `EngineLost`, and the errors of Spark.
        """
        try:
            return self._choice.run(
                lambda: evaluate_condition(condition, event, answers, self._duckdb),
                lambda: self._conditions.evaluate_condition(condition, event, answers),
            )
        except Exception as error:
            if not self._conditions.is_alive():
                raise EngineLost from error
            raise

    def _too_many(self, rows: str) -> StageFailure:
        return StageFailure(f"limit exceeded: {rows} than limits.stage_rows = {self._max_rows:,}")

    def _read_streams(
        self, query: StageQuery, inputs: Sequence[StageInput], live_rows: LiveRows
    ) -> dict[str, pa.Table]:
        """The live rows of all events together, by stream."""
        window = _enclosing_range(query, inputs)
        tables = {}
        for stream in sorted(query.lifted.inputs.streams & live_rows.snapshots.keys()):
            tables[stream] = live_rows.read(stream, window, self._duckdb)
        return tables

    def _run(
        self, query: StageQuery, inputs: Sequence[StageInput], live_rows: LiveRows
    ) -> dict[UUID, list[dict[str, Any]]]:
        pending = []
        for stage_input in inputs:
            window = live_range(query.stage, stage_input.event)
            end = _MAX_TIMESTAMP if window.end is None else window.end
            pending.append(PendingEvent(stage_input.event, TimeRange(window.start, end)))
        tables = self._stream_tables(query, inputs, live_rows)
        for name in query.lifted.inputs.relations:
            tables[input_table(name)] = self._relations(name)
        table = self._choice.run(
            lambda: self._run_duckdb(query, pending, inputs, tables),
            lambda: self._run_spark(query, pending, inputs, tables),
        )
        return _rows_by_event(table)

    def _stream_tables(
        self, query: StageQuery, inputs: Sequence[StageInput], live_rows: LiveRows
    ) -> dict[str, pa.Table]:
        lifted_inputs = query.lifted.inputs
        window = _enclosing_range(query, inputs)
        tables = {}
        for stream in lifted_inputs.streams:
            tables[input_table(stream)] = live_rows.read(stream, window, self._duckdb)
        input_range = window.shift(start=-lifted_inputs.reach, end=max(lifted_inputs.lag, 0) + 1)
        for stream in lifted_inputs.derived:
            rows = live_rows.read(stream, input_range, self._duckdb)
            tables[derived_input_table(stream)] = rows
        return tables

    def _run_duckdb(
        self,
        query: StageQuery,
        pending: Sequence[PendingEvent],
        inputs: Sequence[StageInput],
        tables: Mapping[str, pa.Table],
    ) -> pa.Table:
        text = query.duckdb_sql
        if isinstance(text, SparkRequired):
            raise text
        all_tables = {**tables, PENDING_TABLE: create_pending_table(pending, query.attributes)}
        try:
            for name, columns in query.stage.tables.items():
                all_tables[input_table(name)] = _event_rows(name, columns, inputs)
            limit = (self._max_rows + 1) * len(inputs)
            result = self._duckdb.run(
                Statement(f"SELECT * FROM ({text}) LIMIT {limit}", all_tables), _TIME_LIMIT
            )
            return _to_spark_types(result, query.stage.columns)
        except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
            raise SparkRequired(str(error)) from error

    def _run_spark(
        self,
        query: StageQuery,
        pending: Sequence[PendingEvent],
        inputs: Sequence[StageInput],
        tables: Mapping[str, pa.Table],
    ) -> pa.Table:
        session = self._spark.attach_thread()
        self._spark.register(
            PENDING_TABLE, create_pending_frame(session, pending, query.attributes)
        )
        for name, columns in query.stage.tables.items():
            rows_by_event = {str(item.event.eid): item.tables.get(name, ()) for item in inputs}
            frame = create_event_table(session, rows_by_event, columns)
            self._spark.register(input_table(name), frame)
        for name, rows in tables.items():
            self._spark.register(name, rows)
        text = query.lifted.sql
        if text not in self._checked:
            # The text comes from the database: it passes the rule gate again.
            validate_query(session, text, internal=True)
            self._checked.add(text)
        limit = (self._max_rows + 1) * len(inputs)
        return self._spark.run(Statement(f"SELECT * FROM ({text}) LIMIT {limit}"), _TIME_LIMIT)


def live_range(stage: Stage, event: RecallEvent) -> TimeRange:
    """The event times of the live rows that a stage reads for an event."""
    start = event.ts - stage.within
    if stage.analysis == "present":
        return TimeRange(start)
    return TimeRange(start, event.ts + stage.delay + 1)


def _enclosing_range(query: StageQuery, inputs: Sequence[StageInput]) -> TimeRange:
    """The event times of the live rows that a stage reads for some events, at least one."""
    window = live_range(query.stage, inputs[0].event)
    for stage_input in inputs[1:]:
        window = window.enclose(live_range(query.stage, stage_input.event))
    return window


def _matching_rows(query: StageQuery, stream: str, rows: pa.Table, event: RecallEvent) -> pa.Table:
    """The rows of a stream that a stage reads for one event."""
    time = query.stage.streams[stream]
    rows = rows.filter(pa.array(live_range(query.stage, event).mask(micros_column(rows, time))))
    for filter_stream, column, attribute in query.lifted.inputs.attribute_filters:
        value = event.attributes.get(attribute)
        if filter_stream == stream and isinstance(value, str):
            rows = rows.filter(pc.equal(rows[column], value))
    return rows


def _to_spark_types(result: pa.Table, types: ColumnTypes) -> pa.Table:
    """A result of DuckDB with the names and types that Spark gives."""
    names = {name.lower(): name for name in types}
    fields = []
    for column in result.column_names:
        name = names.get(column.lower(), column)
        arrow_type = pa.string() if name == sql_names.EID else _ARROW_TYPES[types[name]]
        fields.append(pa.field(name, arrow_type))
    return result.rename_columns([item.name for item in fields]).cast(pa.schema(fields))


def _event_rows(name: str, columns: ColumnTypes, inputs: Sequence[StageInput]) -> pa.Table:
    """The rows of an input of all events as a table with their event."""
    eids: list[str] = []
    rows: list[Mapping[str, Any]] = []
    for stage_input in inputs:
        event_rows = stage_input.tables.get(name, ())
        eids += [str(stage_input.event.eid)] * len(event_rows)
        rows += event_rows
    arrays = {sql_names.EID: pa.array(eids, pa.string())}
    for column, kind in columns.items():
        if kind not in _ARROW_TYPES:
            # Not one of those that the query may use: see `check_stage_select`.
            continue
        arrow_type = _ARROW_TYPES[kind]
        values = [_parse_value(row.get(column), arrow_type) for row in rows]
        arrays[column] = pa.array(values, arrow_type)
    return pa.table(arrays)


def _parse_value(value: Any, arrow_type: pa.DataType) -> Any:
    """A value from JSON."""
    if value is not None and pa.types.is_timestamp(arrow_type):
        return datetime.fromisoformat(value)
    return to_arrow_value(value, arrow_type)


def _rows_by_event(table: pa.Table) -> dict[UUID, list[dict[str, Any]]]:
    eids = table[sql_names.EID].to_pylist()
    rows = table.drop_columns([sql_names.EID])
    columns = [list(map(to_json_value, column.to_pylist())) for column in rows.columns]
    rows_by_eid: dict[str, list[dict[str, Any]]] = {}
    for eid, *values in zip(eids, *columns, strict=True):
        row = dict(zip(rows.column_names, values, strict=True))
        rows_by_eid.setdefault(eid, []).append(row)
    for event_rows in rows_by_eid.values():
        event_rows.sort(key=orjson.dumps)
    return {UUID(eid): event_rows for eid, event_rows in rows_by_eid.items()}


def _summarise(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:1000] if text else type(error).__name__
