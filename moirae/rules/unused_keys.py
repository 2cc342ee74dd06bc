"""Keys of rule files that are accepted and change nothing: each is a warning until it works."""

from collections.abc import Iterator

from moirae.documents import sort_problems
from moirae.errors import Problem
from moirae.rules.model import AlertSpec
from moirae.rules.names import describe_path
from moirae.rules.rule_set import Origin, Rule, RuleSet

_NOT_EVALUATED = "not evaluated yet"


def find_unused_keys(rules: RuleSet) -> tuple[Problem, ...]:
    """A warning at each key of some rules, as they were read from files, that has no effect."""
    # The rules of a group all tell of its keys.
    return sort_problems(
        problem for rule in rules.rules if rule.origin for problem in _of_rule(rule)
    )


def keys_without_effect(rule: Rule) -> dict[str, str]:
    """The keys of a rule, and of its group, that are set and have no effect; each with the reason."""
    found = {}
    if rule.interval is not None:
        found["interval"] = (
            f"{_NOT_EVALUATED}, the key has no effect: rules are evaluated with every batch"
        )
    if rule.spec.then:
        found["then"] = f"{_NOT_EVALUATED}, the key has no effect"
    if rule.spec.delay and not _takes_delay(rule.spec):
        found["delay"] = (
            "the key has no effect: the rule has no context or surrounding without a delay of its own"
        )
    return found


def _of_rule(rule: Rule) -> Iterator[Problem]:
    assert rule.origin is not None
    group = Origin(rule.origin.document, rule.origin.path[:2])
    for key, reason in keys_without_effect(rule).items():
        yield _warning(group if key == "interval" else rule.origin, key, reason)


def _takes_delay(rule: AlertSpec) -> bool:
    """Whether any query of the rule is evaluated by the rule's delay."""
    queries = [*rule.context.values(), *rule.surroundings.values()]
    return any(query.delay is None for query in queries)


def _warning(origin: Origin, key: str, message: str) -> Problem:
    path = (*origin.path, key)
    text = f"{describe_path(origin.document, path)}: {message}"
    return Problem(origin.file, *origin.document.key_position(path), text, "warning")
