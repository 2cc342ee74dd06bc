"""Statements that count the rows of a key through the stages of a query."""

from moirae.why.stage_queries import StageCounts, build_stage_queries
from recall.query import bind_query
from tests.unit.moirae.why.test_conditions import PHYSICAL, TABLES


def build(sql: str, **key: str) -> list[StageCounts]:
    return build_stage_queries(bind_query(sql, TABLES, PHYSICAL), key)


def test_key_selects_rows_of_streams_and_of_what_they_are_computed_from() -> None:
    load, outer = build("SELECT host, ts FROM load WHERE v > 9", host="x")
    assert (load.name, load.sources, load.is_grouped) == ("load", ["a"], True)
    assert (outer.name, outer.sources, outer.is_grouped) == ("expr", ["load"], False)
    assert load.conditions == ["v > 0", "COUNT(*) > 2"]
    assert all("CAST(host AS STRING) = 'x'" in stage.statement for stage in (load, outer))
    assert load.operands == [["v"], ["COUNT(*)"]]


def test_key_of_another_name_or_an_aggregate_is_passed_where_it_can_be() -> None:
    inner, outer = build(
        "SELECT l.host AS machine, l.ts, l.v FROM load l WHERE l.v > 1", machine="x", v="2"
    )
    assert "CAST(l.host AS STRING) = 'x'" in outer.statement
    # In the derived stream, v is computed from an aggregate.
    assert "CAST(host AS STRING) = 'x'" in inner.statement
    assert "AS STRING) = '2'" not in inner.statement


def test_both_sides_of_a_union_and_common_tables_are_stages() -> None:
    sql = "WITH c AS (SELECT ts, host FROM a) SELECT ts FROM c UNION ALL SELECT ts FROM b"
    names = [(stage.name, stage.sources) for stage in build(sql)]
    assert names == [("c", ["a"]), ("expr", ["c"]), ("expr", ["b"])]
    assert build(sql)[1].statement.startswith("WITH c AS")
