"""Rules that are compiled before their first rows come."""

from collections.abc import Mapping, Sequence

from moirae.evaluation.indexed_rules import IndexedRules
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import ColumnsByRelation, ColumnsByStream, RuleGrouper
from moirae.rules import Definition


class PreparedRules:
    """The rules of one process by name, with what evaluates them without Spark.

    To parse and compile a query takes milliseconds: a rule that stays the same is prepared once.
    """

    def __init__(self, columns: ColumnsByStream, relations: ColumnsByRelation) -> None:
        """`columns`: the declared columns of streams; `relations`: of relations."""
        self.grouper = RuleGrouper(columns, relations)
        self.indexed = IndexedRules(columns, self.grouper)
        self._rules_by_name: dict[str, ActiveRule] = {}

    def prepare(
        self, definition: Definition, time_columns: Mapping[str, str], relations: frozenset[str]
    ) -> ActiveRule:
        """The rule of a definition. See `ActiveRule.create`; raises `recall.query.Unsupported`."""
        rule = self._rules_by_name.get(definition.name)
        if rule is None or rule.definition != definition or rule.tables.relations != relations:
            rule = ActiveRule.create(definition, time_columns, relations)
            if not rule.reads_revisions:  # their streams are not known yet
                self.grouper.translate_rule(rule)
                self.indexed.compile_rule(rule)
            self._rules_by_name[definition.name] = rule
        return rule

    def add_streams(self, columns: ColumnsByStream) -> None:
        """Add streams with their columns."""
        self.grouper.add_streams(columns)
        self.indexed.add_streams(columns)

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop what is cached for rules that are no longer active; those of posted alerts stay."""
        external = {name: r for name, r in self._rules_by_name.items() if r.definition.is_external}
        self._rules_by_name = external | {rule.name: rule for rule in active_rules}
        self.grouper.remove_inactive(active_rules)
        self.indexed.remove_inactive(active_rules)
