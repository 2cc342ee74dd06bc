"""The rules that run in the live process: what differs from the desired ones is taken over, how far each is settled.

Few rules have anything to tell at a time. Where the others stand is kept here and stored now and then.
"""

import gc
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog
from psycopg import Connection

from archiver.ingest import ArchiveWriter
from moirae.deployments import DamagedRule, RuleRegistry
from moirae.errors import MoiraeError
from moirae.evaluation import (
    ActiveRule,
    Guard,
    LiveStreamRows,
    RuleCohort,
    RuleEvaluator,
    advance_cohorts,
    build_cohorts,
    horizon,
)
from moirae.history import undecided_duration
from moirae.live.relations import Relations
from moirae.rules import Definition, RuleAdmission, build_rule_tables, infer_event_shape

_LOG = structlog.get_logger()


class ActiveRules:
    """See the module."""

    def __init__(
        self,
        archive: ArchiveWriter,
        connection: Connection[Any],
        relations: Relations,
        admission: RuleAdmission,
        guard: Guard,
        rows: LiveStreamRows,
        engines: RuleEvaluator,
    ) -> None:
        self._archive = archive
        self._connection = connection
        self._registry = RuleRegistry(connection)
        self._relations = relations
        relations.forget_undeclared()
        self._admission = admission
        self._guard = guard
        self._rows = rows
        self._engines = engines
        self._time_columns = {name: table.schema.time for name, table in archive.tables.items()}
        self._relation_names: frozenset[str] = frozenset()
        self._revision: int | None = None
        self._unsaved: set[str] = set()
        self._cohorts: list[RuleCohort] = []
        self._rules_by_name: dict[str, ActiveRule] = {}

    @property
    def cohorts(self) -> list[RuleCohort]:
        """The rules that run, without those that were quarantined, with how far they are settled."""
        aside = self._guard.quarantined
        if not aside:
            return self._cohorts
        left = [standing.select(lambda rule: rule.name not in aside) for standing in self._cohorts]
        return [standing for standing in left if standing.rules]

    @property
    def rules(self) -> list[ActiveRule]:
        """The rules that run, without those that were quarantined."""
        return [rule for standing in self.cohorts for rule in standing.rules]

    def watermarks(self) -> dict[str, int | None]:
        """Of each stream; see `Archive.watermark`."""
        return {name: self._archive.watermark(name) for name in self._archive.tables}

    # What runs

    def reload(self, now: datetime) -> list[ActiveRule]:
        """Take in changed relations and rules; returns those that have just started. `now`: the event time from which
        changed relations hold.
        """
        for name in self._relations.changed_relations():
            try:
                self._relations.refresh(name, now)
            except MoiraeError as error:
                # A bad file changes nothing, where there is something it could change.
                if not self._relations.is_loaded(name):
                    raise
                _LOG.error(
                    "relation not read", action="relation_refused", relation=name, error=str(error)
                )
            self._rows.to_frame(self._relations.table(name)).createOrReplaceTempView(
                f"relation_{name}"
            )
            self._relation_names |= {name}
        revision = self._registry.revision()
        if revision == self._revision:
            return []
        self.save_progress()
        started = self._reconcile(*self._registry.load_stored())
        self._revision = revision
        return started

    def _reconcile(
        self, desired: Sequence[Definition], damaged: Sequence[DamagedRule]
    ) -> list[ActiveRule]:
        """Start, change and stop only what differs, all at once; a new version takes over where the old one stood.

        What is refused has its place too, from which it goes on when it is admitted.
        """
        wanted = {d.name: d for d in desired if d.rule.spec.enabled}
        admitted, refused = self._admission.admit(list(wanted.values()))
        wanted |= {d.name: d for d in admitted}
        refused |= {one.rule: one.reason for one in damaged}
        versions = {name: d.version for name, d in wanted.items()} | {
            one.rule: one.version for one in damaged
        }
        started: set[str] = set()
        with self._registry.transaction():
            deployed = {deployment.rule: deployment for deployment in self._registry.deployments()}
            for rule, deployment in deployed.items():
                if versions.get(rule) != deployment.version:
                    self._registry.stop_version(rule, deployment.version)
                if rule not in versions:
                    self._registry.end_alerts(rule)
            for name, version in versions.items():
                before, definition = deployed.get(name), wanted.get(name)
                if before is None or before.version != version:
                    settled = before.settled_to if before else self._initial_settled_to(definition)
                    self._registry.start_version(
                        name, version, settled, undecided_duration(definition) if definition else 0
                    )
                    started.add(name)
            for name, reason in refused.items():
                self._registry.refuse(name, versions[name], reason)
                _LOG.error("rule refused", action="rule_refused", rule=name, error=reason)
            lifted = self._registry.admit(
                {name: version for name, version in versions.items() if name not in refused}
            )
        for name in sorted((started | lifted) - refused.keys()):
            _LOG.info("rule started", action="rule_started", rule=name, version=versions[name])
        self._load_deployments(wanted)
        return [rule for rule in self.rules if rule.name in started | lifted]

    def _initial_settled_to(self, definition: Definition | None) -> int | None:
        """A new rule begins with what is not settled yet; in a workspace without data, at the beginning of time.

        One that cannot be read begins with the stream that has come the least far.
        """
        marks = self.watermarks()
        if definition is not None:
            with suppress(Exception):  # a refused one may be anything
                return horizon(self._get_or_make_rule(definition).shape, marks)
        return min((mark for mark in marks.values() if mark is not None), default=None)

    def _load_deployments(self, wanted: Mapping[str, Definition]) -> None:
        running: list[tuple[ActiveRule, int | None]] = []
        deployments = self._registry.deployments()
        self._guard.reset_quarantine(
            deployment.rule for deployment in deployments if deployment.suspect
        )
        for deployment in deployments:
            if deployment.state == "running" and deployment.rule in wanted:
                running.append(
                    (self._get_or_make_rule(wanted[deployment.rule]), deployment.settled_to)
                )
        self._rules_by_name = {rule.name: rule for rule, _ in running}
        self._cohorts = build_cohorts([([rule], settled_to) for rule, settled_to in running])
        self._engines.set_active_rules([rule for rule, _ in running])
        # A thousand rules are a hundred thousand objects that stay: looking through them takes as long as a batch.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def _get_or_make_rule(self, definition: Definition) -> ActiveRule:
        """The rule as it runs. Each is made once: to read its query again takes milliseconds."""
        made = self._rules_by_name.get(definition.name)
        if (
            made is None
            or made.definition is not definition
            or made.tables.relations != self._relation_names
        ):
            tables = build_rule_tables(definition.rule, self._time_columns, self._relation_names)
            made = self._rules_by_name[definition.name] = ActiveRule(
                definition, tables, infer_event_shape(definition.rule, tables)
            )
        return made

    # Where they stand

    def mark_settled(self, rule_names: Set[str], settled_to: int, stored: Set[str]) -> None:
        """Rules, by name, are settled up to `high`. `told`: those of which that is stored already."""
        self._unsaved = (self._unsaved | rule_names) - stored
        self._cohorts = advance_cohorts(self.cohorts, rule_names, settled_to)

    def save_progress(self) -> None:
        """Store where rules stand that had nothing to tell; what is not stored is judged again, to the same end."""
        by_time: dict[int, dict[str, str]] = {}
        for standing in self.cohorts:
            if standing.settled_to is not None:
                unsaved = {
                    r.name: r.definition.version for r in standing.rules if r.name in self._unsaved
                }
                by_time.setdefault(standing.settled_to, {}).update(unsaved)
        self._unsaved = set()
        by_time = {settled_to: versions for settled_to, versions in by_time.items() if versions}
        if by_time:
            self._archive.fence()
            with self._connection.transaction():
                for settled_to, versions in by_time.items():
                    self._registry.record_settled(
                        versions, settled_to, self._guard.rules_over_limit
                    )
