"""History read in this process, by DuckDB over the files of the archive: milliseconds where a Spark
job needs tenths.

It serves only questions in the part of SQL of `recall.engines.portable`. Where it fails, Spark is
asked.
"""

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from archiver.read import Reader, StreamSnapshot
from recall.engines import duckdb_session as duck
from recall.engines import merge as merging
from recall.engines.answers import AnswerRows
from recall.engines.lately import LruCache
from recall.engines.pending_events import PendingEvent, create_pending_table
from recall.engines.portable import PortableQuery, to_portable
from recall.engines.template import (
    PENDING_TABLE,
    EventPieces,
    EventTables,
    PartialQuery,
    Template,
    build_column_filter,
    row_limit,
    split_by_event,
)
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.split import VARIANCE_KINDS
from recall.requests import Piece, RecallEvent, enclosing_range


class LocalEngine:
    """DuckDB, on one thread, over the newest version of the archive's tables."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._portable_queries: LruCache[str, PortableQuery | SparkRequired] = LruCache()
        self._merge_statements: LruCache[str, str | None] = LruCache()  # None: Spark is to be asked
        self._duck = duck.connect_duckdb()
        # Files stay as they are, and many questions read the same ones.
        self._duck.execute("SET parquet_metadata_cache = true")

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> dict[str, pa.Table]:
        """See `recall.engines.spark.SparkEngine.partial`. Raises `NotServed`."""
        return self.compute_partials([PartialQuery(template, event_pieces, event_tables)])[0]

    def compute_partials(
        self, partial_queries: Sequence[PartialQuery]
    ) -> list[dict[str, pa.Table]]:
        """What `partial` gives for each of some questions about one stream, of different texts, by
        one statement that scans the stream's rows once. Raises `NotServed` where one of them is not
        served.
        """
        askings = [self._portable_query(ask.template) for ask in partial_queries]
        (stream,) = {
            stream for ask in partial_queries for stream in ask.template.partial.inputs.streams
        }
        pinned = self._reader.snapshot(
            stream,
            *enclosing_range(piece for ask in partial_queries for _, piece in ask.event_pieces),
        )
        if not pinned.rows and not pinned.files:
            return [{} for _ in partial_queries]
        scan = self._scan_sql(stream, pinned, partial_queries)
        try:
            numbered = enumerate(zip(partial_queries, askings, strict=True))
            queries = [
                self._scan_query(number, ask, asking, pinned) for number, (ask, asking) in numbered
            ]
            found = self._run_queries(f'WITH "_in_{stream}" AS ', scan, queries)
            parts = zip(partial_queries, found, strict=True)
            return [
                split_by_event(
                    ask.template, _to_spark_types(ask.template, rows), len(ask.event_pieces)
                )
                for ask, rows in parts
            ]
        except duckdb.InterruptException:
            raise
        except (duckdb.Error, pa.ArrowException) as error:
            raise SparkRequired(str(error)) from error

    def _scan_query(
        self, number: int, ask: PartialQuery, asking: PortableQuery, pinned: StreamSnapshot
    ) -> str:
        """One of some questions, over the scan; its events are registered under its number."""
        waiting = [PendingEvent(asked, low, high) for asked, (_, low, high) in ask.event_pieces]
        self._duck.register(
            f"_pending_{number}", create_pending_table(waiting, ask.template.question.attributes)
        )
        sql = (
            asking.rows_in_range_sql
            if _all_rows_in_range(pinned, [piece for _, piece in ask.event_pieces])
            else asking.filtered_sql
        )
        return f'WITH "{PENDING_TABLE}" AS (FROM "_pending_{number}") {sql} LIMIT {row_limit(len(ask.event_pieces))}'

    def _scan_sql(self, stream: str, pinned: StreamSnapshot, asks: Sequence[PartialQuery]) -> str:
        """The rows of a stream that are of use for some questions."""
        schema = self._reader.schema(stream)
        columns, only = schema.columns, _shared_column_filter(stream, schema.columns, asks)
        if len(asks) == 1:
            # One question's rows are joined with its events as they are read, which looks values up
            # by itself. By what files are clustered, that is too late: whole parts of them need not
            # be read.
            only = {
                name: values
                for name, values in only.items()
                if len(values) == 1 or name in schema.key
            }
        where = "".join(
            f' AND "{name}" IN ({_string_literals(values)})' for name, values in only.items()
        )
        sources = []
        if pinned.files:
            sources.append(
                f"read_parquet([{_string_literals(pinned.lease_paths())}], union_by_name = true, hive_partitioning = false)"
            )
        if pinned.rows:
            sources.append("_at_hand")
            self._duck.register("_at_hand", pa.concat_tables(pinned.rows))
        named = ", ".join(f'"{name}"' for name in columns)
        return " UNION ALL ".join(
            f"SELECT {named} FROM {source} WHERE true{where}" for source in sources
        )

    def _run_queries(self, named: str, scan: str, queries: Sequence[str]) -> list[pa.Table]:
        """What some queries over one scan find."""
        if len(queries) == 1:
            return [duck.fetch_table(self._duck, f"{named}({scan}) FROM ({queries[0]})")]
        # Each has columns of its own, so that none takes another's type.
        parts = (
            f"SELECT {number} AS \"_query\", COLUMNS('(.*)') AS '{number} \\1' FROM ({query})"
            for number, query in enumerate(queries)
        )
        text = f"{named}MATERIALIZED ({scan}) {' UNION ALL BY NAME '.join(parts)}"
        rows = duck.fetch_table(self._duck, text)
        return [_query_rows(rows, number) for number in range(len(queries))]

    def cancel(self) -> None:
        """End the query at hand."""
        self._duck.interrupt()

    def merge(
        self, template: Template, events: Sequence[RecallEvent], values: pa.Table
    ) -> dict[str, AnswerRows]:
        """See `recall.engines.answers.Merge`."""
        sql = self._merge_statements.get_or_create(
            template.query_key,
            lambda: merging.to_duckdb_sql(template) if merging.is_portable(template) else None,
        )
        found = (
            None if sql is None else merging.run_merge(self._duck, sql, template, events, values)
        )
        if found is None:
            raise SparkRequired("the merge")
        return found

    def supports(self, template: Template) -> bool:
        """Whether a question is one of those that this engine answers."""
        try:
            self._portable_query(template)
            return True
        except SparkRequired:
            return False

    def estimate_megabytes(self, template: Template, event_pieces: EventPieces) -> float:
        """How much is to be read for some events."""
        (stream,) = template.partial.inputs.streams
        pinned = self._reader.snapshot(stream, *enclosing_range(piece for _, piece in event_pieces))
        return (
            float(
                sum(file.bytes for file in pinned.files) + sum(rows.nbytes for rows in pinned.rows)
            )
            / 1e6
        )

    def _portable_query(self, template: Template) -> PortableQuery:
        # Types of attributes count too.
        found = self._portable_queries.get_or_create(
            template.query_key, lambda: self._translate(template)
        )
        if isinstance(found, SparkRequired):
            raise found
        return found

    def _translate(self, template: Template) -> PortableQuery | SparkRequired:
        try:
            return to_portable(template, self._stream_columns(template))
        except SparkRequired as reason:
            return reason

    def _stream_columns(self, template: Template) -> Mapping[str, str]:
        streams = template.partial.inputs.streams
        return self._reader.schema(next(iter(streams))).columns if len(streams) == 1 else {}


def _shared_column_filter(
    stream: str, columns: Mapping[str, str], asks: Sequence[PartialQuery]
) -> dict[str, list[str]]:
    """Values of text columns that alone can be of use for any of some questions."""
    each = [
        build_column_filter(ask.template, stream, columns, [asked for asked, _ in ask.event_pieces])
        for ask in asks
    ]
    shared = set.intersection(*(set(only) for only in each))
    found = {
        name: sorted({value for only in each for value in only[name]}) for name in sorted(shared)
    }
    return {name: values for name, values in found.items() if values}


def _query_rows(rows: pa.Table, number: int) -> pa.Table:
    """Of the rows of several queries those of one, with its columns."""
    prefix = f"{number} "
    names = [name for name in rows.column_names if name.startswith(prefix)]
    mine = rows.filter(pc.equal(rows["_query"], number)).select(names)
    return mine.rename_columns([name.removeprefix(prefix) for name in names])


def _all_rows_in_range(pinned: StreamSnapshot, pieces: Sequence[Piece]) -> bool:
    """Whether all rows are sure to lie within each piece, by the times that are known of their
    files.
    """
    spans = {(low, high) for _, low, high in pieces}
    return not pinned.rows and all(
        file.has_exact_bounds and (low is None or file.oldest >= low) and file.newest < high
        for file in pinned.all_files
        for low, high in spans
    )


def _to_spark_types(template: Template, found: pa.Table) -> pa.Table:
    """The types that Spark gives."""
    kinds = {
        part: aggregate.kind
        for aggregate in template.split.aggregates
        for part in aggregate.part_columns
    }
    fields = []
    for field in found.schema:
        kind = field.type
        if pa.types.is_decimal(kind):
            kind = pa.int64()
        elif pa.types.is_floating(kind) and kinds.get(field.name) in (
            "sum",
            "avg",
            *VARIANCE_KINDS,
        ):
            kind = pa.float64()
        elif pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", tz="UTC")
        fields.append(pa.field(field.name, pa.string() if field.name == sql_names.EID else kind))
    return found.cast(pa.schema(fields))


def _string_literals(values: Sequence[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
