"""Check the relation of the keys that a rule of absence expects. No I/O."""

from pyspark.sql.types import StructType

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.rule_set import Rule


def find_expected_problem(rule: Rule, schema: StructType, settings: Settings) -> Problem | None:
    """Why the key `expected` cannot be used; None if it can, or is not set.

    `schema`: the columns of the event query.
    """
    name = rule.spec.expected
    if name is None:
        return None
    relation = settings.relations.get(name)
    if relation is None:
        names = ", ".join(sorted(settings.relations)) or "none"
        return rule.make_problem(f"unknown relation {name!r}; declared: {names}", "expected")
    for column in rule.spec.key or ():
        relation_type = relation.columns.get(column)
        stream_type = schema[column].dataType.simpleString()
        if relation_type is None:
            message = f"relation {name} has no column {column!r}, which key names"
            return rule.make_problem(message, "expected")
        if relation_type != stream_type:
            message = (
                f"column {column} is {relation_type} in relation {name} and {stream_type} in "
                f"{rule.spec.stream}: declare it with one type"
            )
            return rule.make_problem(message, "expected")
    return None
