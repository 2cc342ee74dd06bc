"""Isolation of rules: statements have time limits, and rules that keep failing are quarantined.

A statement that exceeds its limit is cancelled. Cancellation may have no effect, as in a regular
expression that backtracks forever or in a plan that is never complete. Then the crash is recorded
for all rules of the statement and the process exits. The next process evaluates each of them alone,
as a suspect; the one that crashes it again is quarantined. The same holds when the JVM runs out of
memory.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
import structlog
from pyspark import SparkContext
from pyspark.sql import SparkSession

import sql
from archiver.errors import TaskLost
from archiver.spark import jvm_process
from archiver.times import from_micros
from moirae.alerts import EventRow
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.evaluation.limits import statement_limit, truncate_event_rows
from moirae.evaluation.loss_rates import LossLimits
from moirae.evaluation.plan import ActiveRule
from moirae.runtime import connect_database
from recall.engines import SparkStatements, Statement, summarize_error
from recall.errors import MemoryExceeded, StatementTimeout

_LOG = structlog.get_logger()

_WARM_UP_ALLOWANCE = 20.0  # seconds of processor time that a new JVM needs besides its statements
_PART_LIMIT = 0.25  # of the time limit, for a part of what exceeded it
_RESPONSE_GRACE = 2.0  # seconds for a JVM that does not respond to exit
_SUSPECT_DURATION = 600.0  # seconds for which a rule is evaluated alone after a crash
_EXIT_OUT_OF_MEMORY = 3  # exit code of a JVM with -XX:+ExitOnOutOfMemoryError

_T = TypeVar("_T")


class Guard:
    """Limits and isolates the rules of one live process.

    `quarantined`: rules that were quarantined since rules were loaded. `rules_over_limit`: rules
    whose last evaluation returned too many events; to settle their events does not reset their
    failure count.
    """

    def __init__(self, spark: SparkSession, settings: Settings, connection: sql.Connection) -> None:
        self._statements = SparkStatements(
            lambda: spark, on_stuck=lambda message: self._exit_process("time", message)
        )
        self._settings = settings
        self._limits = settings.limits
        self._registry = RuleRegistry(connection)
        self._is_warm = False
        self._running_rules: Sequence[ActiveRule] = ()
        self._suspects: dict[str, float] = {}
        self.rules_over_limit: set[str] = set()
        self.quarantined: set[str] = set()

    @property
    def loss_limits(self) -> LossLimits:
        """Above which a rule is in quarantine for the verdicts that it loses."""
        return LossLimits(self._limits.lost.share, self._limits.lost.rows)

    # Groups of rules

    def reset_quarantine(self, suspects: Iterable[str]) -> None:
        """Rules were loaded. `suspects`: rules that may have crashed the previous process."""
        self.quarantined.clear()
        self._suspects |= dict.fromkeys(suspects, time.monotonic() + _SUSPECT_DURATION)

    def isolate_suspects(
        self, rules: Sequence[_T], name: Callable[[_T], str]
    ) -> list[Sequence[_T]]:
        """Groups of rules to be evaluated together: each suspect is a group of its own, at the end.

        `name`: the rule name of an element.
        """
        now = time.monotonic()
        suspects = {rule for rule, until in self._suspects.items() if now < until}
        if not suspects:
            return [rules] if rules else []
        shared: list[_T] = []
        isolated: list[Sequence[_T]] = []
        for rule in rules:
            if name(rule) in suspects:
                isolated.append([rule])
            else:
                shared.append(rule)
        if shared:
            return [shared, *isolated]
        return isolated

    def isolate(self, rules: Iterable[str]) -> None:
        """Evaluate rules alone for some minutes: they delayed the others."""
        self._suspects |= dict.fromkeys(rules, time.monotonic() + _SUSPECT_DURATION)

    # Statements

    def run_statement(
        self,
        rules: Sequence[ActiveRule],
        row_count: int,
        statement: Statement,
        *,
        is_part: bool = False,
    ) -> pa.Table:
        """As `run`, for a statement whose tables are registered while it runs."""
        return self.run(rules, row_count, lambda: self._statements.run(statement), is_part=is_part)

    def run_filters(
        self, rules: Sequence[ActiveRule], row_count: int, evaluate: Callable[[float], _T]
    ) -> _T:
        """See `FilterLimits`. What does not return ends the process, as a stuck statement."""
        row_limit = self._limits.statement.total_seconds()
        return self.run(rules, row_count, lambda: evaluate(row_limit))

    def run(
        self,
        rules: Sequence[ActiveRule],
        row_count: int,
        execute: Callable[[], _T],
        *,
        is_part: bool = False,
    ) -> _T:
        """Run Spark for some rules over about `row_count` rows; return the result of `execute`.

        `is_part`: of rows that exceeded a limit: what exceeds a lower one is divided further, except
        a single row of a rule. Raises `StatementTimeout` if it exceeded its time limit; by then its
        tasks have ended.
        """
        limit = self._time_limit(len(rules), row_count)
        if is_part and (row_count > 1 or len(rules) > 1):
            limit *= _PART_LIMIT
        self._running_rules = rules
        try:
            with self._statements.limit_time(limit):
                result = execute()
        except StatementTimeout:
            rule_names = [rule.name for rule in rules]
            _LOG.warning(
                "statement cancelled", action="statement_cancelled", rules=rule_names, limit=limit
            )
            raise
        except Exception:
            if _is_out_of_memory():
                self._exit_process("memory", "Spark's JVM ran out of memory")
            raise
        finally:
            self._running_rules = ()
        self._is_warm = True
        return result

    def _time_limit(self, rule_count: int, row_count: int) -> float:
        """Seconds of processor time for a statement."""
        base_limit = self._limits.statement.total_seconds()
        limit = statement_limit(base_limit, row_count, rule_count)
        if not self._is_warm:
            limit += _WARM_UP_ALLOWANCE
        return limit

    def _exit_process(self, kind: str, message: str) -> None:
        """Record a crash for the rules that run, then end this process and its JVM."""
        rules = self._running_rules
        rule_names = [rule.name for rule in rules]
        if len(rule_names) > 1:
            message += (
                f" while {len(rule_names)} rules were evaluated together; "
                "each of them is evaluated alone now"
            )
        try:
            with connect_database(self._settings, "guard") as connection, connection.transaction():
                registry = RuleRegistry(connection)
                for rule in rules:
                    registry.record_crash(rule.name, rule.version, kind, message)
        except Exception as error:  # without the database the process must exit all the same
            _LOG.error("crash not recorded", action="crash_not_recorded", error=str(error))
        _LOG.error(
            "process exits: evaluation of rules exhausted its memory or time",
            action="rules_crashed",
            rules=rule_names,
            error=message,
        )
        process = jvm_process()
        if process is not None:
            process.kill()
        os._exit(os.EX_SOFTWARE)

    # Failures

    def record_failure(
        self, rule: ActiveRule, error: Exception, failing_row: Mapping[str, Any] | None = None
    ) -> None:
        """Record that a rule failed alone. `failing_row`: the row over which it fails, if any."""
        message = summarize_error(error)
        version = rule.version
        if isinstance(error, (StatementTimeout, MemoryExceeded, TaskLost)):
            # It delays all other rules as much as a crash of the process.
            kind = "time" if isinstance(error, StatementTimeout) else "memory"
            is_quarantined = self._registry.record_crash(rule.name, version, kind, message)
            self._suspects[rule.name] = time.monotonic() + _SUSPECT_DURATION
        else:
            is_quarantined = self._registry.record_failure(
                rule=rule.name,
                version=version,
                kind="error",
                message=message,
                event=failing_row,
                max_failures=self._limits.failures,
            )
        self._report_failure(rule, message, is_quarantined)

    def limit_event_rows(
        self, rule: ActiveRule, event_rows: Sequence[EventRow]
    ) -> Sequence[EventRow]:
        """The event rows of one evaluation up to the limit; excess rows are a failure."""
        limit = rule.event_limit
        allowed_rows = truncate_event_rows(event_rows, limit, self._limits.matches)
        excess = len(event_rows) - len(allowed_rows)
        if not excess:
            self.rules_over_limit.discard(rule.name)
            return allowed_rows
        self.rules_over_limit.add(rule.name)
        message = f"more events in one evaluation than the limit of {len(allowed_rows):,}"
        is_quarantined = self._registry.record_failure(
            rule=rule.name,
            version=rule.version,
            kind="flood",
            message=message,
            event={"from": from_micros(allowed_rows[0].ts).isoformat()},
            max_failures=self._limits.failures,
            times=excess,
        )
        self._report_failure(rule, f"{message}: {excess:,} left out", is_quarantined)
        return allowed_rows

    def _report_failure(self, rule: ActiveRule, message: str, is_quarantined: bool) -> None:
        _LOG.error(
            "rule failed",
            action="rule_failed",
            rule=rule.name,
            error=message,
            quarantined=is_quarantined,
        )
        if is_quarantined:
            self.quarantined.add(rule.name)


def _is_out_of_memory() -> bool:
    """Whether the JVM has exited because it ran out of memory."""
    process = jvm_process()
    if process is None:
        return False
    grace = 0.0
    if process.poll() is None and not _is_jvm_responding():
        grace = _RESPONSE_GRACE
    with suppress(Exception):
        process.wait(grace)
    return process.poll() == _EXIT_OUT_OF_MEMORY


def _is_jvm_responding() -> bool:
    try:
        SparkContext._gateway.jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]
    except Exception:
        return False
    return True
