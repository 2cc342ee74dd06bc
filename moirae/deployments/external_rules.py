"""The rules of alerts that other systems post: a name of an alert gets its rule at first sight."""

import hashlib
from collections.abc import Collection, Mapping

import sql
from moirae.deployments.registry import RuleRegistry
from moirae.rules import EXTERNAL_PREFIX, OTHER_ALERTS, encode_alert_name, make_external_definition
from sql.alerts import ExternalAlertGateway

OTHER_RULE = EXTERNAL_PREFIX + OTHER_ALERTS
# Names whose rule is stored. Further ones belong to `OTHER_RULE` whenever they are posted.
_MAX_STORED_NAMES = 100_000
_MAX_STORED_LENGTH = 200  # characters of a name; an index takes 2.7 kB


class ExternalRules:
    """Decides which rules names of alerts belong to, and adds those that are missing.

    `limit`: names beyond it belong to one rule, unless a rule file declares theirs. What was decided
    for a name stays until then.
    """

    def __init__(self, connection: sql.Connection, limit: int) -> None:
        self._connection = connection
        self._limit = limit
        self._gateway = ExternalAlertGateway(connection)
        self._registry = RuleRegistry(connection)

    def assign(self, names: Collection[str]) -> tuple[Mapping[str, str], bool]:
        """The rules of names of alerts, and whether one was added that has to be started."""
        stored = self._gateway.list_rules([_shorten(name) for name in names])
        rules = {name: stored.get(_shorten(name), OTHER_RULE) for name in names}
        undecided = sorted(name for name, rule in rules.items() if rule == OTHER_RULE)
        if not undecided:
            return rules, False
        with self._connection.transaction():
            own_rules = {name: EXTERNAL_PREFIX + encode_alert_name(name) for name in undecided}
            applied = set(self._gateway.list_applied([OTHER_RULE, *own_rules.values()]))
            decided = self._decide(own_rules, applied, stored.keys())
            missing = sorted(set(decided.values()) - applied)
            added = bool(missing) and self._registry.add_missing(
                make_external_definition(rule.removeprefix(EXTERNAL_PREFIX)) for rule in missing
            )
        return {**rules, **decided}, added

    def _decide(
        self, own_rules: Mapping[str, str], applied: Collection[str], stored: Collection[str]
    ) -> dict[str, str]:
        """The rules of names that have none yet, or `OTHER_RULE`.

        `own_rules`: that they would have without a limit. `stored`: names as they are stored.
        """
        rule_count = self._gateway.count_rules(OTHER_RULE)
        name_count = self._gateway.count_names()
        rules: dict[str, str] = {}
        for name, own_rule in own_rules.items():
            is_new = _shorten(name) not in stored
            may_add = is_new and rule_count < self._limit and name_count < _MAX_STORED_NAMES
            rule = OTHER_RULE
            if own_rule in applied or may_add:
                rule = own_rule
            rules[name] = rule
            if (is_new and name_count < _MAX_STORED_NAMES) or (not is_new and rule != OTHER_RULE):
                self._gateway.put_rule(_shorten(name), rule)
                name_count += is_new
                rule_count += rule != OTHER_RULE
        return rules


def _shorten(name: str) -> str:
    """A name as it is stored."""
    if len(name) <= _MAX_STORED_LENGTH:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[: _MAX_STORED_LENGTH - len(digest) - 1]} {digest}"
