"""All lints of rules. A rule silences one by the key `lint`, with a reason. No I/O."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from moirae.config import Settings
from moirae.documents import KeyPath
from moirae.errors import Problem, Severity
from moirae.evaluation.plan import ActiveRule
from moirae.lints.notes import find_missing_texts
from moirae.lints.plain_expressions import find_plain_expressions
from moirae.lints.questions import (
    find_hidden_coverage,
    find_partial_comparisons,
    find_unbounded_recalls,
    find_unused_contexts,
)
from moirae.lints.routes import find_missing_route
from moirae.rules import Definition, LintName

Finding = tuple[LintName, KeyPath, str]


HISTORY_LINTS: frozenset[LintName] = frozenset(
    ("short-keep-firing", "flapping", "always-together", "never-matched")
)
"""Those that only a back-test finds."""


def find_lints(settings: Settings, definitions: Sequence[Definition]) -> list[Problem]:
    """Warnings and notes about checked rules that they do not silence, and warnings about silences
    without effect.
    """
    problems: list[Problem] = []
    for definition in definitions:
        findings = list(_find_in_rule(settings, definition))
        notes = list(find_missing_texts(definition))
        problems += report_findings(definition, findings)
        problems += report_findings(definition, notes, severity="note")
        names = {name for name, _, _ in [*findings, *notes]} | HISTORY_LINTS
        problems += report_idle_silences(definition, names)
    return problems


def report_findings(
    definition: Definition, findings: Iterable[Finding], severity: Severity = "warning"
) -> Iterator[Problem]:
    """Those that the rule does not silence."""
    for name, path, message in findings:
        if name not in definition.spec.lint:
            text = f"{message} (to silence: `lint: {{{name}: REASON}}`)"
            yield definition.rule.make_problem(text, *path, severity=severity)


def report_idle_silences(definition: Definition, names: Collection[LintName]) -> Iterator[Problem]:
    """Silences of a rule of other lints than those with some names."""
    for name in definition.spec.lint.keys() - names:
        message = f"the lint {name} has nothing to silence; remove it"
        yield definition.rule.make_problem(message, "lint", name, severity="warning")


def _find_in_rule(settings: Settings, definition: Definition) -> Iterator[Finding]:
    yield from find_unused_contexts(definition)
    yield from find_unbounded_recalls(definition)
    yield from find_partial_comparisons(definition)
    yield from find_hidden_coverage(definition)
    yield from find_missing_route(settings.routes, definition)
    yield from find_plain_expressions(
        definition, lambda changed: ActiveRule.of_workspace(changed, settings), settings
    )
