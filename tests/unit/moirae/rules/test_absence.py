"""The SQL of rules of absence; the property tests compare its results."""

from moirae.rules.absence import add_expected_keys, build_absence_sql, build_rows_sql
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query import parse


def test_keys_of_a_relation_are_added_to_those_that_fell_silent() -> None:
    spec = AlertSpec.model_validate(
        {"alert": "A", "absent": "10m", "stream": "s", "key": ["host"], "expected": "hosts"}
    )
    silent = parse(build_absence_sql("s", "at", ("host",), 600.0))
    rows = parse(build_rows_sql("s", "at", ("host",)))
    query = add_expected_keys(Rule("g", spec), silent, rows, "relation_hosts", ["bounds_s"])
    assert query.named_selects == ["host", "ts"]
    tables = {
        table.name for table in query.find_all(type(parse("SELECT 1 FROM x").args["from_"].this))
    }
    assert tables == {"s", "relation_hosts", "bounds_s"}
