"""The local engine: DuckDB over the files of the archive, in milliseconds instead of tenths.

It serves only the queries of `recall.engines.duckdb.portable`. If it fails, Spark runs.
"""

from collections.abc import Sequence
from functools import reduce
from operator import attrgetter, itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from archiver.read import Reader, StreamSnapshot
from archiver.time_range import TimeRange
from recall.engines.answers import AnswerRows
from recall.engines.attribute_values import find_values, join_values
from recall.engines.duckdb import merge as merging
from recall.engines.duckdb.one_event import OneEventQuery
from recall.engines.duckdb.portable import PortableQueries, PortableQuery
from recall.engines.lru_cache import LruCache
from recall.engines.pending_events import create_pending_table, list_pending, list_ranges
from recall.engines.template import (
    PENDING_TABLE,
    RANGES_TABLE,
    EventPieces,
    EventTables,
    PartialQuery,
    Template,
    row_limit,
    split_by_event,
)
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.split import VARIANCE_KINDS
from recall.requests import Piece, RecallEvent, enclosing_range, union_ranges
from recall.statements import DuckDBStatements, Statement, scan_files

_BYTES_PER_MEGABYTE = 1e6
# Aggregates that Spark computes as double, whatever the column's type.
_DOUBLE_KINDS = frozenset(("sum", "avg", *VARIANCE_KINDS))


class LocalEngine:
    """DuckDB, on one thread, over the latest version of the archive's tables."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._queries = PortableQueries(reader)
        # None: not portable.
        self._merge_statements: LruCache[str, str | None] = LruCache()
        # Files never change, and many queries read the same ones.
        self._duckdb = DuckDBStatements(["SET parquet_metadata_cache = true"])

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> dict[str, pa.Table]:
        """See `SparkEngine.compute_partial`. Raises `SparkRequired`."""
        return self.compute_partials([PartialQuery(template, event_pieces, event_tables)])[0]

    def compute_partials(
        self, partial_queries: Sequence[PartialQuery]
    ) -> list[dict[str, pa.Table]]:
        """The partial answers to different queries of one stream, in one scan of its rows.

        Raises `SparkRequired` if one of the queries is not supported.
        """
        portable_queries: list[PortableQuery] = []
        streams: set[str] = set()
        pieces: list[Piece] = []
        for query in partial_queries:
            portable_queries.append(self._queries.get(query.template))
            streams |= _streams(query.template)
            pieces += query.pieces
        (stream,) = streams
        snapshot = self._reader.snapshot(stream, enclosing_range(pieces))
        snapshot = snapshot.within(union_ranges(pieces))
        if not snapshot.rows and not snapshot.files:
            return [{} for _ in partial_queries]
        scan = self._scan_sql(stream, snapshot, partial_queries)
        try:
            if len(pieces) == 1:
                one_event = portable_queries[0].one_event
                if _all_rows_in_range(snapshot, pieces):
                    one_event = portable_queries[0].one_event_in_range
                if one_event is not None:
                    return [self._compute_for_one_event(partial_queries[0], one_event, scan)]
            statements = []
            for number, query in enumerate(partial_queries):
                self._register_events(number, query)
                statements.append(_query_sql(number, query, portable_queries[number], snapshot))
            tables = self._run_queries(f'WITH "_in_{stream}" AS ', scan, statements)
            return list(map(split_answers, partial_queries, tables))
        except pa.ArrowException as error:
            raise SparkRequired(str(error)) from error

    def _compute_for_one_event(
        self, query: PartialQuery, one_event: OneEventQuery, scan: str
    ) -> dict[str, pa.Table]:
        ((event, piece),) = query.event_pieces
        (stream,) = _streams(query.template)
        text = f'WITH "_in_{stream}" AS ({scan}) {one_event.text}'
        if query.template.split.top is None:  # whose list has a limit of its own
            text += f" LIMIT {row_limit(1)}"
        rows = self._duckdb.run(Statement(text), parameters=one_event.bind(event, piece))
        return split_answers(query, rows)

    def _register_events(self, number: int, query: PartialQuery) -> None:
        """Register the events of a query as a table under the number of the query."""
        attributes = query.template.question.attributes
        table = create_pending_table(list_pending(query.event_pieces), attributes)
        self._duckdb.register(f"_pending_{number}", table)
        if query.template.reads_ranges:
            ranges = create_pending_table(list_ranges(query.event_pieces), attributes)
            self._duckdb.register(f"_ranges_{number}", ranges)

    def _scan_sql(
        self, stream: str, snapshot: StreamSnapshot, partial_queries: Sequence[PartialQuery]
    ) -> str:
        """SQL for the rows of a stream that can matter to some queries."""
        schema = self._reader.schema(stream)
        parts: list[dict[str, list[str]]] = []
        for query in partial_queries:
            template = query.template
            attributes = template.question.attributes
            parts.append(
                find_values(template.partial, stream, schema.columns, attributes, query.events)
            )
        where = ""
        for name, values in join_values(parts).items():
            if not values:
                continue
            # The rows of a single query are joined with its events while they are read, which is a
            # lookup already. A filter by the clustering key still saves reading row groups.
            if len(partial_queries) > 1 or len(values) == 1 or name in schema.key:
                where += f' AND "{name}" IN ({_string_literals(values)})'
        sources = []
        if snapshot.files:
            sources.append(scan_files(snapshot))
        if snapshot.rows:
            sources.append("_at_hand")
            self._duckdb.register("_at_hand", pa.concat_tables(snapshot.rows))
        columns = ", ".join(map('"{}"'.format, schema.query_columns))
        scans = []
        for source in sources:
            scans.append(f"SELECT {columns} FROM {source} WHERE true{where}")
        return " UNION ALL ".join(scans)

    def _run_queries(self, with_clause: str, scan: str, queries: Sequence[str]) -> list[pa.Table]:
        """The results of some queries over one scan."""
        if len(queries) == 1:
            return [self._duckdb.run(Statement(f"{with_clause}({scan}) FROM ({queries[0]})"))]
        # Column names are prefixed by query number: equal names need not have equal types.
        numbered = []
        for number, query in enumerate(queries):
            numbered.append(
                f"SELECT {number} AS \"_query\", COLUMNS('(.*)') AS '{number} \\1' FROM ({query})"
            )
        union = " UNION ALL BY NAME ".join(numbered)
        rows = self._duckdb.run(Statement(f"{with_clause}MATERIALIZED ({scan}) {union}"))
        return [_query_rows(rows, number) for number in range(len(queries))]

    def cancel(self) -> None:
        """Interrupt the running query; may be called from any thread."""
        self._duckdb.interrupt()

    def merge(
        self, template: Template, events: Sequence[RecallEvent], values: pa.Table
    ) -> dict[str, AnswerRows]:
        """The answers from merged values, by event ID, rows in order. Raises `SparkRequired`."""
        statement = self._merge_statements.get_or_create(
            template.query_key, lambda: _merge_statement(template)
        )
        if statement is None:
            raise SparkRequired("merge with unsupported expressions")
        return merging.run_merge(self._duckdb, statement, template, events, values)

    def supports(self, template: Template) -> bool:
        """Whether this engine can run a query."""
        return self._queries.supports(template)

    def estimate_megabytes(self, template: Template, event_pieces: EventPieces) -> float:
        """How much a query reads for some events, in megabytes of files and of cached rows."""
        (stream,) = _streams(template)
        pieces = list(map(itemgetter(1), event_pieces))
        snapshot = self._reader.snapshot(stream, enclosing_range(pieces))
        snapshot = snapshot.within(union_ranges(pieces))
        file_bytes = sum(map(attrgetter("bytes"), snapshot.files))
        cached_bytes = sum(map(attrgetter("nbytes"), snapshot.rows))
        return float(file_bytes + cached_bytes) / _BYTES_PER_MEGABYTE


def _streams(template: Template) -> frozenset[str]:
    return template.partial.inputs.streams


def _query_sql(
    number: int, query: PartialQuery, portable: PortableQuery, snapshot: StreamSnapshot
) -> str:
    """The statement of one query over the scan, reading its registered events."""
    statement = portable.filtered_sql
    if _all_rows_in_range(snapshot, query.pieces):
        statement = portable.rows_in_range_sql
    limit = row_limit(len(query.event_pieces))
    tables = f'"{PENDING_TABLE}" AS (FROM "_pending_{number}")'
    if query.template.reads_ranges:
        tables += f', "{RANGES_TABLE}" AS (FROM "_ranges_{number}")'
    return f"WITH {tables} {statement} LIMIT {limit}"


def split_answers(query: PartialQuery, rows: pa.Table) -> dict[str, pa.Table]:
    """The result of a query by event ID, with Spark's types."""
    rows = _to_spark_types(query.template, rows)
    return split_by_event(query.template, rows, len(query.event_pieces))


def _merge_statement(template: Template) -> str | None:
    if not merging.is_portable(template):
        return None
    return merging.write_merge(template)


def _query_rows(rows: pa.Table, number: int) -> pa.Table:
    """The rows of one of several queries, under its own column names."""
    prefix = f"{number} "
    names = {}
    for name in rows.column_names:
        if name.startswith(prefix):
            names[name] = name.removeprefix(prefix)
    query_rows = rows.filter(pc.equal(rows["_query"], number)).select(list(names))
    return query_rows.rename_columns(list(names.values()))


def _all_rows_in_range(snapshot: StreamSnapshot, pieces: Sequence[Piece]) -> bool:
    """Whether all rows are sure to lie within each piece, by the time bounds of their files."""
    if snapshot.rows or any(piece.parts for piece in pieces):
        return False
    common = reduce(TimeRange.intersect, [piece.range for piece in pieces])
    for file in snapshot.all_files:
        is_inside = common.contains(file.oldest) and common.contains(file.newest)
        if not file.has_exact_bounds or not is_inside:
            return False
    return True


def _to_spark_types(template: Template, rows: pa.Table) -> pa.Table:
    """Cast the result of a query to the types that Spark gives."""
    kinds_by_column = {}
    for aggregate in template.split.aggregates:
        for column in aggregate.part_columns:
            kinds_by_column[column] = aggregate.kind
    fields = []
    for field in rows.schema:
        arrow_type = field.type
        if field.name == sql_names.EID:
            arrow_type = pa.string()
        elif pa.types.is_decimal(arrow_type):
            arrow_type = pa.int64()
        elif pa.types.is_floating(arrow_type):
            if kinds_by_column.get(field.name) in _DOUBLE_KINDS:
                arrow_type = pa.float64()
        elif pa.types.is_timestamp(arrow_type):
            arrow_type = pa.timestamp("us", tz="UTC")
        fields.append(pa.field(field.name, arrow_type))
    return rows.cast(pa.schema(fields))


def _string_literals(values: Sequence[str]) -> str:
    return ", ".join(map(_string_literal, values))


def _string_literal(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
