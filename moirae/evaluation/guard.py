"""One rule cannot harm another: statements end in time, who is at fault is charged, and set aside
when it goes on.

A statement over its limit is cancelled. Where that does not help (a regular expression that
backtracks for ever, a plan that is never finished) nothing can end it but the end of the process:
its rules are charged in the database, the process ends, and the next one runs them one by one
(suspects). The one with which the process falls again is quarantined. The same holds when the JVM
has no memory left.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import psutil
import structlog
from pyspark import SparkContext
from pyspark.sql import SparkSession

import sql
from archiver.spark import jvm_process
from archiver.times import from_micros
from moirae.alerts import EventRow
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.errors import StatementTimeout
from moirae.evaluation.limits import is_over_limit, statement_limit, truncate_event_rows
from moirae.evaluation.plan import ActiveRule
from moirae.runtime import connect_database

_LOG = structlog.get_logger()

# In seconds. Between two looks at the statement under way; processor time until a cancelled one
# must have ended.
_POLL_INTERVAL, _CANCEL_GRACE = 0.1, 5.0
# Processor time, in seconds, that a JVM needs to get going, beside its first statements: no rule is
# to blame for it.
_WARM_UP_ALLOWANCE = 20.0
# Exit codes: of a JVM without memory (-XX:+ExitOnOutOfMemoryError); of this process, as sysexits.h
# names it.
_EXIT_OUT_OF_MEMORY, _EXIT_SOFTWARE_ERROR = 3, 70
# How long, in seconds, a rule is a suspect after a fall.
_SUSPECT_DURATION = 600.0

_T = TypeVar("_T")


# Processor time of the JVM, and the clock, in seconds.
_TimeReading = tuple[float, float]


@dataclass
class _Statement:
    """What is under way. `limit` in seconds."""

    group: str
    rules: Sequence[ActiveRule]
    limit: float
    started_at: _TimeReading
    cancelled_at: _TimeReading | None = None


class Guard:
    """Stands beside the judge of one live process."""

    def __init__(self, spark: SparkSession, settings: Settings, connection: sql.Connection) -> None:
        self._spark = spark
        self._settings = settings
        self._limits = settings.limits
        self._registry = RuleRegistry(connection)
        self._statement_numbers = count()
        self._is_warm = False
        self._statement: _Statement | None = None
        self._suspects: dict[str, float] = {}
        self.rules_over_limit: set[str] = set()
        """Rules whose last evaluation found too much: what they settle does not clear them."""
        self.quarantined: set[str] = set()
        """Rules that were quarantined since rules were loaded."""
        process = jvm_process()
        self._jvm = None if process is None else psutil.Process(process.pid)
        threading.Thread(target=self._watch, daemon=True, name="guard").start()

    # Who runs with whom

    def reset_quarantine(self, suspects: Iterable[str]) -> None:
        """Rules were loaded. `suspects`: the process may have fallen over them; they run alone for
        a while.
        """
        self.quarantined.clear()
        self._suspects |= dict.fromkeys(suspects, time.monotonic() + _SUSPECT_DURATION)

    def isolate_suspects(
        self, rules: Sequence[_T], name: Callable[[_T], str]
    ) -> list[Sequence[_T]]:
        """Rules in the groups in which they may run: together, and each suspect by itself, last."""
        now = time.monotonic()
        alone = {rule for rule, until in self._suspects.items() if now < until}
        if not alone:
            return [rules] if rules else []
        together = [rule for rule in rules if name(rule) not in alone]
        return [
            *([together] if together else []),
            *([rule] for rule in rules if name(rule) in alone),
        ]

    # Statements

    def run(self, rules: Sequence[ActiveRule], row_count: int, execute: Callable[[], _T]) -> _T:
        """What `work` returns or raises. `TookTooLong`: it was over its limit, and Spark is free of
        it again.
        """
        limit = statement_limit(self._limits.statement.total_seconds(), row_count, len(rules)) + (
            0.0 if self._is_warm else _WARM_UP_ALLOWANCE
        )
        context = self._spark.sparkContext
        before = {name: context.getLocalProperty(name) for name in _JOB_PROPERTIES}
        statement = _Statement(
            f"rules {next(self._statement_numbers)}", rules, limit, self._read_time()
        )
        context.setJobGroup(statement.group, statement.group, interruptOnCancel=True)
        self._statement = statement
        try:
            done = execute()
            self._is_warm = True
            return done
        except Exception as error:
            if statement.cancelled_at is not None:
                self._wait_for_spark_tasks(statement)
                raise StatementTimeout(_timeout_message(limit)) from error
            if _is_out_of_memory():
                self._exit_process(statement, "memory", "used up the memory of Spark's process")
            raise
        finally:
            self._statement = None
            with suppress(Exception):  # the JVM may be gone
                for name, value in before.items():
                    context.setLocalProperty(name, value)  # type: ignore[arg-type]

    def _watch(self) -> None:
        while True:
            time.sleep(_POLL_INTERVAL)
            statement = self._statement
            if statement is None:
                continue
            if statement.cancelled_at is not None:
                if self._is_past_grace(statement) and self._statement is statement:
                    self._exit_process(statement, "time", _timeout_message(statement.limit))
            elif is_over_limit(statement.limit, *self._elapsed_since(statement.started_at)):
                statement.cancelled_at = self._read_time()
                names = [rule.name for rule in statement.rules]
                _LOG.warning(
                    "statement cancelled",
                    action="statement_cancelled",
                    rules=names,
                    limit=statement.limit,
                )
                self._spark.sparkContext.cancelJobGroup(statement.group)

    def _wait_for_spark_tasks(self, statement: _Statement) -> None:
        """A cancelled job is over at once; its tasks may compute on, and hold what others need."""
        tracker = self._spark.sparkContext._jsc.sc().statusTracker()
        while sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
            if self._is_past_grace(statement):
                self._exit_process(statement, "time", _timeout_message(statement.limit))
            time.sleep(_POLL_INTERVAL)

    def _is_past_grace(self, statement: _Statement) -> bool:
        return statement.cancelled_at is not None and is_over_limit(
            _CANCEL_GRACE, *self._elapsed_since(statement.cancelled_at)
        )

    def _read_time(self) -> _TimeReading:
        return self._cpu_seconds(), time.monotonic()

    def _elapsed_since(self, moment: _TimeReading) -> _TimeReading:
        processor, clock = self._read_time()
        return processor - moment[0], clock - moment[1]

    def _cpu_seconds(self) -> float:
        """Seconds of processor time that the JVM has used."""
        try:
            used = self._jvm.cpu_times() if self._jvm is not None else None
        except psutil.Error:
            return 0.0
        return 0.0 if used is None else float(used.user + used.system)

    def _exit_process(self, statement: _Statement, kind: str, message: str) -> None:
        """End the process, after it is written down with whom."""
        names = [rule.name for rule in statement.rules]
        if len(names) > 1:
            message = f"{message}; it was judged together with {len(names) - 1} others, and runs alone now"
        try:
            with connect_database(self._settings, "guard") as connection, connection.transaction():
                registry = RuleRegistry(connection)
                for rule in statement.rules:
                    registry.record_crash(rule.name, rule.definition.version, kind, message)
        except (
            Exception
        ) as error:  # without the database nobody is charged; the process must end all the same
            _LOG.error("rules not charged", action="charge_failed", error=str(error))
        _LOG.error("process ends over a rule", action="fell", rules=names, error=message)
        process = jvm_process()
        if process is not None:
            process.kill()
        os._exit(_EXIT_SOFTWARE_ERROR)

    # Charges

    def record_failure(
        self, rule: ActiveRule, error: Exception, failing_row: Mapping[str, Any] | None = None
    ) -> None:
        """A rule alone has failed. `event`: the row at which it fails, where one was found."""
        message = str(error).strip().splitlines()[0]
        if isinstance(error, StatementTimeout):
            # Falls and stops weigh the same: each holds up all others.
            aside = self._registry.record_crash(rule.name, rule.definition.version, "time", message)
            self._suspects[rule.name] = time.monotonic() + _SUSPECT_DURATION
        else:
            aside = self._registry.record_failure(
                rule.name,
                rule.definition.version,
                "error",
                message,
                failing_row,
                self._limits.failures,
            )
        self._report_failure(rule, message, aside)

    def limit_event_rows(
        self, rule: ActiveRule, event_rows: Sequence[EventRow]
    ) -> Sequence[EventRow]:
        """What a rule has found, as far as it may; what is over is counted and charged."""
        left = truncate_event_rows(event_rows, rule.definition.rule.limit, self._limits.matches)
        over = len(event_rows) - len(left)
        if not over:
            self.rules_over_limit.discard(rule.name)
            return left
        self.rules_over_limit.add(rule.name)
        message = (
            f"more events in one evaluation than its limit, {len(left):,}: the others are left out"
        )
        moment = {"from": from_micros(left[0].ts).isoformat()}
        version = rule.definition.version
        aside = self._registry.record_failure(
            rule.name, version, "flood", message, moment, self._limits.failures, over
        )
        self._report_failure(rule, f"{message} ({over:,})", aside)
        return left

    def _report_failure(self, rule: ActiveRule, message: str, aside: bool) -> None:
        _LOG.error(
            "rule failed", action="rule_failed", rule=rule.name, error=message, quarantined=aside
        )
        if aside:
            self.quarantined.add(rule.name)


_JOB_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def _timeout_message(limit: float) -> str:
    return f"over its time limit ({limit:.0f} s of the processor): stopped"


def _is_out_of_memory() -> bool:
    """Whether the JVM has ended because it had no memory left."""
    process = jvm_process()
    if process is None:
        return False
    with suppress(Exception):
        process.wait(2.0 if process.poll() is None and not _is_jvm_responding() else 0.0)
    return process.poll() == _EXIT_OUT_OF_MEMORY


def _is_jvm_responding() -> bool:
    try:
        SparkContext._gateway.jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]
    except Exception:
        return False
    return True
