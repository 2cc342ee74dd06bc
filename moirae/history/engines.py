"""The engines by which the past of rules is evaluated."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.executors import SparkJobs
from moirae.evaluation import (
    DuckDBRules,
    ExecutorRules,
    IndexedRules,
    PastTasks,
    RuleEngine,
    RuleGrouper,
    SparkRules,
)
from moirae.evaluation.plan import ActiveRule, relation_view
from recall.engines import SparkStatements, Statement
from recall.engines.routing import EngineChoice, EngineSetting
from recall.errors import LimitExceeded

TIME_LIMIT = 600.0
"""Seconds of processor time of a statement in tasks; what takes longer is left to Spark."""

MAX_PAST_EVENT_ROWS = 500_000
"""Event rows of a rule in a chunk that the driver holds to decide the past of its alerts: about 1 GB
as Python values.
"""

ColumnTypes = Mapping[str, Mapping[str, str]]
"""The types of columns, by table and name."""


class _PastStatements:
    """Statements of Spark without time limits. Raises `LimitExceeded`."""

    def __init__(self, spark: SparkSession) -> None:
        self._statements = SparkStatements(lambda: spark)

    def run_statement(
        self, rules: Sequence[ActiveRule], row_count: int, statement: Statement, *, is_part: bool
    ) -> pa.Table:
        """See `RuleStatements`."""
        text = f"SELECT * FROM ({statement.text}) LIMIT {MAX_PAST_EVENT_ROWS + 1}"
        result = self._statements.run(replace(statement, text=text))
        if len(result) > MAX_PAST_EVENT_ROWS:
            raise LimitExceeded(f"more than {MAX_PAST_EVENT_ROWS:,} event rows in one chunk")
        return result


class PastEngines:
    """Engines of one session over archives with the same columns, one archive after the other."""

    def __init__(
        self,
        spark: SparkSession,
        columns: ColumnTypes,
        relation_columns: ColumnTypes,
        setting: EngineSetting = "auto",
    ) -> None:
        """`columns`: of streams. `setting`: the key `recall.engine` of the workspace."""
        self._spark = spark
        self.setting = setting
        self.choice = EngineChoice(setting)
        # Jobs of this thread: who runs it may cancel them.
        self.jobs = SparkJobs(spark.sparkContext)
        self.grouper = RuleGrouper(columns, relation_columns)
        self.duckdb_rules = DuckDBRules()
        tasks = PastTasks(self.choice.runs_in_tasks, MAX_PAST_EVENT_ROWS)
        self._tasks = ExecutorRules(self.jobs, TIME_LIMIT, tasks)
        self.rule_engines: list[RuleEngine] = [
            IndexedRules(columns, self.grouper, self.jobs),
            self._tasks,
            SparkRules(self.grouper, _PastStatements(spark)),
        ]
        if self.choice.allows_duckdb:
            self.rule_engines.insert(1, self.duckdb_rules)

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self.duckdb_rules.set_relation(name, versions)
        self._tasks.set_relation(name, versions)
        self._spark.createDataFrame(versions).createOrReplaceTempView(relation_view(name))
