"""Evaluation of any rules by Spark: all of them in one statement."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.engine import (
    Charged,
    EvaluationRequest,
    Events,
    Outcome,
    RowSource,
    RuleEngine,
    RuleEventRows,
)
from moirae.evaluation.limits import find_failing_row
from moirae.evaluation.plan import ActiveRule, input_view
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
from recall.engines import Statement
from recall.errors import StatementTimeout

_JOB_ERRORS = (PySparkException, Py4JJavaError)


class RuleStatements(Protocol):
    """Runs statements of Spark."""

    def run_statement(
        self, rules: Sequence[ActiveRule], row_count: int, statement: Statement
    ) -> pa.Table:
        """The result of a statement for some rules over about so many rows."""


class SparkRules(RuleEngine):
    """Evaluates rules by Spark. Replaces the input views of the session."""

    def __init__(self, grouper: RuleGrouper, statements: RuleStatements) -> None:
        self._grouper = grouper
        self._statements = statements

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """See `RuleEngine`: all groups."""
        return groups

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`."""
        for stream, source in request.sources.items():
            _create_view(stream, source)
        rules = [rule for group in groups for rule in group.rules]
        statement = self._grouper.build_statement(groups)
        try:
            table = self._statements.run_statement(rules, request.row_count, statement)
        except StatementTimeout as error:
            yield Charged(groups, error)
        except _JOB_ERRORS as error:
            failing_row = None
            if len(rules) == 1:
                failing_row = self._find_failing_row(rules[0], request, statement)
            yield Charged(groups, error, failing_row)
        else:
            yield Events(groups, _read_result(rules, table))

    def _find_failing_row(
        self, rule: ActiveRule, request: EvaluationRequest, statement: Statement
    ) -> Mapping[str, object] | None:
        """The row in memory over which a stateless rule of one stream fails, with its stream."""
        if not rule.shape.is_stateless or len(rule.shape.streams) != 1:
            return None
        (stream,) = rule.shape.streams
        source = request.sources[stream]

        def has_failure(rows: pa.Table) -> bool:
            _create_view(stream, source.reduce(rows))
            try:
                self._statements.run_statement([rule], len(rows), statement)
            except _JOB_ERRORS:
                return True
            except StatementTimeout:
                return False
            return False

        failing_row = source.table
        if failing_row is not None and len(failing_row) != 1:
            failing_row = find_failing_row(failing_row, has_failure)
        if failing_row is None:
            return None
        values = failing_row.to_pylist()[0]
        return {"stream": stream, "row": orjson.loads(orjson.dumps(values, default=str))}


def _create_view(stream: str, source: RowSource) -> None:
    source.frame().createOrReplaceTempView(input_view(stream))


def _read_result(rules: Sequence[ActiveRule], table: pa.Table) -> RuleEventRows:
    """Event rows from the position of the rule, ts and attributes (JSON) of each row."""
    rows = zip(
        table["rule"].to_pylist(),
        micros_column(table, "ts").tolist(),
        table["attributes"].to_pylist(),
        strict=True,
    )
    return [(rules[number], EventRow(ts, orjson.loads(text))) for number, ts, text in rows]
