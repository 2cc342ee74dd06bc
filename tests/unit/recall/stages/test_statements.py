"""Queries of stages for DuckDB, or the reason why they need Spark."""

import pytest

from recall.errors import SparkRequired
from recall.stages.statements import StageQuery, explain_stage_engine
from tests.stage_world import ATTRIBUTES, COLUMNS, NORM_COLUMNS, stage

INPUTS = {"norm": NORM_COLUMNS}


def _query(sql: str, columns: dict[str, str], live: bool = False) -> StageQuery:
    made = stage("s", sql, INPUTS, columns, live=live)
    return StageQuery(made, ATTRIBUTES, {"load": COLUMNS})


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT n.host FROM norm n WHERE n.mean < event.limit", {"host": "string"}),
        ("SELECT n.*, p.v FROM norm n JOIN load p ON p.host = n.host", {"v": "double"}),
        (
            "SELECT n.host, max_by(p.v, p.ts) AS v FROM norm n LEFT JOIN load p ON p.host = n.host "
            "AND p.ts BETWEEN event.ts - INTERVAL 3 SECONDS AND event.ts GROUP BY n.host",
            {"host": "string", "v": "double"},
        ),
        ("SELECT count(*) AS n FROM norm HAVING count(*) > 1", {"n": "bigint"}),
        ("SELECT n.host, n.n + 1 AS m FROM norm n", {"host": "string", "m": "bigint"}),
    ],
)
def test_plain_stage_runs_in_duckdb(sql: str, columns: dict[str, str]) -> None:
    query = _query(sql, columns, "load" in sql)
    assert isinstance(query.duckdb_sql, str), query.duckdb_sql
    assert explain_stage_engine(query)[0] == "recall process"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT collect_list(n.host) AS h FROM norm n", "aggregate"),
        ("SELECT upper(n.host) AS h FROM norm n", "unsupported expression"),
        ("SELECT n.host AS h FROM (SELECT * FROM norm) n", "subqueries"),
        ("SELECT n.host AS h FROM norm n ORDER BY n.mean LIMIT 1", "clause other than SELECT"),
        ("SELECT n.mean AS h, count(*) AS c FROM norm n GROUP BY n.mean", "GROUP BY"),
    ],
)
def test_other_stage_needs_spark(sql: str, reason: str) -> None:
    statement = _query(sql, {"h": "string"}).duckdb_sql
    assert isinstance(statement, SparkRequired)
    assert reason in str(statement)
