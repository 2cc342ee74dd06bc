"""Registry of desired and running rules in PostgreSQL."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

import sql
from archiver.times import optional_datetime
from moirae.deployments.model import DamagedRule, Deployment, RuleError, RuleFilesState
from moirae.deployments.plan import AppliedVersion, DeploymentStep, changing_steps, plan_steps
from moirae.rules import Definition

_QUERIES = sql.load("registry")

_MAX_ERRORS_PER_RULE = 100  # distinct errors stored


class RuleRegistry:
    """Rules, deployments and rule errors, on one connection in autocommit mode.

    Methods that change several rows use a transaction.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def desired_rules(self) -> list[Definition]:
        """The applied rules, without those that cannot be read."""
        return self.load_stored()[0]

    def load_stored(self) -> tuple[list[Definition], list[DamagedRule]]:
        """The applied rules, and those that cannot be read: damaged, or of another version."""
        definitions: list[Definition] = []
        damaged: list[DamagedRule] = []
        for rule, version, definition, _ in self._connection.execute(_QUERIES["desired"]):
            try:
                definitions.append(Definition.from_json(definition))
            except Exception as error:
                reason = (
                    "the stored rule cannot be read, apply it again: "
                    f"{type(error).__name__}: {error}"
                )
                damaged.append(DamagedRule(rule, version, reason))
        return definitions, damaged

    def plan_changes(self, desired: Sequence[Definition]) -> list[DeploymentStep]:
        """The steps that `apply` would take, including rules that stay."""
        stored, damaged = self.load_stored()
        running = _applied_versions(stored)
        for rule in damaged:
            running[rule.rule] = AppliedVersion(rule.version, "")
        return plan_steps(_applied_versions(desired), running)

    def apply(self, desired: Sequence[Definition]) -> list[DeploymentStep]:
        """Make these the desired rules, atomically. Returns the steps that changed something."""
        definitions = {definition.name: definition for definition in desired}
        with self._connection.transaction():
            self._connection.execute(_QUERIES["lock"])
            steps = changing_steps(self.plan_changes(desired))
            for step in steps:
                if step.action == "stop":
                    self._connection.execute(_QUERIES["drop_rule"], {"rule": step.rule})
                    continue
                definition = definitions[step.rule]
                values = {"version": definition.version, "definition": Jsonb(definition.to_json())}
                self._connection.execute(_QUERIES["put_rule"], {"rule": step.rule, **values})
            if steps:
                self._connection.execute(_QUERIES["bump"])
        return steps

    def transaction(self) -> AbstractContextManager[Any]:
        """A transaction on the connection of the registry."""
        return self._connection.transaction()

    def revision(self) -> int:
        """The number of changes of the desired rules so far."""
        row = self._connection.execute(_QUERIES["revision"]).fetchone()
        assert row is not None
        return int(row[0])

    def deployments(self) -> list[Deployment]:
        """Running rules, including quarantined ones."""
        with self._connection.cursor(row_factory=class_row(Deployment)) as cursor:
            return cursor.execute(_QUERIES["deployments"]).fetchall()

    def start_version(
        self, rule: str, version: str, settled_to: int | None, undecided_for: int
    ) -> None:
        """Record that a version runs.

        `settled_to`: its first event time, in microseconds. `undecided_for`: microseconds after it
        in which an alert may have started before.
        """
        values = {
            "rule": rule,
            "version": version,
            "settled_to": optional_datetime(settled_to),
            "begins": undecided_for / 1e6,
        }
        self._connection.execute(_QUERIES["start"], values)

    def stop_version(self, rule: str, version: str) -> None:
        """Record that a version stopped, and delete its detected events that are not settled."""
        values = {"rule": rule, "version": version}
        with self._connection.transaction():
            self._connection.execute(_QUERIES["stop"], values)
            self._connection.execute(_QUERIES["forget_detected"], values)

    def end_alerts(self, rule: str) -> None:
        """End the open alerts of a removed rule."""
        self._connection.execute(_QUERIES["end_alerts"], {"rule": rule})

    def record_settled(
        self, versions: Mapping[str, str], settled_to: int, failing: Collection[str]
    ) -> None:
        """Record that events before `settled_to` (microseconds) are settled.

        Part of the caller's transaction. `failing`: rules whose failure count is not reset.
        """
        values = {
            # For thousands of rules, adapting one JSON text takes a tenth of the time of arrays.
            "versions": Jsonb(dict(versions)),
            "failing": list(failing),
            "settled_to": optional_datetime(settled_to),
        }
        self._connection.execute(_QUERIES["settle"], values)

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
        with self._connection.transaction():
            text = self._record_error(rule, version, kind, message, event, times)
            values = {"rule": rule, "version": version, "error": text, "most": max_failures}
            row = self._connection.execute(_QUERIES["fail"], values).fetchone()
        return row is not None and row[0] == "quarantined"

    def record_crash(self, rule: str, version: str, kind: str, message: str) -> bool:
        """Record that the process had to end while it evaluated a rule, perhaps with others.

        After the first crash the rule is evaluated alone; after a second one within ten minutes it
        is quarantined. Returns whether it is.
        """
        with self._connection.transaction():
            values = {"rule": rule, "version": version, "error": sql.replace_nul(message[:2000])}
            row = self._connection.execute(_QUERIES["fell"], values).fetchone()
            self._record_error(rule, version, kind, message, None, 1)
        return row is not None and row[0] == "quarantined"

    def _record_error(
        self, rule: str, version: str, kind: str, message: str, event: Any, times: int
    ) -> str:
        text: str = sql.replace_nul(message[:2000])
        row = None
        if event is not None:
            row = Jsonb(sql.replace_nul(event))
        values = {
            "rule": rule,
            "version": version,
            "kind": kind,
            "message": text,
            "event": row,
            "times": times,
        }
        self._connection.execute(_QUERIES["note_error"], values)
        self._connection.execute(
            _QUERIES["forget_errors"], {"rule": rule, "most": _MAX_ERRORS_PER_RULE}
        )
        return text

    def errors(self, rule: str | None = None) -> list[RuleError]:
        """Errors of one rule or all rules, newest first."""
        with self._connection.cursor(row_factory=class_row(RuleError)) as cursor:
            return cursor.execute(_QUERIES["errors"], {"rule": rule}).fetchall()

    def resume(self, rules: Sequence[str]) -> list[str]:
        """End the quarantine of rules, which continue where they stopped. Returns their names."""
        with self._connection.transaction():
            rows = self._connection.execute(_QUERIES["resume"], {"rules": list(rules)}).fetchall()
            if rows:
                self._connection.execute(_QUERIES["bump"])
        return sorted(row[0] for row in rows)

    def refuse(self, rule: str, version: str, reason: str) -> None:
        """Quarantine a rule that the rule gate rejected, until it is admitted or resumed."""
        values = {"rule": rule, "version": version, "error": sql.replace_nul(reason[:2000])}
        self._connection.execute(_QUERIES["refuse"], values)

    def admit(self, admitted: Mapping[str, str]) -> set[str]:
        """End the quarantine of rejected rules whose versions pass now. Returns their names."""
        values = {"rules": list(admitted), "versions": list(admitted.values())}
        return {row[0] for row in self._connection.execute(_QUERIES["lift"], values)}

    # Rule files of the workspace

    def rule_files_state(self) -> RuleFilesState:
        """The state of the rule files."""
        with self._connection.cursor(row_factory=class_row(RuleFilesState)) as cursor:
            state = cursor.execute(_QUERIES["rule_files"]).fetchone()
        assert state is not None
        return state

    def request_reload(self) -> int:
        """Ask the live process to read the rule files. Returns the number of the request."""
        row = self._connection.execute(_QUERIES["ask_reload"]).fetchone()
        assert row is not None
        return int(row[0])

    def reload_problems(self, request: int) -> list[str] | None:
        """The problems of the rule files after a request, or None if it was not served yet."""
        state = self.rule_files_state()
        if state.answered < request:
            return None
        return state.problems or []

    def begin_check(self, digest: str) -> int:
        """Record the start of a check. Returns how many checks of these files never ended."""
        row = self._connection.execute(_QUERIES["begin_look"], {"digest": digest}).fetchone()
        assert row is not None
        return int(row[0])

    def record_check(self, request: int, digest: str, problems: list[str] | None) -> None:
        """Record the result of a check, which serves all requests up to `request`."""
        stored_problems = None
        if problems is not None:
            stored_problems = Jsonb(problems)
        values = {"asked": request, "digest": digest, "problems": stored_problems}
        self._connection.execute(_QUERIES["looked"], values)


def _applied_versions(definitions: Iterable[Definition]) -> dict[str, AppliedVersion]:
    return {definition.name: _to_applied_version(definition) for definition in definitions}


def _to_applied_version(definition: Definition) -> AppliedVersion:
    text = json.dumps(definition.to_json(), sort_keys=True)
    return AppliedVersion(definition.version, hashlib.sha256(text.encode()).hexdigest())
