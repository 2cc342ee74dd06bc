"""Verdicts that rules of the live process lost: stored, counted, and limited.

A rule that loses too many is in quarantine. One row in `SAMPLE_INTERVAL` is still evaluated; once few of
these are lost, the rule resumes and evaluates what it missed, without the rows that it lost already.
"""

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

import sql
from archiver.clock import utc_now
from archiver.periodic import Clock
from archiver.times import from_micros, to_micros
from moirae.deployments import RuleRegistry
from moirae.evaluation.engine import EvaluationRequest
from moirae.evaluation.loss_rates import WINDOW, LossLimits, LossRates
from moirae.evaluation.lost_rows import MAX_ROWS, LostRow, LostRows, RowKey
from moirae.evaluation.plan import ActiveRule, RuleVersion
from moirae.evaluation.row_sampler import RowSampler
from sql.rules import LostVerdictGateway

_LOG = structlog.get_logger()

SAMPLE_INTERVAL = 100  # rows of which one is evaluated for a rule in quarantine
_MAX_READ_ROWS = 2_000_000  # rows of files from which lost rows are left out


class VerdictLosses:
    """The losses of the rules of one live process.

    `sampler`: selects the rows that are evaluated for rules in quarantine. `losing`: rules in
    quarantine for their losses, with the time by `clock` from which they are.
    """

    def __init__(
        self, connection: sql.Connection, limits: LossLimits, clock: Clock = time.monotonic
    ) -> None:
        self._gateway = LostVerdictGateway(connection)
        self._registry = RuleRegistry(connection)
        self._limits = limits
        self._clock = clock
        self._rates = LossRates(limits)
        self._lost_rows = LostRows()
        self._loaded: set[RuleVersion] = set()
        self.sampler = RowSampler(SAMPLE_INTERVAL)
        self.losing: dict[str, float] = {}

    def load(self, rules: Sequence[ActiveRule], losing_since: Mapping[str, datetime]) -> None:
        """Rules were loaded. `losing_since`: of those in quarantine for their losses."""
        now, now_utc = self._clock(), utc_now()
        self.losing = {
            rule: now - max(0.0, (now_utc - since).total_seconds())
            for rule, since in losing_since.items()
        }
        versions = {rule.rule_version for rule in rules}
        self._lost_rows.retain(versions)
        self._rates.retain(versions)
        if not versions <= self._loaded:
            for row in self._gateway.list_known():
                key = RowKey(to_micros(row.ts), row.row_hash)
                self._lost_rows.add(RuleVersion(row.rule, row.version), row.stream, key)
        self._loaded = versions

    # Evaluation

    def add_rows(self, request: EvaluationRequest) -> None:
        """Count rows that are evaluated."""
        rows = {stream: source.count for stream, source in request.sources.items()}
        self._rates.add_rows(rows, self._clock())

    def add_candidates(self, candidates: Mapping[RuleVersion, int]) -> None:
        """Count rows that the index found for rules."""
        self._rates.add_candidates(candidates, self._clock())

    def select_losing(self, rules: Sequence[ActiveRule]) -> list[ActiveRule]:
        """The rules that have lost rows."""
        versions = self._lost_rows.versions
        return [rule for rule in rules if rule.rule_version in versions] if versions else []

    def remove_lost(self, rule: ActiveRule, request: EvaluationRequest) -> EvaluationRequest:
        """A request without the rows that a rule has lost; the same one if it has none of them."""
        for stream in self._lost_rows.list_streams(rule):
            source = request.sources[stream]
            files = source.files
            if files is not None:
                times = self._lost_rows.list_times(rule, stream)
                is_read = any(
                    file.oldest <= ts <= file.newest for file in files.files for ts in times
                )
                loaded = source.load(_MAX_READ_ROWS) if is_read else None
                if loaded is None:
                    continue
                source = loaded
            table = source.table
            assert table is not None
            remaining = self._lost_rows.remove_from(rule, stream, table)
            if remaining is not table:
                lost = len(table) - len(remaining)
                self._rates.add_losses(rule.rule_version, lost, 0, self._clock())
                sources = {**request.sources, stream: source.reduce(remaining)}
                request = replace(request, sources=sources)
        return request

    def record(self, rows: Sequence[LostRow]) -> Set[str]:
        """Store rows that rules lost. Returns the rules that are in quarantine for it now."""
        rows_by_rule: dict[ActiveRule, list[LostRow]] = {}
        for row in rows:
            rows_by_rule.setdefault(row.rule, []).append(row)
        quarantined: set[str] = set()
        for rule, lost in rows_by_rule.items():
            store_lost_rows(self._gateway, lost)
            new_rows = [
                row for row in lost if self._lost_rows.add(rule.rule_version, row.stream, row.key)
            ]
            now = self._clock()
            self._rates.add_losses(rule.rule_version, len(lost), len(new_rows), now)
            if self._rates.exceeds(rule.rule_version, lost[0].stream, now):
                self._quarantine(rule, lost[-1].reason, now)
                quarantined.add(rule.name)
        return quarantined

    def record_sample(
        self, rule: ActiveRule, row_count: int, candidates: int, rows: Sequence[LostRow]
    ) -> None:
        """Store rows that a rule in quarantine lost of those that were evaluated.

        `candidates`: see `LossRates.add_sample`.
        """
        store_lost_rows(self._gateway, rows)
        for row in rows:
            self._lost_rows.add(rule.rule_version, row.stream, row.key)
        self._rates.add_sample(rule.rule_version, row_count, candidates, len(rows), self._clock())

    # Quarantine

    def _quarantine(self, rule: ActiveRule, reason: str, now: float) -> None:
        message = (
            f"lost more than {self._limits.share:.3g} of its candidate rows and at least "
            f"{self._limits.rows:,} rows within ten minutes: {reason}"
        )
        self._registry.quarantine_losing(rule.name, rule.version, message)
        self.losing[rule.name] = now
        _LOG.error(
            "rule in quarantine", action="rule_loses_verdicts", rule=rule.name, error=message
        )

    def resume_recovered(self, rules: Sequence[ActiveRule]) -> Sequence[str]:
        """End the quarantine of those rules whose samples had few losses for ten minutes."""
        now = self._clock()
        recovered = [
            rule.name
            for rule in rules
            if now - self.losing.get(rule.name, now) >= WINDOW
            and self._rates.has_recovered(rule.rule_version, now)
        ]
        if not recovered:
            return []
        resumed = self._registry.resume(recovered)
        for name in recovered:
            self.losing.pop(name, None)
            _LOG.info("rule resumed", action="rule_resumed", rule=name)
        return resumed


def store_lost_rows(gateway: LostVerdictGateway, rows: Sequence[LostRow]) -> None:
    """Store rows that a rule lost, and log it."""
    if not rows:
        return
    name, version = rows[0].rule.rule_version
    stored: list[dict[str, Any]] = []
    for row in rows:
        key = row.key
        stored.append(
            {
                "rule": name,
                "version": version,
                "stream": row.stream,
                "ts": from_micros(key.ts).isoformat(),
                "row_hash": key.row_hash,
                "row": row.describe(),
                "reason": row.reason,
            }
        )
    gateway.add(stored)
    gateway.delete_oldest(name, version, retained=MAX_ROWS)
    _LOG.warning(
        "verdicts lost",
        action="verdicts_lost",
        rule=name,
        rows=len(stored),
        first=stored[0]["ts"],
        error=rows[0].reason,
    )
