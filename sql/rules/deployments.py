"""Deployments: versions of rules that run, are quarantined or were stopped."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """A version of a rule that runs or is quarantined.

    `settled_to`: events before this event time (microseconds) are settled; None: none are.
    `failures`: consecutive ones. `suspect`: whether the process crashed recently while evaluating
    this rule, perhaps with others. `losing_since`: since when it is in quarantine because it lost too
    many verdicts; None: it is not.
    """

    rule: str
    version: str
    settled_to: int | None
    state: str
    failures: int
    error: str | None
    losing_since: datetime | None
    suspect: bool


@dataclass(frozen=True, slots=True)
class VersionWithPastRow:
    """A running version of a rule that has a past. Event times in microseconds.

    `live_from`: earlier events come from history. `corpus_from`: for earlier events, history
    decides whether they are in the corpus.
    """

    rule: str
    version: str
    live_from: int
    corpus_from: int


@dataclass(frozen=True, slots=True)
class LosingRuleRow:
    """A rule that is in quarantine because it lost too many verdicts, since a wall-clock time."""

    rule: str
    losing_since: datetime
    error: str | None


class DeploymentGateway(Gateway):
    """Deployed versions of rules. `error`: a text, in which NUL is replaced."""

    queries = "deployments"

    def list_active(self) -> list[DeploymentRow]:
        """The versions that run or are quarantined, by rule."""
        return self._records(DeploymentRow, "list_active")

    def list_with_past(self) -> list[VersionWithPastRow]:
        """The running versions with a past, in no order."""
        return self._records(VersionWithPastRow, "list_with_past")

    def start(
        self, rule: str, version: str, settled_to: datetime | None, *, undecided_seconds: float
    ) -> None:
        """Record that a version runs.

        `settled_to`: its first event time; None: all. `undecided_seconds`: duration after it in
        which an alert may have started before.
        """
        self._execute(
            "start",
            rule=rule,
            version=version,
            settled_to=settled_to,
            undecided_seconds=undecided_seconds,
        )

    def stop(self, rule: str, version: str) -> None:
        """Record that a version stopped."""
        self._execute("stop", rule=rule, version=version)

    def settle(
        self, versions: Mapping[str, str], settled_to: datetime, failing: Collection[str]
    ) -> None:
        """Record that the events of versions, by rule, before `settled_to` are settled.

        `failing`: rules whose failure count is not reset.
        """
        # For thousands of rules, adapting one JSON text takes a tenth of the time of arrays.
        self._execute(
            "settle",
            versions=Jsonb(dict(versions)),
            settled_to=settled_to,
            failing=list(failing),
        )

    def record_failure(self, rule: str, version: str, error: str, *, max_failures: int) -> bool:
        """Count a failure. Returns whether the rule is quarantined now.

        That is the case after `max_failures` consecutive failures.
        """
        state = self._value(
            "record_failure",
            rule=rule,
            version=version,
            error=replace_nul(error),
            max_failures=max_failures,
        )
        return bool(state == "quarantined")

    def record_crash(self, rule: str, version: str, error: str) -> bool:
        """Record that the process ended over a rule. Returns whether it is quarantined now."""
        values = {"rule": rule, "version": version, "error": replace_nul(error)}
        return bool(self._value("record_crash", **values) == "quarantined")

    def quarantine_losing(self, rule: str, version: str, error: str) -> None:
        """Quarantine a version that lost too many verdicts."""
        self._execute("quarantine_losing", rule=rule, version=version, error=replace_nul(error))

    def list_losing(self) -> list[LosingRuleRow]:
        """The rules that are in quarantine because they lost too many verdicts."""
        return self._records(LosingRuleRow, "list_losing")

    def resume(self, rules: Collection[str]) -> list[str]:
        """End the quarantine of rules. Returns the names of those that were quarantined."""
        return self._column("resume", rules=list(rules))

    def refuse(self, rule: str, version: str, error: str) -> None:
        """Quarantine a version that was not admitted."""
        self._execute("refuse", rule=rule, version=version, error=replace_nul(error))

    def admit(self, versions: Mapping[str, str]) -> set[str]:
        """End the quarantine of refused versions, by rule. Returns the names of the rules."""
        values = {"rules": list(versions), "versions": list(versions.values())}
        return set(self._column("admit", **values))

    def end_alerts(self, rule: str) -> None:
        """End the open alerts of a removed rule at their last event."""
        self._execute("end_alerts", rule=rule)

    def delete_detected_events(self, rule: str, version: str) -> None:
        """Delete the events of a stopped version that are not settled."""
        self._execute("delete_detected_events", rule=rule, version=version)
