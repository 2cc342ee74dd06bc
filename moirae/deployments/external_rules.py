"""The rules of alerts that other systems post: a name of an alert gets its rule at first sight."""

from collections.abc import Collection, Mapping

import sql
from moirae.deployments.registry import RuleRegistry
from moirae.rules import EXTERNAL_PREFIX, OTHER_ALERTS, encode_alert_name, make_external_definition
from sql.alerts import ExternalAlertGateway

OTHER_RULE = EXTERNAL_PREFIX + OTHER_ALERTS
# Names whose rule is stored. Further ones belong to `OTHER_RULE` whenever they are posted.
_MAX_STORED_NAMES = 100_000


class ExternalRules:
    """Decides which rules names of alerts belong to, and adds those that are missing.

    `limit`: names beyond it belong to one rule. What was decided for a name stays.
    """

    def __init__(self, connection: sql.Connection, limit: int) -> None:
        self._connection = connection
        self._limit = limit
        self._gateway = ExternalAlertGateway(connection)
        self._registry = RuleRegistry(connection)

    def assign(self, names: Collection[str]) -> tuple[Mapping[str, str], bool]:
        """The rules of names of alerts, and whether one was added that has to be started."""
        rules = self._gateway.list_rules(names)
        missing = sorted(set(names) - rules.keys())
        if not missing:
            return rules, False
        with self._connection.transaction():
            rules |= self._assign_new(missing)
            added = self._registry.add_missing(
                make_external_definition(rule.removeprefix(EXTERNAL_PREFIX))
                for rule in sorted(set(rules.values()))
            )
        return rules, added

    def _assign_new(self, names: Collection[str]) -> dict[str, str]:
        rule_count = self._gateway.count_rules(OTHER_RULE)
        name_count = self._gateway.count_names()
        rules: dict[str, str] = {}
        for name in names:
            rule = EXTERNAL_PREFIX + encode_alert_name(name)
            if rule != OTHER_RULE and rule_count >= self._limit:
                rule = OTHER_RULE
            rule_count += rule != OTHER_RULE
            rules[name] = rule
            if name_count < _MAX_STORED_NAMES:
                self._gateway.put_rule(name, rule)
                name_count += 1
        return rules
