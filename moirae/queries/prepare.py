"""From the text of an ad-hoc query to a question of the recall ledger.

Queries of plain rows get a LIMIT, and `*` is written out. What DuckDB can run consists of
expressions on its list; all other queries are analysed by Spark in the SQL sandbox.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pyspark.sql import SparkSession
from sqlglot import exp

from archiver.times import duration_to_micros
from moirae.config import Settings
from moirae.rules import (
    ALERT_VERSION_COLUMNS,
    ALERTS,
    Definition,
    add_past_alerts,
    find_event_streams,
    list_event_names,
)
from moirae.rules.checks import ResultTypes, infer_result_types, locate_fragment
from recall.engines import Template
from recall.engines.routing import runs_in_duckdb
from recall.errors import QueryRejected
from recall.query import (
    PhysicalTables,
    Tables,
    Unsupported,
    check_table_count,
    parse,
    sql_names,
    tables_in,
    tables_used,
)
from recall.query.lift import EventScope, TableBindings, lift_query
from recall.query.split import selects_plain_rows
from recall.requests import SqlQuestion
from recall.sandbox import harden_session, validate_query

# How long a query runs without a heartbeat of its client. Then it is suspended, and after
# `recall.feedback_timeout` it ends.
_SILENCE_LIMIT = 30.0  # seconds
_VALIDITY = {sql_names.VALID_FROM: "timestamp", sql_names.VALID_TO: "timestamp"}
_WINDOW = "window"
_PENDING_VIEW = "_pending"
_PENDING_COLUMNS = {
    sql_names.EID: "string",
    sql_names.EVENT_TS: "timestamp",
    sql_names.LOW: "timestamp",
    sql_names.HIGH: "timestamp",
}
# Between two revisions of an answer while history is read.
_REVISION_INTERVAL = 0.5  # seconds


@dataclass(frozen=True)
class QueryOptions:
    """How an ad-hoc query is answered.

    `limit`: the greatest number of plain rows. `since`: how far before the newest row history is
    read; None: to its beginning. `follow`: whether rows that are archived later extend the answer.
    """

    limit: int
    since: timedelta | None = None
    follow: bool = False


def prepare_query(
    text: str,
    settings: Settings,
    definitions: Iterable[Definition],
    options: QueryOptions,
    start_session: Callable[[], SparkSession],
) -> SqlQuestion:
    """The question of a query. Raises `Unsupported` or `QueryRejected`.

    `definitions`: the deployed rules, whose derived streams may be read. `start_session` is called
    if Spark has to analyse the query.
    """
    tables = _build_tables(text, settings, definitions)
    check_table_count(text, tables.derived)
    query = parse(text)
    _check_columns(query)
    if _write_out_windows(query):
        text = query.sql(dialect="spark")
    if isinstance(query, exp.SetOperation):
        text = _limit_rows(query, options.limit).sql(dialect="spark")
    elif isinstance(query, exp.Select) and selects_plain_rows(query):
        query = _limit_rows(_expand_star(query, settings), options.limit)
        text = query.sql(dialect="spark")
    used = tables_used(text, {*tables.streams, *tables.relations, *tables.derived})
    if not used & {ALERTS, *tables.streams, *tables.derived}:
        raise Unsupported("a query must read a stream, a derived stream or alerts")
    reads_derived = bool(used & tables.derived.keys())
    if reads_derived and options.follow:
        names = ", ".join(sorted(used & tables.derived.keys()))
        raise Unsupported(
            f"--follow is supported for declared streams only; {names} is a derived stream"
        )
    if not reads_derived:
        tables = Tables(
            {name: tables.streams[name] for name in used & tables.streams.keys()},
            frozenset(used & tables.relations),
        )
    question = SqlQuestion(
        range=None if options.since is None else duration_to_micros(options.since),
        every=_REVISION_INTERVAL,
        order="newest",
        feedback=_SILENCE_LIMIT,
        sql=text,
        streams=dict(tables.streams),
        relations=tuple(sorted(tables.relations)),
        derived=dict(tables.derived),
        attributes={},
        own={},
        columns={},
        types={},
        follow=options.follow,
    )
    return _check_question(question, tables, settings, start_session)


def _build_tables(text: str, settings: Settings, definitions: Iterable[Definition]) -> Tables:
    """The tables that the query may read. Derived streams of one name must be the same."""
    definitions = list(definitions)
    derived = _find_events(text, settings, definitions)
    for definition in definitions:
        for query in definition.rule.derived:
            if derived.setdefault(query.stream, query.expr) != query.expr and tables_used(
                text, {query.stream}
            ):
                raise Unsupported(
                    f"ambiguous derived stream {query.stream}: several groups declare it"
                )
    time_columns = {name: stream.time for name, stream in settings.streams.items()}
    return add_past_alerts(Tables(time_columns, frozenset(settings.relations), derived), text)


def _find_events(
    text: str, settings: Settings, definitions: Sequence[Definition]
) -> dict[str, str]:
    """The queries that stand for the events of rules that a query reads. Raises `Unsupported`."""
    queries: dict[str, str] = {}
    for name in list_event_names(tables_in(text)):
        try:
            streams = find_event_streams(name, definitions, settings.streams)
        except LookupError as error:
            raise Unsupported(str(error.args[0])) from error
        queries |= {stream.name: stream.expr for stream in streams}
    return queries


def _check_columns(query: exp.Query) -> None:
    for column in query.find_all(exp.Column):
        if column.table.lower() == sql_names.EVENT:
            raise Unsupported(f"an ad-hoc query has no event: {column.sql('spark')}", column)


def _write_out_windows(query: exp.Query) -> bool:
    """Replace `window.end` by the end of the window that the query groups by, as Spark reads it.

    So the text of a rule can be asked as it is. Returns whether there was any.
    """
    has_changed = False
    for select in query.find_all(exp.Select):
        group = select.args.get("group")
        windows = [
            node
            for node in (group.expressions if group is not None else ())
            if isinstance(node, exp.Anonymous) and node.name.lower() == _WINDOW
        ]
        if len(windows) != 1:
            continue
        for column in list(select.find_all(exp.Column)):
            is_part = column.table.lower() == _WINDOW and column.parent_select is select
            if is_part and column.name.lower() in ("start", "end"):
                field = exp.Dot(this=windows[0].copy(), expression=column.this.copy())
                column.replace(field)
                has_changed = True
    return has_changed


# Plain rows


def _expand_star(query: exp.Select, settings: Settings) -> exp.Select:
    """The query with the columns of its only table in place of `*`."""
    if not query.is_star:
        return query
    source = query.args["from_"].this if query.args.get("from_") else None
    stream = None
    if isinstance(source, exp.Table) and not query.args.get("joins"):
        stream = settings.streams.get(source.name.lower())
    if stream is None or len(query.expressions) > 1:
        raise Unsupported("* is supported for one declared stream only; name the columns", query)
    columns = [exp.column(name, quoted=True) for name in stream.columns]
    return query.select(*columns, append=False)


def _limit_rows(query: exp.Query, limit: int) -> exp.Query:
    """The query with at most `limit` rows."""
    present = query.args.get("limit")
    if present is None:
        return query.limit(limit)
    count = present.expression
    if isinstance(count, exp.Literal) and count.is_int and int(count.name) > limit:
        raise Unsupported(
            f"LIMIT {count.name} is more than {limit} rows; set a larger --limit", present
        )
    return query


# Checks


def _check_question(
    question: SqlQuestion,
    tables: Tables,
    settings: Settings,
    start_session: Callable[[], SparkSession],
) -> SqlQuestion:
    """The question with the types of its result as far as they are needed."""
    template = Template(question)
    if question.follow and template.split.whole is not None:
        raise Unsupported(f"--follow is not supported: {template.split.whole}")
    columns = {name: stream.query_columns for name, stream in settings.streams.items()}
    if runs_in_duckdb(template, columns):
        return question
    types = _SparkAnalysis(start_session(), settings, tables, question.sql).infer_types()
    return replace(question, columns=types.columns, types=types.merged)


class _SparkAnalysis:
    """Analyses queries in the SQL sandbox, over empty views."""

    def __init__(
        self, session: SparkSession, settings: Settings, tables: Tables, text: str
    ) -> None:
        """`text`: the query, in which errors are located."""
        self._text = text
        self._session = harden_session(session)
        self._tables = tables
        views: dict[str, str] = {}
        for name, stream in settings.streams.items():
            views[name] = name
            self._create_view(name, stream.query_columns)
        for name, relation in settings.relations.items():
            views[name] = name
            self._create_view(name, {**relation.columns, **_VALIDITY})
        if ALERTS in tables.relations and ALERTS not in views:
            views[ALERTS] = ALERTS
            self._create_view(ALERTS, ALERT_VERSION_COLUMNS)
        self._create_view(_PENDING_VIEW, _PENDING_COLUMNS)
        self._bindings = TableBindings(
            PhysicalTables({**views, sql_names.MERGED_TABLE: sql_names.MERGED_TABLE}),
            PhysicalTables(views),
            _PENDING_VIEW,
        )

    def infer_types(self) -> ResultTypes:
        """The types of the result. Raises `QueryRejected` or `Unsupported`."""
        return infer_result_types(
            self._text,
            self._tables,
            (),
            self._analyse,
            lambda columns: self._create_view(sql_names.MERGED_TABLE, columns),
        )

    def _analyse(self, query: str | exp.Query, event_tables: Collection[str]) -> dict[str, str]:
        scope = EventScope(self._tables, (), frozenset(event_tables))
        lifted = lift_query(query, scope, self._bindings)
        try:
            schema = validate_query(self._session, lifted.sql, internal=True)
        except QueryRejected as error:
            line, column = locate_fragment(self._text, error)
            raise QueryRejected(error.message, line, column) from error
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        if len(types) < len(schema.fields):
            raise QueryRejected("duplicate column name in the query result; rename it with AS")
        del types[sql_names.EID]
        return types

    def _create_view(self, name: str, columns: Mapping[str, str]) -> None:
        ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        self._session.createDataFrame([], ddl).createOrReplaceTempView(name)
