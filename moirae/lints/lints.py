"""All lints of rules. A rule silences one by the key `lint`, with a reason. No I/O."""

from collections.abc import Iterator, Sequence

from moirae.config import Settings
from moirae.documents import KeyPath
from moirae.errors import Problem
from moirae.evaluation.plan import ActiveRule
from moirae.lints.plain_expressions import find_plain_expressions
from moirae.lints.questions import (
    find_partial_comparisons,
    find_unbounded_recalls,
    find_unused_contexts,
)
from moirae.lints.routes import find_missing_route
from moirae.rules import Definition, LintName

Finding = tuple[LintName, KeyPath, str]


def find_lints(settings: Settings, definitions: Sequence[Definition]) -> list[Problem]:
    """Warnings about checked rules that they do not silence, and about silences without effect."""
    problems: list[Problem] = []
    for definition in definitions:
        findings = list(_find_in_rule(settings, definition))
        silenced = definition.spec.lint
        for name, path, message in findings:
            if name not in silenced:
                text = f"{message} (to silence: `lint: {{{name}: REASON}}`)"
                problems.append(definition.rule.make_problem(text, *path, severity="warning"))
        for name in silenced.keys() - {name for name, _, _ in findings}:
            message = f"the lint {name} has nothing to silence; remove it"
            problems.append(definition.rule.make_problem(message, "lint", name, severity="warning"))
    return problems


def _find_in_rule(settings: Settings, definition: Definition) -> Iterator[Finding]:
    yield from find_unused_contexts(definition)
    yield from find_unbounded_recalls(definition)
    yield from find_partial_comparisons(definition)
    yield from find_missing_route(settings.routes, definition)
    yield from find_plain_expressions(
        definition, lambda changed: ActiveRule.of_workspace(changed, settings), settings
    )
