"""Evaluation of any rules by Spark: all of them in one statement."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from archiver.delta import ARROW_TYPES
from archiver.time_range import ALL_TIME
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.engine import (
    Charged,
    EvaluationRequest,
    Events,
    Lost,
    Outcome,
    RowSource,
    RuleEngine,
    RuleEventRows,
    describe_row,
)
from moirae.evaluation.limits import find_failing_row, find_failing_rows
from moirae.evaluation.lost_rows import LostRow, remove_rows
from moirae.evaluation.plan import ActiveRule, bounds_view, input_view
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
from moirae.evaluation.statements import (
    LOSS_SETTINGS,
    LOST_RULE,
    RowVerdict,
    build_loss_query,
)
from recall.engines import Statement, find_pattern_limit
from recall.errors import SparkRequired, StatementTimeout

_JOB_ERRORS = (PySparkException, Py4JJavaError)
_MAX_READ_ROWS = 2_000_000  # rows of files in which lost rows are looked for
_MAX_SEARCHED_ROWS = 20  # rows that a rule may lose in one evaluation, if each is searched for


class RuleStatements(Protocol):
    """Runs statements of Spark."""

    def run_statement(
        self, rules: Sequence[ActiveRule], row_count: int, statement: Statement, *, is_part: bool
    ) -> pa.Table:
        """The result of a statement for some rules over about so many rows.

        `is_part`: of rows that exceeded a time limit.
        """


class SparkRules(RuleEngine):
    """Evaluates rules by Spark. Replaces the input views of the session.

    A row for which a regular expression of a rule needs too many steps is lost to the rule.
    """

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
        outcome = self._run(groups, request)
        if isinstance(outcome, Charged) and find_pattern_limit(str(outcome.error)) is not None:
            yield from self._run_without_lost_rows(groups, request, outcome.error)
        else:
            yield outcome

    def _run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Events | Charged:
        for stream, source in request.sources.items():
            _create_view(stream, source)
        rules = [rule for group in groups for rule in group.rules]
        self._create_bounds_views(rules, request)
        statement = self._grouper.build_statement(groups)
        try:
            table = self._run_statement(rules, request, statement)
        except StatementTimeout as error:
            return Charged(groups, error)
        except _JOB_ERRORS as error:
            failing_row = None
            if len(rules) == 1 and find_pattern_limit(str(error)) is None:
                failing_row = self._find_failing_row(rules[0], request, statement)
            return Charged(groups, error, failing_row)
        return Events(groups, _read_result(rules, table))

    def _run_statement(
        self, rules: Sequence[ActiveRule], request: EvaluationRequest, statement: Statement
    ) -> pa.Table:
        return self._statements.run_statement(
            rules, request.row_count, statement, is_part=request.is_part
        )

    def _create_bounds_views(self, rules: Sequence[ActiveRule], request: EvaluationRequest) -> None:
        """Create the views that rules with expected keys read, see `bounds_view`."""
        streams: set[str] = set()
        for rule in rules:
            if rule.definition.spec.expected is not None:
                streams |= rule.shape.streams
        time_range = ALL_TIME if request.rule_slice is None else request.rule_slice.range
        for stream in sorted(streams):
            source = request.sources[stream]
            times = [source.find_first_time(), time_range.start, time_range.end]
            columns = {
                name: pa.array([time], ARROW_TYPES["timestamp"])
                for name, time in zip(("_first", "_low", "_high"), times, strict=True)
            }
            view = source.frame().sparkSession.createDataFrame(pa.table(columns))
            view.createOrReplaceTempView(bounds_view(stream))

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
                self._statements.run_statement(
                    [rule], len(rows), statement, is_part=request.is_part
                )
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
        return describe_row(stream, failing_row.to_pylist()[0])

    # Lost rows

    def _run_without_lost_rows(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest, error: Exception
    ) -> Iterator[Outcome]:
        """The outcomes of groups, of which some need too many steps for some rows."""
        verdicts_by_source: dict[str, dict[RuleGroup, RowVerdict]] = {}
        without_verdict: list[RuleGroup] = []
        for group in groups:
            verdict = self._grouper.find_verdict(group)
            if verdict is None:
                without_verdict.append(group)
            else:
                verdicts_by_source.setdefault(verdict.source, {})[group] = verdict
        for verdicts in verdicts_by_source.values():
            try:
                lost_tables = self._find_lost_rows(verdicts, request)
            except (StatementTimeout, *_JOB_ERRORS) as loss_error:
                yield Charged(list(verdicts), loss_error)
            else:
                yield from self._run_remaining(list(verdicts), lost_tables, request)
        if len(without_verdict) == 1 and not verdicts_by_source:
            yield from self._search_lost_rows(without_verdict[0], request, error)
        else:
            for group in without_verdict:
                yield from self.run([group], request)

    def _find_lost_rows(
        self, verdicts: Mapping[RuleGroup, RowVerdict], request: EvaluationRequest
    ) -> dict[RuleGroup, pa.Table]:
        """The rows of one source that rules lose, by group, found by one statement.

        Raises `StatementTimeout` and errors of Spark.
        """
        groups = list(verdicts)
        rules = [group.rules[0] for group in groups]
        (stream,) = groups[0].streams
        _create_view(stream, request.sources[stream])
        source = verdicts[groups[0]].source
        text = build_loss_query(list(verdicts.values()), source)
        statement = Statement(text, settings=LOSS_SETTINGS)
        result = self._run_statement(rules, request, statement)
        numbers = result[LOST_RULE].to_numpy()
        rows = result.drop_columns([LOST_RULE])
        return {
            groups[number]: rows.filter(pa.array(numbers == number))
            for number in sorted(set(numbers.tolist()))
        }

    def _run_remaining(
        self,
        groups: Sequence[RuleGroup],
        lost_tables: Mapping[RuleGroup, pa.Table],
        request: EvaluationRequest,
    ) -> Iterator[Outcome]:
        """The outcomes of rules of one stream. `lost_tables`: the rows that some of them lose."""
        unaffected = [group for group in groups if group not in lost_tables]
        if unaffected:
            outcome = self._run(unaffected, request)
            if isinstance(outcome, Charged) and find_pattern_limit(str(outcome.error)) is not None:
                for group in unaffected:
                    yield from self._search_lost_rows(group, request, outcome.error)
            else:
                yield outcome
        for group, lost in lost_tables.items():
            (stream,) = group.streams
            source = request.sources[stream].load(_MAX_READ_ROWS)
            if source is None:
                message = f"lost rows among more than {_MAX_READ_ROWS:,} archived rows"
                yield Charged([group], SparkRequired(message))
                continue
            failed = self._run([group], request.with_source(stream, source.reduce(lost)))
            reason = find_pattern_limit(str(failed.error)) if isinstance(failed, Charged) else None
            if reason is None:
                yield self._run([group], request)  # its error is no limit
            else:
                yield from self._lose(group, request.with_source(stream, source), lost, reason)

    def _lose(
        self, group: RuleGroup, request: EvaluationRequest, lost: pa.Table, reason: str
    ) -> Iterator[Outcome]:
        """The outcomes of a rule of one stream that loses some of the rows in memory."""
        (rule,), (stream,) = group.rules, group.streams
        source = request.sources[stream]
        lost_rows = [LostRow(rule, stream, values, reason) for values in lost.to_pylist()]
        remaining = remove_rows(source.table, lost_rows)
        yield Lost(lost_rows)
        yield self._run([group], request.with_source(stream, source.reduce(remaining)))

    def _search_lost_rows(
        self, group: RuleGroup, request: EvaluationRequest, error: Exception
    ) -> Iterator[Outcome]:
        """The outcomes of a rule that is more than a filter; its rows are halved.

        Of joins of streams no row can be found.
        """
        (rule,) = group.rules
        stream, *further_streams = rule.shape.streams
        source = request.sources[stream].load(_MAX_READ_ROWS)
        if further_streams or source is None:
            yield Charged([group], error)
            return

        def has_failure(rows: pa.Table) -> bool:
            outcome = self._run([group], request.with_source(stream, source.reduce(rows)))
            return (
                isinstance(outcome, Charged) and find_pattern_limit(str(outcome.error)) is not None
            )

        lost = find_failing_rows(source.table, has_failure, _MAX_SEARCHED_ROWS)
        reason = find_pattern_limit(str(error))
        if lost is None or reason is None:
            yield Charged([group], error)
            return
        yield from self._lose(group, request.with_source(stream, source), lost, reason)


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
