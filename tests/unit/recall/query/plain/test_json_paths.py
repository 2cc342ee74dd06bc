import pytest

from recall.query.parsing import parse
from recall.query.plain.json_paths import (
    parse_json_path,
    read_json_path,
    to_duckdb_path,
    to_spark_path,
)


def test_fields_and_positions_are_steps() -> None:
    keys = parse_json_path("$.k8s.labels['app.io/name'][0].@t")
    assert keys == ["k8s", "labels", "app.io/name", 0, "@t"]
    assert to_duckdb_path(keys) == '$."k8s"."labels"."app.io/name"[0]."@t"'
    assert to_spark_path(keys) == "$['k8s']['labels']['app.io/name'][0]['@t']"


@pytest.mark.parametrize(
    "path", ["", "$", "a", "$.*", "$[*]", "$.a b", "$..a", "$.", "$[-1]", "$['a", '$.a"b', "$.a*"]
)
def test_other_paths_are_left_to_spark(path: str) -> None:
    assert parse_json_path(path) is None


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("$.k8s.pods[1]", ["k8s", "pods", 1]),
        ("$[\\'a.b\\'].c", ["a.b", "c"]),
        ("$.@timestamp", ["@timestamp"]),
        ("$.a[*]", None),
        ("$..a", None),
    ],
)
def test_paths_are_read_from_queries(path: str, keys: list[str | int] | None) -> None:
    call = parse(f"SELECT get_json_object(_extra, '{path}') FROM s").expressions[0]
    assert read_json_path(call.expression) == keys
