"""Registry of desired and running rules in PostgreSQL."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sql
from archiver.times import Micros, from_micros, optional_datetime
from moirae.deployments.model import DamagedRule
from moirae.deployments.plan import AppliedVersion, DeploymentStep, changing_steps, plan_steps
from moirae.errors import Conflict
from moirae.rules import EXTERNAL_PREFIX, Definition, make_external_definition
from sql.rules import (
    DeploymentGateway,
    DesiredRuleRow,
    RuleErrorGateway,
    RuleFileGateway,
    RuleGateway,
)

_MAX_ERRORS_PER_RULE = 100  # distinct errors stored
_MAX_ERROR_LENGTH = 2000  # characters
_MAX_READ_RULES = 16_384  # stored rules that are read once in a process


class RuleRegistry:
    """Rules, deployments and rule errors, on one connection in autocommit mode.

    Methods that change several rows use a transaction. What needs no decision is read and written
    by the gateways: `DeploymentGateway`, `RuleErrorGateway` and `RuleFileGateway`.
    """

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection
        self._rules = RuleGateway(connection)
        self._deployments = DeploymentGateway(connection)
        self._errors = RuleErrorGateway(connection)

    def desired_rules(self) -> list[Definition]:
        """The applied rules, without those that cannot be read."""
        return self.load_stored()[0]

    def load_stored(
        self, names: Sequence[str] | None = None
    ) -> tuple[list[Definition], list[DamagedRule]]:
        """The applied rules, and those that cannot be read: damaged, or of another version.

        `names`: only these; None: all.
        """
        return _read_rules(self._rules.list_all(names))

    def rules_with_recalls(self) -> list[Definition]:
        """The applied rules that have recalls or stages: few of many."""
        return _read_rules(self._rules.list_with_recalls())[0]

    def plan_changes(self, desired: Sequence[Definition]) -> list[DeploymentStep]:
        """The steps that `apply` would take, including rules that stay."""
        desired = self._with_external(desired)
        stored, damaged = self.load_stored()
        running = _applied_versions(stored)
        for rule in damaged:
            running[rule.rule] = AppliedVersion(rule.version, "")
        return plan_steps(_applied_versions(desired), running)

    def apply(self, desired: Sequence[Definition]) -> list[DeploymentStep]:
        """Make these the desired rules, atomically. Returns the steps that changed something."""
        with self._connection.transaction():
            self._rules.lock_revision()
            desired = self._with_external(desired)
            definitions = {definition.name: definition for definition in desired}
            steps = changing_steps(self.plan_changes(desired))
            for step in steps:
                if step.action == "stop":
                    self._rules.delete(step.rule)
                    continue
                definition = definitions[step.rule]
                self._rules.put(step.rule, definition.version, definition.to_json())
            if steps:
                self._rules.raise_revision()
        return steps

    def revision(self) -> int:
        """Raised with each change of the desired rules."""
        return self._rules.revision()

    def apply_one(self, definition: Definition, expected: str | None) -> DeploymentStep:
        """Make this the desired rule of its name; all others stay. Returns the step.

        `expected`: the version that is applied now; None: none. Raises `Conflict` if another is.
        """
        with self._connection.transaction():
            self._rules.lock_revision()
            stored, damaged = self.load_stored([definition.name])
            running = _applied_versions(stored)
            for rule in damaged:
                running[rule.rule] = AppliedVersion(rule.version, "")
            current = running.get(definition.name)
            if (None if current is None else current.version) != expected:
                raise Conflict(
                    f"{definition.name} was changed meanwhile: version "
                    f"{'none' if current is None else current.version} is applied now"
                )
            (step,) = plan_steps(_applied_versions([definition]), running)
            if step.action != "stay":
                self._rules.put(definition.name, definition.version, definition.to_json())
                self._rules.raise_revision()
        return step

    def add_missing(self, definitions: Iterable[Definition]) -> bool:
        """Add the rules whose name no applied rule has. Returns whether there were any."""
        with self._connection.transaction():
            self._rules.lock_revision()
            names = set(self._rules.list_names())
            missing = [definition for definition in definitions if definition.name not in names]
            for definition in missing:
                self._rules.put(definition.name, definition.version, definition.to_json())
            if missing:
                self._rules.raise_revision()
        return bool(missing)

    def _with_external(self, desired: Sequence[Definition]) -> list[Definition]:
        """The desired rules, with those of posted alerts that are applied and no file declares."""
        declared = {definition.name for definition in desired}
        undeclared = [
            make_external_definition(name.removeprefix(EXTERNAL_PREFIX))
            for name in self._rules.list_names()
            if name.startswith(EXTERNAL_PREFIX) and name not in declared
        ]
        return [*desired, *undeclared]

    def start_version(
        self, rule: str, version: str, settled_to: Micros | None, undecided_for: Micros
    ) -> None:
        """Record that a version runs.

        `settled_to`: its first event time. `undecided_for`: how long after it
        in which an alert may have started before.
        """
        self._deployments.start(
            rule,
            version,
            optional_datetime(settled_to),
            undecided_seconds=undecided_for / 1e6,
        )

    def stop_version(self, rule: str, version: str) -> None:
        """Record that a version stopped, and delete its detected events that are not settled."""
        with self._connection.transaction():
            self._deployments.stop(rule, version)
            self._deployments.delete_detected_events(rule, version)

    def record_settled(
        self, versions: Mapping[str, str], settled_to: Micros, failing: Collection[str]
    ) -> None:
        """Record that events before `settled_to` are settled.

        Part of the caller's transaction. `failing`: rules whose failure count is not reset.
        """
        self._deployments.settle(versions, from_micros(settled_to), failing)

    def record_failure(
        self,
        rule: str,
        version: str,
        kind: str,
        message: str,
        event: Any,
        max_failures: int,
        times: int = 1,
    ) -> bool:
        """Record a failure. Returns whether the rule is quarantined now.

        That is the case after `max_failures` consecutive failures.
        """
        text = message[:_MAX_ERROR_LENGTH]
        with self._connection.transaction():
            self._record_error(rule, version, kind=kind, message=text, event=event, times=times)
            return self._deployments.record_failure(rule, version, text, max_failures=max_failures)

    def record_crash(self, rule: str, version: str, kind: str, message: str) -> bool:
        """Record that the process had to end while it evaluated a rule, perhaps with others.

        After the first crash the rule is evaluated alone; after a second one within ten minutes it
        is quarantined. Returns whether it is.
        """
        text = message[:_MAX_ERROR_LENGTH]
        with self._connection.transaction():
            # First, since the error that is recorded makes the rule a suspect.
            is_quarantined = self._deployments.record_crash(rule, version, text)
            self._record_error(rule, version, kind=kind, message=text, event=None, times=1)
        return is_quarantined

    def quarantine_losing(self, rule: str, version: str, message: str) -> None:
        """Quarantine a rule that lost too many verdicts, and record why."""
        text = message[:_MAX_ERROR_LENGTH]
        with self._connection.transaction():
            self._record_error(rule, version, kind="lost", message=text, event=None, times=1)
            self._deployments.quarantine_losing(rule, version, text)

    def _record_error(
        self, rule: str, version: str, *, kind: str, message: str, event: Any, times: int
    ) -> None:
        self._errors.put(rule, version, kind=kind, message=message, event=event, times=times)
        self._errors.delete_oldest(rule, retained=_MAX_ERRORS_PER_RULE)

    def resume(self, rules: Sequence[str]) -> list[str]:
        """End the quarantine of rules, which continue where they stopped. Returns their names."""
        with self._connection.transaction():
            resumed = self._deployments.resume(rules)
            if resumed:
                self._rules.raise_revision()
        return sorted(resumed)

    def refuse(self, rule: str, version: str, reason: str) -> None:
        """Quarantine a rule that the rule gate rejected, until it is admitted or resumed."""
        self._deployments.refuse(rule, version, reason[:_MAX_ERROR_LENGTH])

    def reload_problems(self, request: int) -> list[str] | None:
        """The problems of the rule files after a request, or None if it was not served yet."""
        state = RuleFileGateway(self._connection).get_state()
        if state.last_served < request:
            return None
        return state.problems or []


def _read_rules(
    rows: Iterable[DesiredRuleRow],
) -> tuple[list[Definition], list[DamagedRule]]:
    definitions: list[Definition] = []
    damaged: list[DamagedRule] = []
    for row in rows:
        try:
            definitions.append(_read_rule(row.definition))
        except Exception as error:
            reason = (
                f"the stored rule cannot be read, apply it again: {type(error).__name__}: {error}"
            )
            damaged.append(DamagedRule(row.rule, row.version, reason))
    return definitions, damaged


@lru_cache(_MAX_READ_RULES)
def _read_rule(text: str) -> Definition:
    return Definition.from_json(json.loads(text))


def _applied_versions(definitions: Iterable[Definition]) -> dict[str, AppliedVersion]:
    return {definition.name: _to_applied_version(definition) for definition in definitions}


def _to_applied_version(definition: Definition) -> AppliedVersion:
    text = json.dumps(definition.to_json(), sort_keys=True)
    return AppliedVersion(definition.version, hashlib.sha256(text.encode()).hexdigest())
