from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from moirae.rules.checks.expected_keys import find_expected_problem
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule

SCHEMA = StructType([StructField("host", StringType())])


@pytest.mark.parametrize(
    ("relation", "columns", "message"),
    [
        ("hosts", {"host": "string"}, None),
        ("racks", {"host": "string"}, "unknown relation 'racks'; declared: hosts"),
        ("hosts", {"name": "string"}, "relation hosts has no column 'host', which key names"),
        (
            "hosts",
            {"host": "int"},
            "column host is int in relation hosts and string in s: declare it with one type",
        ),
    ],
)
def test_relation_has_the_columns_of_the_key(
    relation: str, columns: dict[str, str], message: str | None
) -> None:
    spec = AlertSpec.model_validate(
        {"alert": "A", "absent": "10m", "stream": "s", "key": ["host"], "expected": relation}
    )
    settings: Any = SimpleNamespace(relations={"hosts": SimpleNamespace(columns=columns)})
    problem = find_expected_problem(Rule("g", spec), SCHEMA, settings)
    assert (None if problem is None else problem.message) == message
