"""Stored rules pass the gate again whenever they are loaded: what is in a database need not have come by the gate."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import structlog
from pyspark.sql import SparkSession

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.check import check_rules
from moirae.rules.definition import Definition
from moirae.rules.rule_set import DerivedQuery, RuleSet
from recall.sandbox import SPARK_LOST

_LOG = structlog.get_logger()


class RuleAdmission:
    """The gate at the door of a process that runs rules. What has passed once passes again, whoever had it checked."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        # Replaced as a whole, so that who reads needs no lock: rule files are checked in a thread of their own.
        self._admitted: Mapping[str, Definition] = {}
        self._lock = threading.Lock()

    @property
    def admitted(self) -> Collection[Definition]:
        """What the gate has found of the rules that passed last."""
        return self._admitted.values()

    def set_admitted(self, checked: Iterable[Definition]) -> None:
        """The gate has passed these in this process; there are no others."""
        with self._lock:
            self._admitted = {definition.name: definition for definition in checked}

    def admit(self, stored: Sequence[Definition]) -> tuple[list[Definition], dict[str, str]]:
        """The rules that may run, as the gate has found them; why the others may not, by their names."""
        known = self._admitted
        found = {
            d.name: known[d.name]
            for d in stored
            if d.name in known and known[d.name].rule == d.rule
        }
        reasons: dict[str, str] = {}
        fresh: dict[tuple[DerivedQuery, ...], list[Definition]] = {}
        for definition in stored:
            if definition.name not in found:
                fresh.setdefault(definition.rule.derived, []).append(definition)
        for members in fresh.values():
            passed, refused = self._check(members)
            found |= passed
            reasons |= refused
        with self._lock:
            # What others had checked meanwhile stays.
            self._admitted = {**self._admitted, **found}
        return [found[d.name] for d in stored if d.name in found], reasons

    def _check(self, members: Sequence[Definition]) -> tuple[dict[str, Definition], dict[str, str]]:
        """Rules with the same derived streams. Where the check itself fails each is checked alone, and those at fault
        are refused.
        """
        rules = RuleSet(tuple(d.rule for d in members), members[0].rule.derived)
        try:
            passed, problems = check_rules(self._spark, self._settings, rules)
        except SPARK_LOST:
            raise
        except Exception as error:
            if len(members) == 1:
                _LOG.exception(
                    "checking a rule failed", action="rule_check_failed", rule=members[0].name
                )
                return {}, {
                    members[
                        0
                    ].name: f"the rule gate cannot check it: {type(error).__name__}: {error}"
                }
            alone = [self._check([member]) for member in members]
            found = {name: d for definitions, _ in alone for name, d in definitions.items()}
            return found, {name: reason for _, reasons in alone for name, reason in reasons.items()}
        found = {definition.name: definition for definition in passed}
        return found, {d.name: _reason(d, problems) for d in members if d.name not in found}


def _reason(definition: Definition, problems: Sequence[Problem]) -> str:
    errors = [problem for problem in problems if problem.severity == "error"]
    mine = [problem for problem in errors if problem.file == definition.name] or errors
    return f"refused by the rule gate: {mine[0].message}"
