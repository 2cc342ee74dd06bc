"""Judging: the deployed rules over new rows (detected) and over slices of the archive (settled)."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.ingest import ArchiveWriter
from archiver.times import duration_to_micros, micros_column
from moirae.alerts import AlertingRule, AlertStore, Event, EventRow, deduplicate, make_alerting_rule
from moirae.deployments import RuleRegistry
from moirae.evaluation import (
    ActiveRule,
    ContextEvaluator,
    Guard,
    LiveStreamRows,
    RuleEvaluator,
    RuleSlice,
    concatenate_rules,
    due_slices,
    horizon,
)
from moirae.history import undecided_duration
from moirae.live.active_rules import ActiveRules
from moirae.live.alert_contexts import AlertContexts
from moirae.live.follow_up import AlertFollowUp
from moirae.live.relations import Relations
from moirae.rules import RuleAdmission

# Seconds between two settlings of filters, which lose nothing by waiting: their events are detected at once.
_SETTLE_INTERVAL = 1.0
# Seconds between two notes of where quiet rules stand.
_SAVE_INTERVAL = 1.0


class Detector:
    """The rules that run, on one Spark session and one database connection."""

    def __init__(
        self,
        spark: SparkSession,
        archive: ArchiveWriter,
        connection: Connection[Any],
        relations: Relations,
        admission: RuleAdmission,
        guard: Guard,
        local: bool = True,
    ) -> None:
        """`local`: whether plain rules may be judged in this process."""
        self._rows = LiveStreamRows(spark, archive)
        self._guard = guard
        self._contexts = AlertContexts(ContextEvaluator(spark, self._rows, guard), connection)
        self._follow_up = AlertFollowUp(connection, self._contexts)
        self._archive = archive
        self._connection = connection
        self._registry = RuleRegistry(connection)
        self._store = AlertStore(connection)
        self._time_columns = {name: table.schema.time for name, table in archive.tables.items()}
        columns = {name: table.schema.columns for name, table in archive.tables.items()}
        self._engines = RuleEvaluator(spark, self._rows, guard, columns, local)
        self._active_rules = ActiveRules(
            archive, connection, relations, admission, guard, self._rows, self._engines
        )
        self._settled_at = 0.0
        self._saved_at = 0.0

    @property
    def active_rules(self) -> list[ActiveRule]:
        """The rules that run."""
        return self._active_rules.rules

    def reload(self, now: datetime) -> None:
        """Take in changed relations and rules. `now`: the event time from which changed relations hold."""
        self.detect_unsettled(self._active_rules.reload(now))

    def watermarks(self) -> dict[str, int | None]:
        """Of each stream; see `Archive.watermark`."""
        return self._active_rules.watermarks()

    # Detecting

    def detect(self, on_time: Mapping[str, pa.Table]) -> bool:
        """Judge new rows by the rules that judge row by row. Returns whether rows were left to settling alone.

        Rows that are complete already are: they are settled in the same round.
        """
        marks = self.watermarks()
        standings = [
            standing for standing in self._active_rules.cohorts if standing.shape.is_stateless
        ]
        horizons = {standing.shape: horizon(standing.shape, marks) for standing in standings}
        left = False
        fresh: dict[str, pa.Table] = {}
        for name in self._archive.tables:
            rows = on_time.get(name)
            readers = [low for shape, low in horizons.items() if name in shape.streams]
            if rows is None or not len(rows) or not readers:
                continue
            beyond = min((h for h in readers if h is not None), default=None)
            if beyond is not None:
                newer = micros_column(rows, self._time_columns[name]) >= beyond
                left = left or not newer.all()
                rows = rows.filter(pa.array(newer))
            if len(rows):
                fresh[name] = rows
        standings = [standing for standing in standings if standing.shape.streams & fresh.keys()]
        if standings:
            streams = frozenset().union(*(standing.shape.streams for standing in standings))
            inputs = {name: self._rows.select_columns(name, fresh.get(name)) for name in streams}
            rules = concatenate_rules([standing.rules for standing in standings])
            found = self._engines.evaluate(rules, inputs, sum(map(len, inputs.values()))).event_rows
            self._record_detected(
                [(rule, _rows_since(finds, horizons[rule.shape])) for rule, finds in found]
            )
        return left

    def detect_unsettled(self, rules: Sequence[ActiveRule]) -> None:
        """Judge what the archive holds beyond the settled: after a restart nobody may have been told of it, and a rule
        that has just started has not seen it.
        """
        wanted = set(rules)
        groups: dict[int | None, list[Sequence[ActiveRule]]] = {}
        for standing in self._active_rules.cohorts:
            shape, members = standing.shape, standing.select(wanted.__contains__).rules
            if (
                members
                and shape.is_stateless
                and any(self._archive.progress[s].newest is not None for s in shape.streams)
            ):
                groups.setdefault(standing.settled_to, []).append(members)
        for low, parts in groups.items():
            self._record_detected(
                self._engines.evaluate_slice(
                    RuleSlice(concatenate_rules(parts), low, None, low, None)
                ).event_rows
            )

    def _record_detected(self, found: Sequence[tuple[ActiveRule, Sequence[EventRow]]]) -> None:
        """Detected events and their provisional alerts, of all rules at once."""
        told = [(rule, finds) for rule, finds in found if finds]
        if told:
            with self._connection.transaction():
                for rule, finds in told:
                    self._store.record_detected(_alerting_rule(rule), self._to_events(rule, finds))

    # Settling

    def settle(self, include_filters: bool = False) -> int:
        """Settle what is due; returns how many slices were judged.

        `at_once`: filters too, whenever they were settled last.
        """
        now = time.monotonic()
        filters = include_filters or now - self._settled_at >= _SETTLE_INTERVAL
        standings = [
            one for one in self._active_rules.cohorts if filters or not one.shape.is_stateless
        ]
        slices = due_slices(standings, self.watermarks())
        if filters:
            self._settled_at = now
        for part in slices:
            assert part.high is not None
            self._settle_slice(part, part.high, part.high)
        if slices and filters:
            self._evict_rows()
        if now - self._saved_at >= _SAVE_INTERVAL:
            self._saved_at = now
            self._active_rules.save_progress()
        return len(slices)

    # What follows

    def follow_up(self) -> None:
        """Contexts and recalls of the alerts that were told."""
        self._follow_up.run(self.active_rules, self.watermarks(), self._newest_event_time())

    def follow_up_to_end(self) -> None:
        """The same, when nothing more will come."""
        self._follow_up.run_to_end(self.active_rules, self.watermarks(), self._newest_event_time())

    def _newest_event_time(self) -> int | None:
        return max(
            (p.newest for p in self._archive.progress.values() if p.newest is not None),
            default=None,
        )

    def _evict_rows(self) -> None:
        """Rows that no rule will look at again leave the memory."""
        asked = self._contexts.oldest_needed(
            [rule for rule in self.active_rules if rule.definition.has_questions], self.watermarks()
        )
        for name, recent in self._archive.recent_rows.items():
            readers = [one for one in self._active_rules.cohorts if name in one.shape.streams]
            needs = [one.settled_to and one.settled_to - one.shape.reach for one in readers]
            known = [need for need in needs if need is not None]
            if len(known) == len(needs):
                low = min(known, default=self._archive.watermark(name) or 0)
                recent.drop_before(min(low, asked.get(name, low)))

    def reach(self) -> int:
        """How far beyond the newest row (microseconds) time must go for all windows and alerts to run out."""
        return max(
            (_rule_reach(rule) + self._contexts.reach(rule) for rule in self.active_rules),
            default=0,
        )

    def settle_to_end(self, after_newest: int, end: int) -> None:
        """Settle everything: no row at or after `after_newest` will come, and alerts are silent until `end`.

        What falls silent with the end of its input is not absent: absence is judged up to the newest row.
        """
        marks: dict[str, int | None] = dict.fromkeys(self._time_columns, end)
        rows_only: dict[str, int | None] = dict.fromkeys(self._time_columns, after_newest)
        for rule, low in [
            (rule, one.settled_to) for one in self._active_rules.cohorts for rule in one.rules
        ]:
            shape = rule.shape
            high = horizon(shape, rows_only if rule.definition.rule.spec.absent else marks)
            assert high is not None
            high = max(high, low if low is not None else high)
            part = RuleSlice(
                (rule,), low, high, None if low is None else low - shape.reach, high + shape.lag
            )
            self._settle_slice(part, high, max(high, end))
        self._active_rules.save_progress()

    def _settle_slice(self, part: RuleSlice, high: int, silence: int) -> None:
        """All its rules at once. Few have anything to tell at a time; where the others stand is stored now and then.

        `silence`: the event time before which no other event will come; at least `high`.
        """
        answers = self._engines.evaluate_slice(part)
        found = {rule.name: finds for rule, finds in answers.event_rows}
        self._archive.fence()
        versions: dict[str, str] = {}
        with self._connection.transaction():
            open_since = self._store.rules_with_open_alerts(high)
            for rule in [
                rule for rule in part.rules if rule.name in found or rule.name in open_since
            ]:
                name = rule.name
                if name in found or (
                    name not in answers.failed and _ends_by(rule, open_since[name], silence)
                ):
                    self._store.settle(
                        _alerting_rule(rule),
                        self._to_events(rule, found.get(name, [])),
                        high,
                        silence,
                    )
                    versions[name] = rule.definition.version
            if versions:
                self._registry.record_settled(versions, high, self._guard.rules_over_limit)
        self._active_rules.mark_settled(
            {rule.name for rule in part.rules} - answers.failed, high, versions.keys()
        )

    def _to_events(self, rule: ActiveRule, finds: Sequence[EventRow]) -> list[Event]:
        return deduplicate(
            rule.name,
            rule.definition.id,
            rule.definition.key,
            self._guard.limit_event_rows(rule, finds),
        )


def _rows_since(finds: Sequence[EventRow], low: int | None) -> list[EventRow]:
    return [found for found in finds if low is None or found.ts >= low]


def _alerting_rule(rule: ActiveRule) -> AlertingRule:
    return make_alerting_rule(rule.definition)


def _ends_by(rule: ActiveRule, last: int | None, silence: int) -> bool:
    """Whether something of a rule ends before `silence` without another event; `last`: see `AlertStore.open_since`."""
    return (
        last is None
        or last + duration_to_micros(rule.definition.rule.spec.keep_firing_for) <= silence
    )


def _rule_reach(rule: ActiveRule) -> int:
    """Long enough for what began before the rule did to be decided, too (see `moirae.history.plan`)."""
    return (
        rule.shape.reach
        + abs(rule.shape.lag)
        + 2 * undecided_duration(rule.definition)
        + duration_to_micros(rule.definition.rule.spec.delay)
    )
