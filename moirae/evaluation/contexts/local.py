"""Context queries in this process, by DuckDB over rows in memory.

It takes milliseconds where Spark needs a second for planning alone; until then, the live process
detects no event. Queries that are not in `moirae.evaluation.contexts.portable`, fail or exceed a
limit are left to Spark, with time limits that the rule is charged for.
"""

import time
from collections.abc import Hashable, Mapping

import orjson
import pyarrow as pa

from archiver.periodic import Clock
from moirae.evaluation.contexts.portable import PortableContext, to_portable
from moirae.evaluation.contexts.queries import LiftedContextQuery, rows_view
from moirae.evaluation.contexts.shared_queries import SharedQuery
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.limited_joins import MAX_JOINED_ROWS, LimitedJoins
from recall.engines import LruCache
from recall.engines.pending_events import PLAIN_TYPES, PendingEvent, create_pending_table
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.plain import select_columns
from recall.statements import NO_EXTERNAL_ACCESS, DuckDBStatements, Statement

_TIME_LIMIT = 2.0  # seconds of processor time of a query over few rows; see `statement_limit`


class LocalContexts:
    """Runs portable context queries on a DuckDB connection of its own, on one thread."""

    def __init__(
        self,
        time_limit: float = _TIME_LIMIT,
        max_rows: int = MAX_JOINED_ROWS,
        clock: Clock = time.monotonic,
    ) -> None:
        """`time_limit`: see `LimitedJoins`; `max_rows`: of the result of a query."""
        duckdb = DuckDBStatements(NO_EXTERNAL_ACCESS)
        self.joins = LimitedJoins(duckdb, time_limit, max_rows, clock)
        self._queries: LruCache[Hashable, PortableContext | None] = LruCache()

    def supports(self, query: LiftedContextQuery, columns: Mapping[str, str]) -> bool:
        """Whether a query is portable; `columns`: of its stream, with their types."""
        return self._find(query, columns) is not None

    def run(
        self, shared: SharedQuery, columns: Mapping[str, str], rows: pa.Table
    ) -> list[tuple[str, str]]:
        """The rows of a portable context as JSON texts, each with its event's ID.

        `rows`: of its stream, near its events. Raises `SparkRequired`.
        """
        query = shared.query
        portable = self._find(query, columns)
        if portable is None:
            raise SparkRequired("query that is not portable")
        (stream,) = query.streams
        try:
            tables = {query.pending_view: create_event_table(shared), rows_view(stream): rows}
            result = self.joins.run(
                query.sharing_key,
                shared.rule_names,
                Statement(portable.sql, tables),
                len(rows) + len(shared.events),
            )
            return _to_texts(query, portable, result)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise SparkRequired(str(error)) from error

    def _find(
        self, query: LiftedContextQuery, columns: Mapping[str, str]
    ) -> PortableContext | None:
        def translate() -> PortableContext | None:
            try:
                return to_portable(query, columns)
            except SparkRequired:
                return None

        key = query.sharing_key, query.pending_view, tuple(columns.items())
        return self._queries.get_or_create(key, translate)


def create_event_table(shared: SharedQuery) -> pa.Table:
    """The table of the events of a query. Attributes that it cannot read are null."""
    query = shared.query
    pending = [PendingEvent(event, query.span(event)) for event in shared.events.values()]
    table = create_pending_table(pending, select_columns(shared.types, PLAIN_TYPES))
    for name in query.types:
        column = sql_names.attribute_column(name)
        if column not in table.column_names:
            table = table.append_column(column, pa.nulls(len(table), pa.string()))
    return table


def _to_texts(
    query: LiftedContextQuery, portable: PortableContext, result: pa.Table
) -> list[tuple[str, str]]:
    """Rows as Spark writes them: the event's ID, then the columns of the query."""
    if result.num_columns != len(query.columns) + 1:
        raise SparkRequired("columns without a name of their own")
    eids = result.column(0).to_pylist()
    columns = []
    for number, value_type in enumerate(portable.types, start=1):
        values = to_json_values(value_type, result.column(number))
        if query.context_query.is_compared:
            values = list(map(_to_text, values))
        columns.append(values)
    texts: list[tuple[str, str]] = []
    for eid, *values in zip(eids, *columns, strict=True):
        row = dict(zip(query.columns, values, strict=True))
        texts.append((eid, orjson.dumps(row).decode()))
    return texts


def _to_text(value: str | int | bool | None) -> str | None:
    """A value as Spark casts it to text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
