"""Joins in this process, with limits: what exceeds one is left to Spark.

A join may return far more rows than it reads. Spark evaluates what exceeds a limit, with time
limits that the rule is charged for.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import pyarrow as pa
import structlog

from archiver.periodic import Clock, Timer
from moirae.evaluation.limits import statement_limit
from recall.errors import SparkRequired, StatementTimeout
from recall.statements import DuckDBStatements, Statement

_LOG = structlog.get_logger()

# Results are converted row by row: this many take a second.
MAX_JOINED_ROWS = 200_000  # rows of the result of a join
_RETRY_INTERVAL = 300.0  # seconds after which a join that took too long is tried again


class LimitedJoins:
    """Runs joins on DuckDB.

    `time_limit`: seconds of processor time, extended for many rows or rules. A join that exceeds
    it is left to Spark for some minutes. `max_rows`: of a result.
    """

    def __init__(
        self, duckdb: DuckDBStatements, time_limit: float, max_rows: int, clock: Clock
    ) -> None:
        self._duckdb = duckdb
        self._time_limit = time_limit
        self._max_rows = max_rows
        self._clock = clock
        self._slow_joins: dict[Hashable, Timer] = {}  # until they are tried again

    def run(
        self, key: Hashable, rule_names: Sequence[str], statement: Statement, row_count: int
    ) -> pa.Table:
        """The result of a statement for some rules. Raises `SparkRequired`.

        `key`: equal for statements that differ in constants only. `row_count`: rows that it reads.
        """
        retry_timer = self._slow_joins.get(key)
        if retry_timer is not None and not retry_timer.is_due():
            raise SparkRequired("query that exceeded a limit a short time ago")
        time_limit = statement_limit(self._time_limit, row_count, len(rule_names))
        text = f"SELECT * FROM ({statement.text}) LIMIT {self._max_rows + 1}"
        try:
            table = self._duckdb.run(replace(statement, text=text), time_limit)
        except StatementTimeout as error:
            if retry_timer is None:
                _LOG.warning(
                    "slow query is evaluated by Spark from now on",
                    action="join_left_to_spark",
                    rules=list(rule_names),
                    error=str(error),
                )
            self._slow_joins[key] = Timer(_RETRY_INTERVAL, _RETRY_INTERVAL, self._clock)
            raise SparkRequired(str(error)) from error
        self._slow_joins.pop(key, None)
        if len(table) > self._max_rows:
            raise SparkRequired(f"query with more than {self._max_rows:,} rows")
        return table

    def reset(self) -> None:
        """Try joins again that exceeded their time limit."""
        self._slow_joins.clear()
