"""Judging: the deployed rules over new rows (detected) and over slices of the archive (settled).

Plain rules are judged in this process, all of one shape by one query; the others, and whatever fails here, by Spark in
one statement. Where that fails, each half of its rules is judged again, down to the one at fault, which is charged.
"""

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
import structlog
from psycopg import Connection
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from archiver.admission import column
from archiver.ingest import Archive
from archiver.times import span
from moirae.alerts.event import Event, Found, distinct
from moirae.alerts.source import Source, source
from moirae.alerts.store import AlertStore
from moirae.deployments.model import Damaged
from moirae.deployments.registry import Registry
from moirae.errors import MoiraeError
from moirae.live.around import Around
from moirae.live.contexts import Contexts
from moirae.live.follow import Follow
from moirae.live.guard import Guard, TookTooLong
from moirae.live.limits import culprit
from moirae.live.local import LocalJudge
from moirae.live.plan import Running, Slice, due, horizon, view
from moirae.live.relations import Relations
from moirae.live.rows import Rows
from moirae.live.share import Shares, Sharing
from moirae.rules.admission import Admission
from moirae.rules.definition import Definition, event_shape, tables_of
from moirae.views.plan import undecided

_LOG = structlog.get_logger()

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
        self._spark = spark
        self._rows = Rows(spark, archive)
        self._guard = guard
        self._contexts = Contexts(Around(spark, self._rows, guard), connection)
        self._follow = Follow(connection, self._contexts)
        self._archive = archive
        self._connection = connection
        self._registry = Registry(connection)
        self._store = AlertStore(connection)
        self._relations = relations
        self._admission = admission
        self._streams = {name: table.schema.time for name, table in archive.tables.items()}
        self._sharing = Sharing({name: table.schema.columns for name, table in archive.tables.items()})
        self._local = LocalJudge() if local else None
        self._revision: int | None = None
        self._settled_at = 0.0
        self._saved_at = 0.0
        self._unsaved: set[str] = set()
        self._relation_names: frozenset[str] = frozenset()
        self.running: list[Running] = []

    # What runs

    def reload(self, now: datetime) -> None:
        """Take in changed relations and rules. `now`: the event time from which changed relations hold."""
        for name in self._relations.changed():
            try:
                self._relations.read(name, now)
            except MoiraeError as error:
                # A bad file changes nothing, where there is something it could change.
                if not self._relations.known(name):
                    raise
                _LOG.error("relation not read", action="relation_refused", relation=name, error=str(error))
            self._rows.frame(self._relations.table(name)).createOrReplaceTempView(f"relation_{name}")
            self._relation_names |= {name}
        revision = self._registry.revision()
        if revision != self._revision:
            self.save()
            self._reconcile(*self._registry.stored())
            self._revision = revision

    def _reconcile(self, desired: Sequence[Definition], damaged: Sequence[Damaged]) -> None:
        """Start, change and stop only what differs, all at once; a new version takes over where the old one stood.

        What is refused has its place too, from which it goes on when it is admitted.
        """
        wanted = {d.name: d for d in desired if d.rule.spec.enabled}
        admitted, refused = self._admission.admit(list(wanted.values()))
        wanted |= {d.name: d for d in admitted}
        refused |= {one.rule: one.reason for one in damaged}
        versions = {name: d.version for name, d in wanted.items()} | {one.rule: one.version for one in damaged}
        started: set[str] = set()
        with self._registry.transaction():
            deployed = {deployment.rule: deployment for deployment in self._registry.deployments()}
            for rule, deployment in deployed.items():
                if versions.get(rule) != deployment.version:
                    self._registry.stop(rule, deployment.version)
                if rule not in versions:
                    self._registry.end_alerts(rule)
            for name, version in versions.items():
                before, definition = deployed.get(name), wanted.get(name)
                if before is None or before.version != version:
                    settled = before.settled_to if before else self._begin(definition)
                    self._registry.start(name, version, settled, undecided(definition) if definition else 0)
                    started.add(name)
            for name, reason in refused.items():
                self._registry.refuse(name, versions[name], reason)
                _LOG.error("rule refused", action="rule_refused", rule=name, error=reason)
            lifted = self._registry.lift({name: version for name, version in versions.items() if name not in refused})
        for name in sorted((started | lifted) - refused.keys()):
            _LOG.info("rule started", action="rule_started", rule=name, version=versions[name])
        self._load(wanted)
        self.detect_unsettled([rule for rule in self.running if rule.rule in started | lifted])

    def _begin(self, definition: Definition | None) -> int | None:
        """A new rule begins with what is not settled yet; in a workspace without data, at the beginning of time.

        One that cannot be read begins with the stream that has come the least far.
        """
        marks = self.watermarks()
        if definition is not None:
            tables = tables_of(definition.rule, self._streams, self._relation_names)
            with suppress(Exception):  # a refused one may be anything
                return horizon(event_shape(definition.rule, tables), marks)
        return min((mark for mark in marks.values() if mark is not None), default=None)

    def _load(self, wanted: Mapping[str, Definition]) -> None:
        self.running = []
        deployments = self._registry.deployments()
        self._guard.loaded(deployment.rule for deployment in deployments if deployment.suspect)
        for deployment in deployments:
            if deployment.state == "running" and deployment.rule in wanted:
                definition = wanted[deployment.rule]
                tables = tables_of(definition.rule, self._streams, self._relation_names)
                shape = event_shape(definition.rule, tables)
                self.running.append(Running(definition, tables, shape, deployment.settled_to))

        self._sharing.forget(self.running)
        if self._local is not None:
            self._local.forget()
        # A thousand rules are a hundred thousand objects that stay: looking through them takes as long as a batch.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def watermarks(self) -> dict[str, int | None]:
        """Of each stream; see `Archive.watermark`."""
        return {name: self._archive.watermark(name) for name in self._archive.tables}

    # Detecting

    def detect(self, on_time: Mapping[str, pa.Table]) -> bool:
        """Judge new rows by the rules that judge row by row. Returns whether rows were left to settling alone.

        Rows that are complete already are: they are settled in the same round.
        """
        marks = self.watermarks()
        rules = [rule for rule in self.running if rule.shape.stateless]
        horizons = {rule.rule: horizon(rule.shape, marks) for rule in rules}
        left = False
        fresh: dict[str, pa.Table] = {}
        for name in self._archive.tables:
            rows = on_time.get(name)
            readers = [horizons[r.rule] for r in rules if name in r.shape.streams]
            if rows is None or not len(rows) or not readers:
                continue
            beyond = min((h for h in readers if h is not None), default=None)
            if beyond is not None:
                newer = column(rows, self._streams[name]) >= beyond
                left = left or not newer.all()
                rows = rows.filter(pa.array(newer))
            if len(rows):
                fresh[name] = rows
        rules = [rule for rule in rules if rule.shape.streams & fresh.keys()]
        if rules:
            streams = frozenset().union(*(rule.shape.streams for rule in rules))
            inputs = {name: self._rows.new(name, fresh.get(name)) for name in streams}
            found = self._found(rules, inputs, sum(map(len, inputs.values())))
            self._tell([(rule, _since(finds, horizons[rule.rule])) for rule, finds in found])
        return left

    def detect_unsettled(self, rules: Sequence[Running]) -> None:
        """Judge what the archive holds beyond the settled: after a restart nobody may have been told of it, and a rule
        that has just started has not seen it.
        """
        groups: dict[int | None, list[Running]] = {}
        for rule in rules:
            if rule.shape.stateless and any(self._archive.progress[s].newest is not None for s in rule.shape.streams):
                groups.setdefault(rule.settled_to, []).append(rule)
        for low, members in groups.items():
            self._tell(self._judge(Slice(tuple(members), low, None, low, None)))

    def _tell(self, found: Sequence[tuple[Running, list[Found]]]) -> None:
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
        slices = due([r for r in self.running if filters or not r.shape.stateless], self.watermarks())
        if filters:
            self._settled_at = now
        for part in slices:
            assert part.high is not None
            self._settle_rules(self._judge(part), part.high, part.high)
        if slices:
            self._forget()
        if now - self._saved_at >= _SAVE_EVERY:
            self._saved_at = now
            self.save()
        return len(slices)

    # What follows

    def follow(self) -> None:
        """Contexts and recalls of the alerts that were told."""
        self._follow.up(self.running, self.watermarks(), self._newest())
        self._drop_set_aside()

    def follow_to_end(self) -> None:
        """The same, when nothing more will come."""
        self._follow.to_end(self.running, self.watermarks(), self._newest())

    def _newest(self) -> int | None:
        return max((p.newest for p in self._archive.progress.values() if p.newest is not None), default=None)

    def _forget(self) -> None:
        """Rows that no rule will look at again leave the memory."""
        asked = self._contexts.needs(self.running, self.watermarks())
        for name, recent in self._archive.recent.items():
            needs = [r.settled_to and r.settled_to - r.shape.reach for r in self.running if name in r.shape.streams]
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
        for rule in list(self.running):
            mark = rows_only if rule.definition.rule.spec.absent else marks
            high = horizon(rule.shape, mark)
            assert high is not None
            high = max(high, rule.settled_to if rule.settled_to is not None else high)
            low, shape = rule.settled_to, rule.shape
            part = Slice((rule,), low, high, None if low is None else low - shape.reach, high + shape.lag)
            self._settle_rules(self._judge(part), high, max(high, end))
        self.save()

    def _settle_rules(self, found: Sequence[tuple[Running, list[Found]]], high: int, silence: int) -> None:
        """All of them at once. Few have anything to tell at a time; where the others stand is stored now and then.

        `silence`: the event time before which no other event will come; at least `high`.
        """
        self._archive.fence()
        with self._connection.transaction():
            open_since = self._store.open_since(high)
            versions: dict[str, str] = {}
            for rule, finds in found:
                if finds or (rule.rule in open_since and _runs_out_by(rule, open_since[rule.rule], silence)):
                    self._store.settle(_source(rule), self._events(rule, finds), high, silence)
                    versions[rule.rule] = rule.definition.version
            if versions:
                self._registry.settle(versions, high, self._guard.failing)
        judged = {rule.rule for rule, _ in found}
        self._unsaved = (self._unsaved | judged) - versions.keys()
        self.running = [rule.settled(high) if rule.rule in judged else rule for rule in self.running]

    def save(self) -> None:
        """Store where rules stand that had nothing to tell; what is not stored is judged again, to the same end."""
        by_time: dict[int, dict[str, str]] = {}
        for rule in self.running:
            if rule.rule in self._unsaved and rule.settled_to is not None:
                by_time.setdefault(rule.settled_to, {})[rule.rule] = rule.definition.version
        self._unsaved = set()
        if by_time:
            self._archive.fence()
            with self._connection.transaction():
                for settled_to, versions in by_time.items():
                    self._registry.settle(versions, settled_to, self._guard.failing)

    # Asking the engines

    def _judge(self, part: Slice) -> list[tuple[Running, list[Found]]]:
        inputs = {name: self._rows.archived(name, part.input_low, part.input_high) for name in part.streams}
        rows = sum(self._rows.count(name, part.input_low, part.input_high) for name in part.streams)
        low, high = part.low, part.high
        return [
            (rule, [f for f in finds if (low is None or f.ts >= low) and (high is None or f.ts < high)])
            for rule, finds in self._found(part.rules, inputs, rows)
        ]

    def _found(
        self, rules: Sequence[Running], inputs: Mapping[str, pa.Table | DataFrame], rows: int
    ) -> list[tuple[Running, list[Found]]]:
        """What each rule finds in about so many rows; a rule whose query fails is charged and left out."""
        groups = self._guard.apart(rules, lambda rule: rule.rule)
        return [pair for group in groups for pair in self._found_together(group, inputs, rows)]

    def _found_together(
        self, rules: Sequence[Running], inputs: Mapping[str, pa.Table | DataFrame], count: int
    ) -> list[tuple[Running, list[Found]]]:
        found: list[list[Found]] = [[] for _ in rules]
        left = self._found_here(rules, inputs, found)
        failed: set[int] = set()
        if left:
            for name, rows in inputs.items():
                frame = self._rows.frame(rows) if isinstance(rows, pa.Table) else rows
                frame.createOrReplaceTempView(view(name))
            failed = self._found_by_spark(rules, left, found, inputs, count)
        return [(rule, found[index]) for index, rule in enumerate(rules) if index not in failed]

    def _found_here(
        self, rules: Sequence[Running], inputs: Mapping[str, pa.Table | DataFrame], found: list[list[Found]]
    ) -> list[int]:
        """Fills in what this process can judge by itself; returns the places of the other rules."""
        tables = {name: rows for name, rows in inputs.items() if isinstance(rows, pa.Table)}
        if self._local is None:
            return list(range(len(rules)))
        shares = self._sharing.of(rules)
        held = {view(name) for name in tables}
        groups = [group for group in shares.groups if group.duck.streams <= held]
        left = set(range(len(rules)))
        for group, finds in self._local.found(groups, tables):
            left -= set(group.members)
            for place, one in finds:
                found[place].append(one)
        return sorted(left)

    def _found_by_spark(
        self,
        rules: Sequence[Running],
        places: Sequence[int],
        found: list[list[Found]],
        inputs: Mapping[str, pa.Table | DataFrame],
        count: int,
    ) -> set[int]:
        """Fills in what Spark finds for some of the rules; returns the places of those that failed.

        Where a statement fails each half of its rules is asked for again, down to the rule at fault; where it was
        stopped each rule by itself, as the one at fault takes all the time it may each time.
        """
        asked = [rules[place] for place in places]
        shares = self._sharing.of(asked)
        tables = {group.table: group.constants for group in shares.groups if len(group.members) > 1}
        for name, constants in tables.items():
            self._rows.frame(constants).createOrReplaceTempView(name)
        try:
            statement = self._sharing.statement(asked, shares)
            table = self._guard.run(asked, count, lambda: self._spark.sql(statement).toArrow())
        except (PySparkException, Py4JJavaError, TookTooLong) as error:
            if len(places) == 1:
                self._charge(asked[0], error, inputs)
                return {places[0]}
            half = 1 if isinstance(error, TookTooLong) else len(places) // 2
            parts = [places[i : i + half] for i in range(0, len(places), half)]
            return set().union(*(self._found_by_spark(rules, part, found, inputs, count) for part in parts))
        finally:
            for name in tables:
                self._spark.catalog.dropTempView(name)
        for index, ts, text in zip(
            table["rule"].to_pylist(), column(table, "ts").tolist(), table["attributes"].to_pylist(), strict=True
        ):
            found[places[index]].append(Found(ts, orjson.loads(text)))
        return set()

    def _charge(self, rule: Running, error: Exception, inputs: Mapping[str, pa.Table | DataFrame]) -> None:
        stream, *more = rule.shape.streams
        rows = inputs[stream]
        event = None
        if rule.shape.stateless and not more and isinstance(rows, pa.Table) and not isinstance(error, TookTooLong):
            event = self._culprit(rule, stream, rows)
        self._guard.fail(rule, error, event)
        self._drop_set_aside()

    def _culprit(self, rule: Running, stream: str, rows: pa.Table) -> dict[str, Any] | None:
        """The row at which a rule fails."""

        def fails(part: pa.Table) -> bool:
            statement = self._sharing.statement([rule], Shares((), (0,)))
            self._rows.frame(part).createOrReplaceTempView(view(stream))
            try:
                self._guard.run([rule], len(part), lambda: self._spark.sql(statement).toArrow())
            except (PySparkException, Py4JJavaError):
                return True
            except TookTooLong:
                return False
            return False

        row = rows if len(rows) == 1 else culprit(rows, fails)
        self._rows.frame(rows).createOrReplaceTempView(view(stream))
        plain = None if row is None else orjson.loads(orjson.dumps(row.to_pylist()[0], default=str))
        return None if plain is None else {"stream": stream, "row": plain}

    def _drop_set_aside(self) -> None:
        self.running = [rule for rule in self.running if rule.rule not in self._guard.set_aside]

    def _events(self, rule: Running, finds: Sequence[Found]) -> list[Event]:
        finds = self._guard.within(rule, finds)
        self._drop_set_aside()
        return distinct(rule.rule, rule.definition.id, rule.definition.key, finds)


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
