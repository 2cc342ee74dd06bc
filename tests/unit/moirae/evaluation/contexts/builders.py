"""A rule with a context and a surrounding."""

from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule

COLUMNS = {"ts": "timestamp", "host": "string", "cpu": "double"}  # of the stream cpu
NEAR = "SELECT c.host FROM cpu c WHERE c.host = event.host"


def make_rule(near: str = NEAR, around: str = NEAR) -> ActiveRule:
    """`near`: the context, of the minute before the event. `around`: with the 30 s after it."""
    queries = {
        "context": {"near": {"sql": near, "within": "1m"}},
        "surroundings": {"around": {"sql": around, "within": "1m", "delay": "30s"}},
    }
    spec = AlertSpec.model_validate({"alert": "A", "expr": "SELECT host, ts FROM cpu", **queries})
    columns = {"near": {"host": "string"}, "around": {"host": "string"}}
    types = {"host": "string", "tags": "array<string>"}
    definition = Definition(Rule("g", spec), types, ("host",), ("host",), columns)
    return ActiveRule.create(definition, {"cpu": "ts"}, frozenset())
