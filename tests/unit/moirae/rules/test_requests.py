"""What is requested of recalls for the events of a rule."""

from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.requests import build_event_plan
from moirae.rules.rule_set import Rule
from recall.query import Tables

TABLES = Tables({"load": "ts"})
NORM = {"sql": "SELECT avg(h.cpu) AS mean FROM load h"}


def needs_corpus(stage: str) -> bool:
    """Whether the boundaries of a rule with such a stage wait for its contexts."""
    spec = AlertSpec.model_validate(
        {
            "alert": "A",
            "expr": "SELECT host, ts FROM load",
            "context": {"light": {"sql": "SELECT host FROM load", "within": "1m"}},
            "recall": {"norm": NORM},
            "then": [{"stream": "out", "sql": stage}],
        }
    )
    columns = {
        "norm": {"mean": "double"},
        "light": {"host": "string"},
        "out": {"mean": "double"},
    }
    definition = Definition(Rule("g", spec), {"host": "string"}, ("host",), ("host",), columns)
    return build_event_plan(definition, TABLES, {}).needs_corpus


def test_boundary_waits_for_contexts_that_stages_read() -> None:
    assert needs_corpus("SELECT n.mean FROM norm n JOIN light l ON l.host = event.host")
    assert not needs_corpus("SELECT n.mean FROM norm n")
