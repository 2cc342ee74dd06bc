"""An accepted expression means the same in both grammars and both engines: as Spark reads it.

Rules are written with explicit types and their constants as data; recalls keep their text.
"""

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.delta.schema import ARROW_TYPES
from recall.engines.spark.statements import SparkStatements
from recall.query.parsing import parse
from recall.query.plain import DuckDBDialect, SparkDialect, create_recall_writer, to_plain
from recall.statements.duckdb_statements import DuckDBStatements
from recall.statements.statement import Statement
from tests.plain_columns import PLAIN_COLUMNS

pytestmark = pytest.mark.services

VALUES = {
    "ts": [datetime(2026, 1, 1, tzinfo=UTC)] * 8,
    "host": ["a", "b'", "é", "", None, "it's \\ here", "abc", "a"],
    "v": [None, math.nan, -0.0, 0.1, 2.5, math.inf, -3.0, 6.0],
    "n": [0, 1, -7, 1 << 40, None, 3, 4, 2],
    "i": [1, 2, 3, -3, 0, None, 7, 2],
    "ok": [True, False, None, True, False, None, True, False],
}
ROWS = pa.table(
    {name: pa.array(VALUES[name], ARROW_TYPES[PLAIN_COLUMNS[name]]) for name in PLAIN_COLUMNS}
)
EXPRESSIONS = [
    "v > 0.1",
    "v >= 0",
    "v = v",
    "v / 4 < n / 2",
    "v * 0.1 + 1e1 > -(i)",
    "n % 3 = 1 OR n % -2 = -1",
    "i * 2 + n BETWEEN 1 AND 10",
    "host IN ('a', 'é', '')",
    r"host = 'it\'s \\ here'",
    "host LIKE '%a_'",
    "host > 'a' AND NOT ok",
    "ok < (n > 2)",
    "v IS NULL OR host IS NOT NULL AND ok IS NULL",
    "CASE WHEN ok THEN v WHEN n > 0 THEN 1 END > 0.5",
    "(host = 'a') IS TRUE OR ok IS FALSE",
    "(v > 1 AND host LIKE 'a%') IS NOT TRUE",
    "1 = 1",
    "n = NULL",
    "ts <= ts",
]


def rule_text(expression: str, engine: str) -> tuple[str, dict[str, pa.Table]]:
    """A rule, and the table of its constants."""
    dialect = DuckDBDialect() if engine == "duckdb" else SparkDialect()
    query = parse(f"SELECT ts FROM t WHERE {expression}")
    plain = to_plain(query, {"t": PLAIN_COLUMNS}, {}, dialect)
    constants = {"rule": pa.array([0], pa.int32())}
    for number, value in enumerate(plain.constants):
        arrow_type = ARROW_TYPES[plain.constant_types[number]]
        constants[f"p{number}"] = pa.array([value], arrow_type)
    return plain.sql("constants"), {"constants": pa.table(constants)}


def recall_text(expression: str, engine: str) -> tuple[str, dict[str, pa.Table]]:
    """A recall's query, once its expression is accepted."""
    query = parse(f"SELECT ts FROM t WHERE {expression}")
    writer = create_recall_writer({"t": PLAIN_COLUMNS}, qualified_tables=())
    assert writer.write(query.args["where"].this).type == "boolean"
    return query.sql(dialect=engine), {}


@pytest.mark.slow
@pytest.mark.parametrize("grammar", [rule_text, recall_text])
def test_engines_agree_on_an_expression(spark: SparkSession, grammar: object) -> None:
    assert callable(grammar)
    session = spark.newSession()
    engines = {"duckdb": DuckDBStatements(), "spark": SparkStatements(lambda: session)}
    for engine in engines.values():
        engine.register("t", ROWS)
    for expression in EXPRESSIONS:
        written = f"SELECT count(*) AS n FROM t WHERE {expression}"
        expected = session.sql(written).toArrow().to_pylist()
        for name, engine in engines.items():
            text, tables = grammar(expression, name)
            statement = Statement(f"SELECT count(*) AS n FROM ({text}) AS found", tables)
            assert engine.run(statement).to_pylist() == expected, (name, expression)
