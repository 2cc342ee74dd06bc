"""Lint of routes: a rule whose alerts no route takes. No I/O."""

from collections.abc import Iterator, Sequence

from moirae.config import Matcher, Route
from moirae.documents import KeyPath
from moirae.notify.routing.tree import build_tree
from moirae.rules import Definition, LintName


def find_missing_route(
    routes: Sequence[Route], definition: Definition
) -> Iterator[tuple[LintName, KeyPath, str]]:
    """A rule of which no route takes any alert, whatever the values of its key.

    Nothing if there are no routes at all.
    """
    if not routes:
        return
    spec = definition.spec
    labels = {**spec.labels, "alertname": spec.alert}
    # Each route without matchers takes all.
    nodes = build_tree(routes).children
    if any(_may_match(node.matchers, labels, definition.key) for node in nodes):
        return
    text = ", ".join(f"{name}={value}" for name, value in labels.items())
    message = f"no route takes its alerts, which have the labels {text}: they reach nobody; add a "
    yield "no-route", ("labels",) if spec.labels else ("alert",), f"{message}route or a label"


def _may_match(matchers: Sequence[Matcher], labels: dict[str, str], key: Sequence[str]) -> bool:
    """Labels of the key may have any value, except those that the rule sets."""
    return all(
        matcher.matches(labels)
        for matcher in matchers
        if matcher.name in labels or matcher.name not in key
    )
