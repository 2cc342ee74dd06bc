"""The rules that run in the live process: reconciliation with the desired rules, and progress.

Most rules find nothing in a batch. Their progress is held in memory and stored at intervals.
"""

import gc
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from itertools import chain
from operator import attrgetter

import structlog

import sql
from archiver.ingest import ArchiveWriter
from archiver.times import END_OF_TIME, Micros
from moirae.deployments import DamagedRule, RuleRegistry
from moirae.errors import MoiraeError
from moirae.evaluation.plan import (
    ActiveRule,
    RuleCohort,
    SettledRules,
    advance_cohorts,
    build_cohorts,
)
from moirae.history import undecided_duration
from moirae.live.evaluators import Evaluators
from moirae.live.event_time import get_watermarks
from moirae.live.relations import Relations
from moirae.rules import Definition, make_external_definition
from moirae.rules.checks import RuleAdmission
from sql.rules import DeploymentGateway, RuleGateway

_LOG = structlog.get_logger()

_MAX_LOGGED_NAMES = 5


class ActiveRules:
    """Active rules grouped into cohorts of equal progress; `reload` follows the desired rules."""

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        connection: sql.Connection,
        relations: Relations,
        admission: RuleAdmission,
        evaluators: Evaluators,
    ) -> None:
        self._archive = archive
        self._connection = connection
        self._registry = RuleRegistry(connection)
        self._rules = RuleGateway(connection)
        self._deployments = DeploymentGateway(connection)
        self._relations = relations
        relations.forget_undeclared()
        self._admission = admission
        self._evaluators = evaluators
        self._time_columns = {name: table.schema.time for name, table in archive.tables.items()}
        self._relation_names: frozenset[str] = frozenset()
        self._revision: int | None = None
        self._unsaved: set[str] = set()
        self._cohorts: list[RuleCohort] = []
        self._external_rules: dict[str, ActiveRule] = {}
        self._rules_by_name: dict[str, ActiveRule] = {}

    @property
    def cohorts(self) -> list[RuleCohort]:
        """Active rules by progress, without quarantined rules."""
        quarantined = self._evaluators.guard.quarantined
        if not quarantined:
            return self._cohorts
        cohorts: list[RuleCohort] = []
        for cohort in self._cohorts:
            healthy = cohort.select(lambda rule: rule.name not in quarantined)
            if healthy.rules:
                cohorts.append(healthy)
        return cohorts

    @property
    def rules(self) -> list[ActiveRule]:
        """Active rules, without quarantined rules; also those of posted alerts."""
        evaluated = chain.from_iterable(map(attrgetter("rules"), self.cohorts))
        return [*evaluated, *self._external_rules.values()]

    def find_external(self, name: str) -> ActiveRule | None:
        """A rule of posted alerts; None: it does not run."""
        return self._external_rules.get(name)

    @property
    def sampled_rules(self) -> list[ActiveRule]:
        """Rules in quarantine for the verdicts that they lost: some rows are still evaluated."""
        losing = self._evaluators.losses.losing
        return [rule for name, rule in self._rules_by_name.items() if name in losing]

    def alerts_watermark(self) -> Micros | None:
        """The event time up to which the alerts of all rules are settled; None: of one none is.

        Without those of rules over recalls: these may wait for the contexts that read `alerts`.
        """
        settled: list[Micros] = []
        for cohort in self.cohorts:
            if all(rule.reads_revisions for rule in cohort.rules):
                continue
            if cohort.settled_to is None:
                return None
            settled.append(cohort.settled_to)
        return min(settled, default=END_OF_TIME)

    # Reconciliation with the desired rules

    def reload(self, now: datetime) -> list[ActiveRule]:
        """Load changed relations and rules; return the rules that were started.

        `now`: the event time from which changed relations are valid. Raises `MoiraeError` for a
        relation that cannot be read and has never been read.
        """
        for name in self._relations.changed_relations():
            try:
                self._relations.refresh(name, now)
            except MoiraeError as error:
                # Rows that were loaded before stay in use.
                if not self._relations.is_loaded(name):
                    raise
                _LOG.error(
                    "relation not loaded",
                    action="relation_refused",
                    relation=name,
                    error=str(error),
                )
            self._evaluators.rules.set_relation(name, self._relations.table(name))
            self._relation_names |= {name}
        revision = self._rules.revision()
        if revision == self._revision:
            return []
        self.save_progress()
        started = self._reconcile(*self._registry.load_stored())
        self._revision = revision
        return started

    def _reconcile(
        self, desired: Sequence[Definition], damaged: Sequence[DamagedRule]
    ) -> list[ActiveRule]:
        """Start, replace and stop the rules that differ, in one transaction.

        A new version continues where its predecessor was settled. A refused rule has a deployment
        too, so that it continues from there once it is admitted. Returns the rules that started.
        """
        enabled = [definition for definition in desired if definition.spec.enabled]
        admitted, refusals = self._admission.admit(
            [definition for definition in enabled if not _is_default_external(definition)]
        )
        definitions: dict[str, Definition] = {}
        versions: dict[str, str] = {}
        for definition in (*enabled, *admitted):
            definitions[definition.name] = definition
            versions[definition.name] = definition.version
        for damaged_rule in damaged:
            refusals[damaged_rule.rule] = damaged_rule.reason
            versions[damaged_rule.rule] = damaged_rule.version
        started: set[str] = set()
        with self._connection.transaction():
            deployed = {
                deployment.rule: deployment for deployment in self._deployments.list_active()
            }
            for rule, deployment in deployed.items():
                if versions.get(rule) != deployment.version:
                    self._registry.stop_version(rule, deployment.version)
                if rule not in versions:
                    self._deployments.end_alerts(rule)
            for name, version in versions.items():
                predecessor = deployed.get(name)
                if predecessor is not None and predecessor.version == version:
                    continue
                new_definition = definitions.get(name)
                if predecessor is not None:
                    settled_to = predecessor.settled_to
                else:
                    settled_to = self._initial_settled_to(new_definition)
                undecided = 0
                if new_definition is not None:
                    undecided = undecided_duration(new_definition)
                self._registry.start_version(name, version, settled_to, undecided)
                started.add(name)
            for name, reason in refusals.items():
                self._registry.refuse(name, versions[name], reason)
                _LOG.error("rule refused", action="rule_refused", rule=name, error=reason)
            valid_versions = versions.copy()
            for name in refusals:
                valid_versions.pop(name, None)
            started |= self._deployments.admit(valid_versions)
        running = sorted(started - refusals.keys())
        for name in running:
            _LOG.debug("rule started", action="rule_started", rule=name, version=versions[name])
        if running:
            names = running[:_MAX_LOGGED_NAMES]
            _LOG.info("rules started", action="rules_started", rules=len(running), names=names)
        self._load_deployments(definitions)
        return [rule for rule in self.rules if rule.name in started]

    def _initial_settled_to(self, definition: Definition | None) -> Micros | None:
        """The event time from which a new rule is evaluated; None: from the start.

        A rule that cannot be read starts at the lowest watermark of all streams.
        """
        if definition is not None and definition.reads_revisions:
            return None  # all that is stored: the streams may be new
        if definition is not None and definition.is_external:
            return None  # no event was before its first post
        watermarks = get_watermarks(self._archive)
        if definition is not None:
            with suppress(Exception):  # the definition of a refused rule may be invalid
                return self._prepare_rule(definition).shape.horizon(watermarks)
        event_times = [time for time in watermarks.values() if time is not None]
        return min(event_times, default=None)

    def _load_deployments(self, definitions: Mapping[str, Definition]) -> None:
        active_rules: list[ActiveRule] = []
        sampled_rules: list[ActiveRule] = []
        losing_since: dict[str, datetime] = {}
        groups: list[SettledRules] = []
        external_rules: dict[str, ActiveRule] = {}
        deployments = self._deployments.list_active()
        self._evaluators.guard.reset_quarantine(
            deployment.rule for deployment in deployments if deployment.suspect
        )
        for deployment in deployments:
            if deployment.rule not in definitions:
                continue
            if deployment.state == "running":
                rule = self._prepare_rule(definitions[deployment.rule])
                if rule.definition.is_external:
                    external_rules[rule.name] = rule
                    continue
                active_rules.append(rule)
                groups.append(SettledRules([rule], deployment.settled_to))
            elif deployment.losing_since is not None:
                sampled_rules.append(self._prepare_rule(definitions[deployment.rule]))
                losing_since[deployment.rule] = deployment.losing_since
        evaluated_rules = [*active_rules, *sampled_rules]
        self._external_rules = external_rules
        self._rules_by_name = {rule.name: rule for rule in evaluated_rules} | external_rules
        self._cohorts = build_cohorts(groups)
        self._evaluators.losses.load(evaluated_rules, losing_since)
        self._evaluators.rules.set_active_rules(evaluated_rules)
        # A thousand rules are a hundred thousand long-lived objects: a collection that scans them
        # takes as long as a batch. Those of replaced rules are collected.
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
        gc.freeze()

    def _prepare_rule(self, definition: Definition) -> ActiveRule:
        """The active rule of a definition."""
        prepared = self._evaluators.rules.prepared
        return prepared.prepare(definition, self._time_columns, self._relation_names)

    # Progress

    def mark_settled(self, rule_names: Set[str], settled_to: Micros, stored: Set[str]) -> None:
        """Record that rules are settled up to an event time.

        `stored`: names of the rules whose progress is in the database already.
        """
        self._unsaved = (self._unsaved | rule_names) - stored
        self._cohorts = advance_cohorts(self.cohorts, rule_names, settled_to)

    def save_progress(self) -> None:
        """Store the progress of rules that found nothing.

        After a crash, rules are evaluated again from the stored progress, with the same result.
        """
        versions_by_time: dict[Micros, dict[str, str]] = {}
        for cohort in self.cohorts:
            if cohort.settled_to is None:
                continue
            for rule in cohort.rules:
                if rule.name in self._unsaved:
                    versions = versions_by_time.setdefault(cohort.settled_to, {})
                    versions[rule.name] = rule.version
        self._unsaved = set()
        if not versions_by_time:
            return
        self._archive.fence()
        with self._connection.transaction():
            for settled_to, versions in versions_by_time.items():
                self._registry.record_settled(
                    versions, settled_to, self._evaluators.guard.rules_over_limit
                )


def _is_default_external(definition: Definition) -> bool:
    """Whether a rule of posted alerts is as no file declares it: it has no SQL to be admitted."""
    return definition.is_external and definition == make_external_definition(definition.spec.alert)
