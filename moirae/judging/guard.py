"""One rule cannot harm another: statements end in time, who is at fault is charged, and set aside when it goes on.

A statement over its limit is cancelled. Where that does not help (a regular expression that backtracks for ever, a
plan that is never finished) nothing can end it but the end of the process: its rules are charged in the database, the
process ends, and the next one runs them one by one (suspects). The one with which the process falls again is
quarantined. The same holds when the JVM has no memory left.
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
from psycopg import Connection
from pyspark import SparkContext
from pyspark.sql import SparkSession

from archiver.engine.session import jvm
from archiver.times import from_micros
from moirae import database
from moirae.alerts.event import Found
from moirae.deployments.registry import Registry
from moirae.judging.limits import kept, seconds, too_long
from moirae.judging.plan import Running
from moirae.settings import Settings

_LOG = structlog.get_logger()

# In seconds. Between two looks at the statement under way; processor time until a cancelled one must have ended.
_LOOK, _GRACE = 0.1, 5.0
# Processor time, in seconds, that a JVM needs to get going, beside its first statements: no rule is to blame for it.
_COLD = 20.0
# Exit codes: of a JVM without memory (-XX:+ExitOnOutOfMemoryError); of this process, as sysexits.h names it.
_NO_MEMORY, _FELL = 3, 70
# How long, in seconds, a rule is a suspect after a fall.
_SUSPECT = 600.0

_T = TypeVar("_T")


class TookTooLong(Exception):
    """A statement was ended: it was over its limit."""


# Processor time of the JVM, and the clock, in seconds.
_Moment = tuple[float, float]


@dataclass
class _Statement:
    """What is under way. `limit` in seconds."""

    group: str
    rules: Sequence[Running]
    limit: float
    began: _Moment
    cancelled: _Moment | None = None


class Guard:
    """Stands beside the judge of one live process."""

    def __init__(self, spark: SparkSession, settings: Settings, connection: Connection[Any]) -> None:
        self._spark = spark
        self._settings = settings
        self._limits = settings.limits
        self._registry = Registry(connection)
        self._numbers = count()
        self._warm = False
        self._statement: _Statement | None = None
        self._suspects: dict[str, float] = {}
        self.failing: set[str] = set()
        """Rules whose last evaluation found too much: what they settle does not clear them."""
        self.set_aside: set[str] = set()
        """Rules that were quarantined since rules were loaded."""
        process = jvm()
        self._jvm = None if process is None else psutil.Process(process.pid)
        threading.Thread(target=self._watch, daemon=True, name="guard").start()

    # Who runs with whom

    def loaded(self, suspects: Iterable[str]) -> None:
        """Rules were loaded. `suspects`: the process may have fallen over them; they run alone for a while."""
        self.set_aside.clear()
        self._suspects |= dict.fromkeys(suspects, time.monotonic() + _SUSPECT)

    def apart(self, rules: Sequence[_T], name: Callable[[_T], str]) -> list[Sequence[_T]]:
        """Rules in the groups in which they may run: together, and each suspect by itself, last."""
        now = time.monotonic()
        alone = {rule for rule, until in self._suspects.items() if now < until}
        if not alone:
            return [rules] if rules else []
        together = [rule for rule in rules if name(rule) not in alone]
        return [*([together] if together else []), *([rule] for rule in rules if name(rule) in alone)]

    # Statements

    def run(self, rules: Sequence[Running], rows: int, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises. `TookTooLong`: it was over its limit, and Spark is free of it again."""
        limit = seconds(self._limits.statement.total_seconds(), rows, len(rules)) + (0.0 if self._warm else _COLD)
        context = self._spark.sparkContext
        before = {name: context.getLocalProperty(name) for name in _OF_JOBS}
        statement = _Statement(f"rules {next(self._numbers)}", rules, limit, self._now())
        context.setJobGroup(statement.group, statement.group, interruptOnCancel=True)
        self._statement = statement
        try:
            done = work()
            self._warm = True
            return done
        except Exception as error:
            if statement.cancelled is not None:
                self._await_quiet(statement)
                raise TookTooLong(_over(limit)) from error
            if _no_memory():
                self._fall(statement, "memory", "used up the memory of Spark's process")
            raise
        finally:
            self._statement = None
            with suppress(Exception):  # the JVM may be gone
                for name, value in before.items():
                    context.setLocalProperty(name, value)  # type: ignore[arg-type]

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK)
            statement = self._statement
            if statement is None:
                continue
            if statement.cancelled is not None:
                if self._over_grace(statement) and self._statement is statement:
                    self._fall(statement, "time", _over(statement.limit))
            elif too_long(statement.limit, *self._since(statement.began)):
                statement.cancelled = self._now()
                names = [rule.rule for rule in statement.rules]
                _LOG.warning("statement cancelled", action="statement_cancelled", rules=names, limit=statement.limit)
                self._spark.sparkContext.cancelJobGroup(statement.group)

    def _await_quiet(self, statement: _Statement) -> None:
        """A cancelled job is over at once; its tasks may compute on, and hold what others need."""
        tracker = self._spark.sparkContext._jsc.sc().statusTracker()
        while sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
            if self._over_grace(statement):
                self._fall(statement, "time", _over(statement.limit))
            time.sleep(_LOOK)

    def _over_grace(self, statement: _Statement) -> bool:
        return statement.cancelled is not None and too_long(_GRACE, *self._since(statement.cancelled))

    def _now(self) -> _Moment:
        return self._processor(), time.monotonic()

    def _since(self, moment: _Moment) -> _Moment:
        processor, clock = self._now()
        return processor - moment[0], clock - moment[1]

    def _processor(self) -> float:
        """Seconds of processor time that the JVM has used."""
        try:
            used = self._jvm.cpu_times() if self._jvm is not None else None
        except psutil.Error:
            return 0.0
        return 0.0 if used is None else float(used.user + used.system)

    def _fall(self, statement: _Statement, kind: str, message: str) -> None:
        """End the process, after it is written down with whom."""
        names = [rule.rule for rule in statement.rules]
        if len(names) > 1:
            message = f"{message}; it was judged together with {len(names) - 1} others, and runs alone now"
        try:
            with database.connect(self._settings, "guard") as connection, connection.transaction():
                registry = Registry(connection)
                for rule in statement.rules:
                    registry.fell(rule.rule, rule.definition.version, kind, message)
        except Exception as error:  # without the database nobody is charged; the process must end all the same
            _LOG.error("rules not charged", action="charge_failed", error=str(error))
        _LOG.error("process ends over a rule", action="fell", rules=names, error=message)
        process = jvm()
        if process is not None:
            process.kill()
        os._exit(_FELL)

    # Charges

    def fail(self, rule: Running, error: Exception, event: Mapping[str, Any] | None = None) -> None:
        """A rule alone has failed. `event`: the row at which it fails, where one was found."""
        message = str(error).strip().splitlines()[0]
        if isinstance(error, TookTooLong):
            # Falls and stops weigh the same: each holds up all others.
            aside = self._registry.fell(rule.rule, rule.definition.version, "time", message)
            self._suspects[rule.rule] = time.monotonic() + _SUSPECT
        else:
            aside = self._registry.fail(
                rule.rule, rule.definition.version, "error", message, event, self._limits.failures
            )
        self._charged(rule, message, aside)

    def within(self, rule: Running, found: Sequence[Found]) -> Sequence[Found]:
        """What a rule has found, as far as it may; what is over is counted and charged."""
        left = kept(found, rule.definition.rule.limit, self._limits.matches)
        over = len(found) - len(left)
        if not over:
            self.failing.discard(rule.rule)
            return left
        self.failing.add(rule.rule)
        message = f"more events in one evaluation than its limit, {len(left):,}: the others are left out"
        moment = {"from": from_micros(left[0].ts).isoformat()}
        version = rule.definition.version
        aside = self._registry.fail(rule.rule, version, "flood", message, moment, self._limits.failures, over)
        self._charged(rule, f"{message} ({over:,})", aside)
        return left

    def _charged(self, rule: Running, message: str, aside: bool) -> None:
        _LOG.error("rule failed", action="rule_failed", rule=rule.rule, error=message, quarantined=aside)
        if aside:
            self.set_aside.add(rule.rule)


_OF_JOBS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def _over(limit: float) -> str:
    return f"over its time limit ({limit:.0f} s of the processor): stopped"


def _no_memory() -> bool:
    """Whether the JVM has ended because it had no memory left."""
    process = jvm()
    if process is None:
        return False
    with suppress(Exception):
        process.wait(2.0 if process.poll() is None and not _answers() else 0.0)
    return process.poll() == _NO_MEMORY


def _answers() -> bool:
    try:
        SparkContext._gateway.jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]
    except Exception:
        return False
    return True
