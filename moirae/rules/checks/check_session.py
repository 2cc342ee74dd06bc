"""The Spark session of a check, which starts when the first query has to be analysed."""

from collections.abc import Callable, Mapping
from functools import cached_property

from pyspark.sql import SparkSession

from recall.sandbox import QueryValidator, harden_session

StartSpark = Callable[[], SparkSession]
"""The session of this process, which it starts if there is none."""


class CheckSession:
    """A hardened session with empty views of all that queries may read."""

    def __init__(self, start_spark: StartSpark) -> None:
        self._start_spark = start_spark
        self._columns: dict[str, Mapping[str, str]] = {}

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
    def validator(self) -> QueryValidator:
        """Of event queries."""
        return QueryValidator(self.spark)


def create_empty_view(session: SparkSession, name: str, columns: Mapping[str, str]) -> None:
    """An empty table. `columns`: with Spark's types."""
    ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    session.createDataFrame([], ddl).createOrReplaceTempView(name)
