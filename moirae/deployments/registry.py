"""Desired and running rules in PostgreSQL."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
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

# Different errors that are kept of one rule.
_MAX_ERRORS_PER_RULE = 100


class RuleRegistry:
    """Named queries on one connection in autocommit; methods that change several rows do it in one transaction."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def desired_rules(self) -> list[Definition]:
        """The rules as applied, but for those that cannot be read."""
        return self.load_stored()[0]

    def load_stored(self) -> tuple[list[Definition], list[DamagedRule]]:
        """The rules as applied, and those of them that cannot be read: of another shape than ours, or damaged."""
        found: list[Definition] = []
        damaged: list[DamagedRule] = []
        for rule, version, definition, _ in self._connection.execute(_QUERIES["desired"]):
            try:
                found.append(Definition.from_json(definition))
            except Exception as error:
                reason = f"the stored rule cannot be read, apply it again: {type(error).__name__}: {error}"
                damaged.append(DamagedRule(rule, version, reason))
        return found, damaged

    def plan_changes(self, desired: Sequence[Definition]) -> list[DeploymentStep]:
        """What applying the rules would change, and what would stay."""
        stored, damaged = self.load_stored()
        running = {d.name: _to_applied_version(d) for d in stored} | {
            d.rule: AppliedVersion(d.version, "") for d in damaged
        }
        return plan_steps({d.name: _to_applied_version(d) for d in desired}, running)

    def apply(self, desired: Sequence[Definition]) -> list[DeploymentStep]:
        """Make these the desired rules, all at once; returns what changed."""
        by_rule = {d.name: d for d in desired}
        with self._connection.transaction():
            self._connection.execute(_QUERIES["lock"])
            steps = changing_steps(self.plan_changes(desired))
            for step in steps:
                if step.action == "stop":
                    self._connection.execute(_QUERIES["drop_rule"], {"rule": step.rule})
                    continue
                definition = by_rule[step.rule]
                values = {"version": definition.version, "definition": Jsonb(definition.to_json())}
                self._connection.execute(_QUERIES["put_rule"], {"rule": step.rule, **values})
            if steps:
                self._connection.execute(_QUERIES["bump"])
        return steps

    def transaction(self) -> AbstractContextManager[Any]:
        """What is done inside is done at once, or not at all."""
        return self._connection.transaction()

    def revision(self) -> int:
        """The number of the last change of desired rules."""
        row = self._connection.execute(_QUERIES["revision"]).fetchone()
        assert row is not None
        return int(row[0])

    def deployments(self) -> list[Deployment]:
        """What runs, also what is quarantined."""
        with self._connection.cursor(row_factory=class_row(Deployment)) as cursor:
            return cursor.execute(_QUERIES["deployments"]).fetchall()

    def start_version(
        self, rule: str, version: str, settled_to: int | None, undecided_for: int
    ) -> None:
        """A version runs: events from this event time (microseconds) on are its own. `begins`: for how long it cannot
        know whether an alert began before."""
        values = {
            "rule": rule,
            "version": version,
            "settled_to": optional_datetime(settled_to),
            "begins": undecided_for / 1e6,
        }
        self._connection.execute(_QUERIES["start"], values)

    def stop_version(self, rule: str, version: str) -> None:
        """A version runs no more; what it had detected and not settled is forgotten."""
        values = {"rule": rule, "version": version}
        with self._connection.transaction():
            self._connection.execute(_QUERIES["stop"], values)
            self._connection.execute(_QUERIES["forget_detected"], values)

    def end_alerts(self, rule: str) -> None:
        """A rule is gone: its open alerts end."""
        self._connection.execute(_QUERIES["end_alerts"], {"rule": rule})

    def record_settled(
        self, versions: Mapping[str, str], settled_to: int, failing: Collection[str]
    ) -> None:
        """Events of these rules before this event time (microseconds) are settled. Part of the caller's transaction.

        `failing`: rules whose failures are not forgiven by that.
        """
        # One JSON text is made in a tenth of the time of arrays, which count where there are thousands of rules.
        values = {"versions": Jsonb(dict(versions)), "failing": list(failing)}
        self._connection.execute(
            _QUERIES["settle"], {**values, "settled_to": optional_datetime(settled_to)}
        )

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
        """A rule has failed; with `most` failures in a row it is set aside. Returns whether it was."""
        with self._connection.transaction():
            text = self._record_error(rule, version, kind, message, event, times)
            values = {"rule": rule, "version": version, "error": text, "most": max_failures}
            row = self._connection.execute(_QUERIES["fail"], values).fetchone()
        return row is not None and row[0] == "quarantined"

    def record_crash(self, rule: str, version: str, kind: str, message: str) -> bool:
        """The process had to be stopped over a rule, perhaps with others. The second time in ten minutes it is set
        aside, as it ran alone then. Returns whether it was."""
        with self._connection.transaction():
            values = {"rule": rule, "version": version, "error": sql.replace_nul(message[:2000])}
            row = self._connection.execute(_QUERIES["fell"], values).fetchone()
            self._record_error(rule, version, kind, message, None, 1)
        return row is not None and row[0] == "quarantined"

    def _record_error(
        self, rule: str, version: str, kind: str, message: str, event: Any, times: int
    ) -> str:
        text: str = sql.replace_nul(message[:2000])
        kept = Jsonb(sql.replace_nul(event)) if event is not None else None
        values = {
            "rule": rule,
            "version": version,
            "kind": kind,
            "message": text,
            "event": kept,
            "times": times,
        }
        self._connection.execute(_QUERIES["note_error"], values)
        self._connection.execute(
            _QUERIES["forget_errors"], {"rule": rule, "most": _MAX_ERRORS_PER_RULE}
        )
        return text

    def errors(self, rule: str | None = None) -> list[RuleError]:
        """What rules are charged with, the newest first."""
        with self._connection.cursor(row_factory=class_row(RuleError)) as cursor:
            return cursor.execute(_QUERIES["errors"], {"rule": rule}).fetchall()

    def resume(self, rules: Sequence[str]) -> list[str]:
        """End the quarantine of some rules; they go on where they stood. Returns those that were quarantined."""
        with self._connection.transaction():
            rows = self._connection.execute(_QUERIES["resume"], {"rules": list(rules)}).fetchall()
            if rows:
                self._connection.execute(_QUERIES["bump"])
        return sorted(row[0] for row in rows)

    def refuse(self, rule: str, version: str, reason: str) -> None:
        """A rule may not run; it is set aside at once, until it is admitted or somebody resumes it."""
        values = {"rule": rule, "version": version, "error": sql.replace_nul(reason[:2000])}
        self._connection.execute(_QUERIES["refuse"], values)

    def admit(self, admitted: Mapping[str, str]) -> set[str]:
        """These versions, by rule, may run. Those that were refused go on where they stood; returns their names."""
        values = {"rules": list(admitted), "versions": list(admitted.values())}
        return {row[0] for row in self._connection.execute(_QUERIES["lift"], values)}

    # The rule files of the workspace

    def rule_files_state(self) -> RuleFilesState:
        """What became of them."""
        with self._connection.cursor(row_factory=class_row(RuleFilesState)) as cursor:
            found = cursor.execute(_QUERIES["rule_files"]).fetchone()
        assert found is not None
        return found

    def request_reload(self) -> int:
        """Have the live process look at them again; the number of this request."""
        row = self._connection.execute(_QUERIES["ask_reload"]).fetchone()
        assert row is not None
        return int(row[0])

    def reload_problems(self, request: int) -> list[str] | None:
        """What is wrong with them, nothing if they are applied; None: nobody has looked since the request."""
        found = self.rule_files_state()
        return (found.problems or []) if found.answered >= request else None

    def begin_check(self, digest: str) -> int:
        """They are about to be checked; how often the same ones were before, without an end."""
        row = self._connection.execute(_QUERIES["begin_look"], {"digest": digest}).fetchone()
        assert row is not None
        return int(row[0])

    def record_check(self, request: int, digest: str, problems: list[str] | None) -> None:
        """They were looked at, on account of all requests up to a number."""
        values = {
            "asked": request,
            "digest": digest,
            "problems": None if problems is None else Jsonb(problems),
        }
        self._connection.execute(_QUERIES["looked"], values)


def _to_applied_version(definition: Definition) -> AppliedVersion:
    text = json.dumps(definition.to_json(), sort_keys=True)
    return AppliedVersion(definition.version, hashlib.sha256(text.encode()).hexdigest())
