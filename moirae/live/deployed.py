"""The rules that run in the live process: what differs from the desired ones is taken over, how far each is settled.

Few rules have anything to tell at a time. Where the others stand is kept here and stored now and then.
"""

import gc
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog
from psycopg import Connection

from archiver.ingest import Archive
from moirae.deployments.model import Damaged
from moirae.deployments.registry import Registry
from moirae.errors import MoiraeError
from moirae.judging.engines import Engines
from moirae.judging.guard import Guard
from moirae.judging.plan import Running, horizon
from moirae.judging.rows import Rows
from moirae.live.relations import Relations
from moirae.rules.admission import Admission
from moirae.rules.definition import Definition, event_shape, tables_of
from moirae.views.plan import undecided

_LOG = structlog.get_logger()


class Deployed:
    """See the module."""

    def __init__(
        self,
        archive: Archive,
        connection: Connection[Any],
        relations: Relations,
        admission: Admission,
        guard: Guard,
        rows: Rows,
        engines: Engines,
    ) -> None:
        self._archive = archive
        self._connection = connection
        self._registry = Registry(connection)
        self._relations = relations
        self._admission = admission
        self._guard = guard
        self._rows = rows
        self._engines = engines
        self._streams = {name: table.schema.time for name, table in archive.tables.items()}
        self._relation_names: frozenset[str] = frozenset()
        self._revision: int | None = None
        self._unsaved: set[str] = set()
        self._running: list[Running] = []

    @property
    def running(self) -> list[Running]:
        """The rules that run, without those that were quarantined, each with how far it is settled."""
        return [rule for rule in self._running if rule.rule not in self._guard.set_aside]

    def watermarks(self) -> dict[str, int | None]:
        """Of each stream; see `Archive.watermark`."""
        return {name: self._archive.watermark(name) for name in self._archive.tables}

    # What runs

    def reload(self, now: datetime) -> list[Running]:
        """Take in changed relations and rules; returns those that have just started. `now`: the event time from which
        changed relations hold.
        """
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
        if revision == self._revision:
            return []
        self.save()
        started = self._reconcile(*self._registry.stored())
        self._revision = revision
        return started

    def _reconcile(self, desired: Sequence[Definition], damaged: Sequence[Damaged]) -> list[Running]:
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
        return [rule for rule in self.running if rule.rule in started | lifted]

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
        self._running = []
        deployments = self._registry.deployments()
        self._guard.loaded(deployment.rule for deployment in deployments if deployment.suspect)
        for deployment in deployments:
            if deployment.state == "running" and deployment.rule in wanted:
                definition = wanted[deployment.rule]
                tables = tables_of(definition.rule, self._streams, self._relation_names)
                shape = event_shape(definition.rule, tables)
                self._running.append(Running(definition, tables, shape, deployment.settled_to))
        self._engines.forget(self._running)
        # A thousand rules are a hundred thousand objects that stay: looking through them takes as long as a batch.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    # Where they stand

    def settled(self, rules: Iterable[Running], high: int, told: Mapping[str, str]) -> None:
        """Some rules are settled up to `high`. `told`: those of which that is stored already, with their versions."""
        judged = {rule.rule for rule in rules}
        self._unsaved = (self._unsaved | judged) - told.keys()
        self._running = [rule.settled(high) if rule.rule in judged else rule for rule in self.running]

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
