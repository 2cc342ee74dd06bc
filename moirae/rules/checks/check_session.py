"""The Spark session of a check, which starts when the first query has to be analysed."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from itertools import chain
from queue import SimpleQueue
from types import MappingProxyType

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from archiver.threads import start_thread
from moirae.rules.checks.result_types import locate_fragment
from recall.errors import QueryRejected
from recall.query import rename_tables, reveal_extra, sql_names, write_landmark_views
from recall.sandbox import QueryValidator, harden_session, validate_query

StartSpark = Callable[[], SparkSession]
"""The session of this process, which it starts if there is none."""


class CheckSession:
    """A hardened session with empty views of all that queries may read."""

    def __init__(self, start_spark: StartSpark) -> None:
        self._start_spark = start_spark
        self._columns: dict[str, Mapping[str, str]] = {}
        self._streams: dict[str, Mapping[str, str]] = {}

    def create_stream_view(self, name: str, columns: Mapping[str, str]) -> None:
        """Let queries read a declared stream with these columns."""
        self._streams[name] = columns
        self.create_view(name, columns)

    def create_view(self, name: str, columns: Mapping[str, str]) -> None:
        """Let queries read a table with these columns."""
        self._columns[name] = columns
        if "spark" in self.__dict__:
            create_empty_view(self.spark, name, columns)

    @cached_property
    def spark(self) -> SparkSession:
        session = harden_session(self._start_spark().newSession())
        for name, columns in self._columns.items():
            create_empty_view(session, name, columns)
        return session

    @cached_property
    def stream_views(self) -> Mapping[str, str]:
        """Views of the declared streams that also have `_extra`, by stream."""
        for name, view in self._view_names.items():
            columns = {**self._streams[name], sql_names.EXTRA: "string"}
            create_empty_view(self.spark, view, columns)
        return self._view_names

    @property
    def _view_names(self) -> dict[str, str]:
        return {name: f"_with_extra_{name}" for name in self._streams}

    def prepare(self, queries: Iterable[str]) -> None:
        """Validate many event queries together; `validate` is quick for those that pass.

        Spark analyses the first while the next are still to come from the iterable.
        """
        pending: SimpleQueue[str | None] = SimpleQueue()
        validation = start_thread(partial(self._validate_queries, pending), "validation")
        try:
            for query in queries:
                pending.put(query)
        finally:
            pending.put(None)
        validation.result()

    def _validate_queries(self, pending: "SimpleQueue[str | None]") -> None:
        queries = filter(None, iter(pending.get, None))
        for first in queries:  # Spark starts for the first
            self.validator.prepare(map(self._to_spark, chain([first], queries)))

    def validate(self, sql: str, views: Mapping[str, str] = MappingProxyType({})) -> StructType:
        """The columns of an event query as it is written. Raises `QueryRejected`.

        `views`: those that some tables are read from.
        """
        return self._validate(sql, self.validator.validate, views)

    def validate_derived(
        self, sql: str, views: Mapping[str, str] = MappingProxyType({})
    ) -> StructType:
        """The columns of the query of a derived stream, as `validate`. Raises `QueryRejected`."""
        return self._validate(sql, partial(validate_query, self.spark), views)

    def _validate(
        self, sql: str, validate: Callable[[str], StructType], views: Mapping[str, str]
    ) -> StructType:
        spark_sql = self._to_spark(rename_tables(sql, views))
        try:
            return validate(spark_sql)
        except QueryRejected as error:
            if spark_sql == sql:
                raise
            line, column = locate_fragment(sql, error)
            raise QueryRejected(error.message, line, column, error.fragment) from error

    def _to_spark(self, sql: str) -> str:
        """A query as Spark can read it; one that names `_extra` over views that have it."""
        sql = write_landmark_views(sql)
        revealed_sql = reveal_extra(sql, self._view_names)
        return sql if revealed_sql == sql else reveal_extra(sql, self.stream_views)

    @cached_property
    def validator(self) -> QueryValidator:
        """Of event queries."""
        return QueryValidator(self.spark)


def create_empty_view(session: SparkSession, name: str, columns: Mapping[str, str]) -> None:
    """An empty table. `columns`: with Spark's types."""
    ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    identifier = "`" + name.replace("`", "``") + "`"
    session.createDataFrame([], ddl).createOrReplaceTempView(identifier)
