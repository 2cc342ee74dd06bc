"""Rules that share a query do not share its failures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.writer import SourceUnit
from moirae.config.settings import Settings
from moirae.deployments.registry import RuleRegistry
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from moirae.runtime import database
from recall.statements.statement import Statement
from tests.property.world import START, World, workspace

pytestmark = pytest.mark.services

RULES, BAD = 16, 11


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "isolation") as new_connection:
        yield new_connection


def _definition(i: int) -> Definition:
    factor = 9_000_000_000_000_000_000 if i == BAD else 5_000_000_000 + i
    expr = f"SELECT host, n, ts, n * {factor} AS x FROM a WHERE v > 10"
    return Definition(
        Rule("g", AlertSpec(alert=f"R{i}", expr=expr)),
        {"host": "string", "n": "bigint", "x": "bigint"},
        (),
        ("n",),
    )


@pytest.mark.slow
def test_failing_rule_of_a_shared_query_is_found_by_bisection(
    spark: SparkSession,
    connection: Connection[Any],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of many rules of one shape overflows: only that rule is charged, others keep their
    events.
    """
    batch_sizes: list[int] = []
    charged: list[str] = []
    written, fail = RuleGrouper.build_statement, RuleRegistry.record_failure

    def counted(self: RuleGrouper, groups: Any) -> Statement:
        batch_sizes.append(sum(len(group.rules) for group in groups))
        return written(self, groups)

    def noted(self: RuleRegistry, **failure: Any) -> bool:
        charged.append(failure["rule"])
        return fail(self, **failure)

    monkeypatch.setattr(RuleGrouper, "build_statement", counted)
    monkeypatch.setattr(RuleRegistry, "record_failure", noted)
    world = World(spark, connection, settings, [_definition(i) for i in range(RULES)], tmp_path)
    line = json.dumps({"ts": START.isoformat(), "host": "h0", "v": 50.0, "n": 2}).encode()
    world.ingest([SourceUnit("a", "u", JSONL, lambda: iter([line]))], at_once=False)
    rows = dict(connection.execute("SELECT rule, count(*) FROM events GROUP BY rule").fetchall())
    assert rows == {f"g/R{i}": 1 for i in range(RULES) if i != BAD}
    assert charged == [f"g/R{BAD}"]
    assert sorted(batch_sizes, reverse=True) == [16, 8, 8, 4, 4, 2, 2, 1, 1]
