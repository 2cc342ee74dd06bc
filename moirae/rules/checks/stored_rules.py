"""Check rules loaded from the database before they run: they may not have been checked before."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import structlog

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.checks.check import check_rules
from moirae.rules.checks.check_session import StartSpark
from moirae.rules.definition import Definition
from moirae.rules.rule_set import DerivedQuery, RuleSet
from recall.sandbox import SPARK_LOST

_LOG = structlog.get_logger()

# Definitions that passed the check, and the reasons why others did not, by rule name.
_CheckResult = tuple[dict[str, Definition], dict[str, str]]


class RuleAdmission:
    """Checks stored rules in a process that evaluates rules.

    Remembers the rules that passed, so that an unchanged rule is checked once. Thread-safe: rule
    files are checked in another thread than stored rules are loaded in.
    """

    def __init__(self, start_spark: StartSpark, settings: Settings) -> None:
        self._start_spark = start_spark
        self._settings = settings
        # Replaced, never changed, so that readers need no lock.
        self._admitted: Mapping[str, Definition] = {}
        self._lock = threading.Lock()

    @property
    def admitted(self) -> Collection[Definition]:
        """The definitions that passed their last check."""
        return self._admitted.values()

    def set_admitted(self, definitions: Iterable[Definition]) -> None:
        """Replace all remembered definitions by these, which this process has just checked."""
        with self._lock:
            self._admitted = {definition.name: definition for definition in definitions}

    def admit(self, stored: Sequence[Definition]) -> tuple[list[Definition], dict[str, str]]:
        """Return the definitions that may run, and why the others may not, by rule name.

        The definitions are those of the check, not the stored ones.
        """
        remembered = self._admitted
        admitted: dict[str, Definition] = {}
        unchecked: dict[tuple[DerivedQuery, ...], list[Definition]] = {}
        for definition in stored:
            checked = remembered.get(definition.name)
            if checked is not None and checked.rule == definition.rule:
                admitted[definition.name] = checked
            else:
                unchecked.setdefault(definition.rule.derived, []).append(definition)
        rejections: dict[str, str] = {}
        for definitions in unchecked.values():
            passed, reasons = self._check(definitions)
            admitted |= passed
            rejections |= reasons
        with self._lock:
            # Another thread may have added definitions meanwhile; they stay.
            self._admitted = {**self._admitted, **admitted}
        ordered = [admitted[d.name] for d in stored if d.name in admitted]
        return ordered, rejections

    def _check(self, definitions: Sequence[Definition]) -> _CheckResult:
        """Check rules that have the same derived streams.

        If the check itself fails, each rule is checked alone, and those that fail it are rejected.
        """
        rules = tuple(definition.rule for definition in definitions)
        rule_set = RuleSet(rules, definitions[0].rule.derived)
        try:
            passed, problems = check_rules(self._start_spark, self._settings, rule_set)
        except SPARK_LOST:
            raise
        except Exception as error:
            if len(definitions) > 1:
                return self._check_separately(definitions)
            name = definitions[0].name
            _LOG.exception("rule check failed", action="rule_check_failed", rule=name)
            cause = f"{type(error).__name__}: {error}"
            return {}, {name: f"internal error while checking the rule: {cause}"}
        passed_by_name = {definition.name: definition for definition in passed}
        reasons: dict[str, str] = {}
        for definition in definitions:
            if definition.name not in passed_by_name:
                reasons[definition.name] = _rejection_reason(definition, problems)
        return passed_by_name, reasons

    def _check_separately(self, definitions: Sequence[Definition]) -> _CheckResult:
        passed: dict[str, Definition] = {}
        rejections: dict[str, str] = {}
        for definition in definitions:
            passed_alone, reasons = self._check([definition])
            passed |= passed_alone
            rejections |= reasons
        return passed, rejections


def _rejection_reason(definition: Definition, problems: Sequence[Problem]) -> str:
    """The first error of the rule itself, else the first of any (one of its derived streams)."""
    errors = [problem for problem in problems if problem.severity == "error"]
    rule_errors = [problem for problem in errors if problem.file == definition.name]
    return f"rejected by the rule check: {(rule_errors or errors)[0].message}"
