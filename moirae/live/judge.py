"""Judging: the deployed rules over new rows (detected) and over slices of the archive (settled)."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.admission import column
from archiver.ingest import Archive
from archiver.times import span
from moirae.alerts.event import Event, Found, distinct
from moirae.alerts.source import Source, source
from moirae.alerts.store import AlertStore
from moirae.deployments.registry import Registry
from moirae.judging.around import Around
from moirae.judging.engines import Engines
from moirae.judging.guard import Guard
from moirae.judging.plan import Running, Slice, due, horizon, joined
from moirae.judging.rows import Rows
from moirae.live.contexts import Contexts
from moirae.live.deployed import Deployed
from moirae.live.follow import Follow
from moirae.live.relations import Relations
from moirae.rules.admission import Admission
from moirae.views.plan import undecided

# Seconds between two settlings of filters, which lose nothing by waiting: their events are detected at once.
_SETTLE_EVERY = 1.0
# Seconds between two notes of where quiet rules stand.
_SAVE_EVERY = 1.0


class Judge:
    """The rules that run, on one Spark session and one database connection."""

    def __init__(
        self,
        spark: SparkSession,
        archive: Archive,
        connection: Connection[Any],
        relations: Relations,
        admission: Admission,
        guard: Guard,
        local: bool = True,
    ) -> None:
        """`local`: whether plain rules may be judged in this process."""
        self._rows = Rows(spark, archive)
        self._guard = guard
        self._contexts = Contexts(Around(spark, self._rows, guard), connection)
        self._follow = Follow(connection, self._contexts)
        self._archive = archive
        self._connection = connection
        self._registry = Registry(connection)
        self._store = AlertStore(connection)
        self._streams = {name: table.schema.time for name, table in archive.tables.items()}
        columns = {name: table.schema.columns for name, table in archive.tables.items()}
        self._engines = Engines(spark, self._rows, guard, columns, local)
        self._deployed = Deployed(archive, connection, relations, admission, guard, self._rows, self._engines)
        self._settled_at = 0.0
        self._saved_at = 0.0

    @property
    def running(self) -> list[Running]:
        """The rules that run."""
        return self._deployed.running

    def reload(self, now: datetime) -> None:
        """Take in changed relations and rules. `now`: the event time from which changed relations hold."""
        self.detect_unsettled(self._deployed.reload(now))

    def watermarks(self) -> dict[str, int | None]:
        """Of each stream; see `Archive.watermark`."""
        return self._deployed.watermarks()

    # Detecting

    def detect(self, on_time: Mapping[str, pa.Table]) -> bool:
        """Judge new rows by the rules that judge row by row. Returns whether rows were left to settling alone.

        Rows that are complete already are: they are settled in the same round.
        """
        marks = self.watermarks()
        standings = [standing for standing in self._deployed.standings if standing.shape.stateless]
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
                newer = column(rows, self._streams[name]) >= beyond
                left = left or not newer.all()
                rows = rows.filter(pa.array(newer))
            if len(rows):
                fresh[name] = rows
        standings = [standing for standing in standings if standing.shape.streams & fresh.keys()]
        if standings:
            streams = frozenset().union(*(standing.shape.streams for standing in standings))
            inputs = {name: self._rows.new(name, fresh.get(name)) for name in streams}
            rules = joined([standing.rules for standing in standings])
            found = self._engines.found(rules, inputs, sum(map(len, inputs.values()))).finds
            self._tell([(rule, _since(finds, horizons[rule.shape])) for rule, finds in found])
        return left

    def detect_unsettled(self, rules: Sequence[Running]) -> None:
        """Judge what the archive holds beyond the settled: after a restart nobody may have been told of it, and a rule
        that has just started has not seen it.
        """
        wanted = set(rules)
        groups: dict[int | None, list[Sequence[Running]]] = {}
        for standing in self._deployed.standings:
            shape, members = standing.shape, standing.of(wanted.__contains__).rules
            if members and shape.stateless and any(self._archive.progress[s].newest is not None for s in shape.streams):
                groups.setdefault(standing.settled_to, []).append(members)
        for low, parts in groups.items():
            self._tell(self._engines.judged(Slice(joined(parts), low, None, low, None)).finds)

    def _tell(self, found: Sequence[tuple[Running, Sequence[Found]]]) -> None:
        """Detected events and their provisional alerts, of all rules at once."""
        told = [(rule, finds) for rule, finds in found if finds]
        if told:
            with self._connection.transaction():
                for rule, finds in told:
                    self._store.detect(_source(rule), self._events(rule, finds))

    # Settling

    def settle(self, at_once: bool = False) -> int:
        """Settle what is due; returns how many slices were judged.

        `at_once`: filters too, whenever they were settled last.
        """
        now = time.monotonic()
        filters = at_once or now - self._settled_at >= _SETTLE_EVERY
        standings = [one for one in self._deployed.standings if filters or not one.shape.stateless]
        slices = due(standings, self.watermarks())
        if filters:
            self._settled_at = now
        for part in slices:
            assert part.high is not None
            self._settle_slice(part, part.high, part.high)
        if slices and filters:
            self._forget()
        if now - self._saved_at >= _SAVE_EVERY:
            self._saved_at = now
            self._deployed.save()
        return len(slices)

    # What follows

    def follow(self) -> None:
        """Contexts and recalls of the alerts that were told."""
        self._follow.up(self.running, self.watermarks(), self._newest())

    def follow_to_end(self) -> None:
        """The same, when nothing more will come."""
        self._follow.to_end(self.running, self.watermarks(), self._newest())

    def _newest(self) -> int | None:
        return max((p.newest for p in self._archive.progress.values() if p.newest is not None), default=None)

    def _forget(self) -> None:
        """Rows that no rule will look at again leave the memory."""
        asked = self._contexts.needs([rule for rule in self.running if rule.definition.asks], self.watermarks())
        for name, recent in self._archive.recent.items():
            readers = [one for one in self._deployed.standings if name in one.shape.streams]
            needs = [one.settled_to and one.settled_to - one.shape.reach for one in readers]
            known = [need for need in needs if need is not None]
            if len(known) == len(needs):
                low = min(known, default=self._archive.watermark(name) or 0)
                recent.forget(min(low, asked.get(name, low)))

    def reach(self) -> int:
        """How far beyond the newest row (microseconds) time must go for all windows and alerts to run out."""
        return max((_runs_out(rule) + self._contexts.reach(rule) for rule in self.running), default=0)

    def settle_to_end(self, after_newest: int, end: int) -> None:
        """Settle everything: no row at or after `after_newest` will come, and alerts are silent until `end`.

        What falls silent with the end of its input is not absent: absence is judged up to the newest row.
        """
        marks: dict[str, int | None] = dict.fromkeys(self._streams, end)
        rows_only: dict[str, int | None] = dict.fromkeys(self._streams, after_newest)
        for rule, low in [(rule, one.settled_to) for one in self._deployed.standings for rule in one.rules]:
            shape = rule.shape
            high = horizon(shape, rows_only if rule.definition.rule.spec.absent else marks)
            assert high is not None
            high = max(high, low if low is not None else high)
            part = Slice((rule,), low, high, None if low is None else low - shape.reach, high + shape.lag)
            self._settle_slice(part, high, max(high, end))
        self._deployed.save()

    def _settle_slice(self, part: Slice, high: int, silence: int) -> None:
        """All its rules at once. Few have anything to tell at a time; where the others stand is stored now and then.

        `silence`: the event time before which no other event will come; at least `high`.
        """
        answers = self._engines.judged(part)
        found = {rule.rule: finds for rule, finds in answers.finds}
        self._archive.fence()
        versions: dict[str, str] = {}
        with self._connection.transaction():
            open_since = self._store.open_since(high)
            for rule in [rule for rule in part.rules if rule.rule in found or rule.rule in open_since]:
                name = rule.rule
                if name in found or (name not in answers.failed and _runs_out_by(rule, open_since[name], silence)):
                    self._store.settle(_source(rule), self._events(rule, found.get(name, [])), high, silence)
                    versions[name] = rule.definition.version
            if versions:
                self._registry.settle(versions, high, self._guard.failing)
        self._deployed.settled({rule.rule for rule in part.rules} - answers.failed, high, versions.keys())

    def _events(self, rule: Running, finds: Sequence[Found]) -> list[Event]:
        return distinct(rule.rule, rule.definition.id, rule.definition.key, self._guard.within(rule, finds))


def _since(finds: Sequence[Found], low: int | None) -> list[Found]:
    return [found for found in finds if low is None or found.ts >= low]


def _source(rule: Running) -> Source:
    return source(rule.definition)


def _runs_out_by(rule: Running, last: int | None, silence: int) -> bool:
    """Whether something of a rule ends before `silence` without another event; `last`: see `AlertStore.open_since`."""
    return last is None or last + span(rule.definition.rule.spec.keep_firing_for) <= silence


def _runs_out(rule: Running) -> int:
    """Long enough for what began before the rule did to be decided, too (see `moirae.views.plan`)."""
    return (
        rule.shape.reach + abs(rule.shape.lag) + 2 * undecided(rule.definition) + span(rule.definition.rule.spec.delay)
    )
