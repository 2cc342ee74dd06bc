"""The versions of rules that have a past, and the streams and corpora that deployed rules need."""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

import sql
from archiver.periodic import Timer
from archiver.times import Micros
from moirae.deployments import RuleRegistry
from moirae.evaluation import ContextQueries
from moirae.evaluation.plan import ActiveRule, RuleVersion
from moirae.history.corpus_indexes import corpora_of_rules
from moirae.history.derived_streams import DerivedStreamVersion, select_archived_streams
from moirae.history.plan import event_overlap
from moirae.rules import ALERTS, Definition
from recall.corpus_parts import CorpusKey
from recall.query import Unsupported
from sql.rules import DeploymentGateway, RuleGateway

_LOG = structlog.get_logger()

_REFRESH_INTERVAL = 1.0  # seconds


@dataclass(frozen=True)
class VersionWithPast:
    """A running version of a rule with a past."""

    rule: ActiveRule
    context_queries: ContextQueries
    live_from: Micros
    corpus_from: Micros

    def findable_until(self, watermarks: Mapping[str, Micros | None]) -> Micros | None:
        """The time up to which all input of events and contexts is archived, or None."""
        until = self.rule.shape.horizon(watermarks)
        if self.context_queries.queries and until is not None:
            # The alerts that contexts read are the stored ones, whichever rule they are of.
            contexts_until = self.context_queries.horizon({ALERTS: until, **watermarks})
            if contexts_until is None:
                return None
            until = min(until, contexts_until)
        if until is None:
            return None
        return until - event_overlap(self.rule.definition).after


class DeployedVersions:
    """What is deployed, as of the last `refresh`. `versions`: those with a past."""

    def __init__(
        self,
        connection: sql.Connection,
        times: Mapping[str, str],
        relations: frozenset[str],
        altered: Mapping[str, Mapping[str, str]],
    ) -> None:
        """`times`: the time column of each declared stream. `relations`: their names.

        `altered`: see `compute_derived_version`.
        """
        self._altered = altered
        self.versions: dict[RuleVersion, VersionWithPast] = {}
        self.derived_streams: list[DerivedStreamVersion] = []
        self.corpus_keys: list[CorpusKey] = []
        self._registry = RuleRegistry(connection)
        self._rules = RuleGateway(connection)
        self._deployments = DeploymentGateway(connection)
        self._times = times
        self._relations = relations
        self._refresh_timer = Timer(_REFRESH_INTERVAL)
        # What the values above were computed from: (live_from, corpus_from) by version, and the
        # revision of the desired rules.
        self._computed_from: tuple[Mapping[RuleVersion, tuple[Micros, Micros]], int] | None = None
        # Versions that were looked up since the last change.
        self._looked_up: set[RuleVersion] = set()
        # Chunks whose views are known to be complete, by version.
        self._complete_chunks: dict[RuleVersion, set[int]] = {}

    def find(self, version: RuleVersion) -> VersionWithPast | None:
        """A version with a past. Refreshes at intervals, and at the first look-up of a version."""
        if version not in self._looked_up or self._refresh_timer.is_due():
            self.refresh()
            self._looked_up.add(version)
        return self.versions.get(version)

    def is_complete(self, version: RuleVersion, chunk: int) -> bool:
        """Whether the view of a chunk was marked as complete since the last change."""
        return chunk in self._complete_chunks.get(version, ())

    def mark_complete(self, version: RuleVersion, chunk: int) -> None:
        """Remember that the view of a chunk is complete."""
        self._complete_chunks.setdefault(version, set()).add(chunk)

    def refresh(self) -> None:
        """Read what is deployed. All versions are created anew if any of them has changed."""
        self._refresh_timer.restart()
        deployed: dict[RuleVersion, tuple[Micros, Micros]] = {}
        for row in self._deployments.list_with_past():
            deployed[RuleVersion(row.rule, row.version)] = (row.live_from, row.corpus_from)
        revision = self._rules.revision()
        if (deployed, revision) == self._computed_from:
            return
        self._computed_from = deployed, revision
        self.versions = {}
        self._looked_up.clear()
        self._complete_chunks.clear()
        desired = self._registry.desired_rules()
        definitions = [definition for definition in desired if definition.spec.enabled]
        self.derived_streams = select_archived_streams(
            definitions, self._times, self._relations, self._altered
        )
        self.corpus_keys = corpora_of_rules(definitions)
        for definition in definitions:
            version = RuleVersion(definition.name, definition.version)
            if version not in deployed or definition.reads_revisions:
                continue  # recalls have no streams of the time before their rule
            try:
                self.versions[version] = self._make_version(definition, *deployed[version])
            except Unsupported as error:
                _LOG.error(
                    "history of a rule cannot be computed",
                    action="view_refused",
                    rule=definition.name,
                    error=str(error),
                )

    def _make_version(
        self, definition: Definition, live_from: Micros, corpus_from: Micros
    ) -> VersionWithPast:
        rule = ActiveRule.create(definition, self._times, self._relations)
        return VersionWithPast(rule, ContextQueries.lift(rule), live_from, corpus_from)
