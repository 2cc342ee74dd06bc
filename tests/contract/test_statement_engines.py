"""DuckDB and Spark run statements over rows with the same results, limits and interruptions."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recall.engines.spark.statements import SparkStatements
from recall.errors import Cancelled, SparkRequired, StatementTimeout
from recall.statements.duckdb_statements import DuckDBStatements
from recall.statements.statement import Statement, StatementEngine

pytestmark = pytest.mark.services

TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "ts": pa.array([TIME, TIME, None], pa.timestamp("us", tz="UTC")),
        "host": pa.array(["a", None, "é"]),
        "v": pa.array([1.5, None, -0.0]),
        "n": pa.array([1, 2, None], pa.int64()),
        "i": pa.array([1, 2, None], pa.int32()),
        "ok": pa.array([True, False, None]),
    }
)
SUM = Statement("SELECT CAST(sum(n) AS BIGINT) AS s FROM t")
# More rows than any machine reads within a test, by the column of the function in each engine.
ENDLESS = "SELECT max({0} % 7) AS n FROM range(1000000000000)"


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[StatementEngine]:
    if request.param == "duckdb":
        yield DuckDBStatements()
        return
    session = spark.newSession()
    yield SparkStatements(lambda: session)


def endless(engine: StatementEngine) -> Statement:
    column = "range" if isinstance(engine, DuckDBStatements) else "id"
    return Statement(ENDLESS.format(column))


def test_values_come_back_as_they_were_registered(engine: StatementEngine) -> None:
    engine.register("t", ROWS)
    result = engine.run(Statement("SELECT * FROM t"))
    assert result.column_names == ROWS.column_names
    assert result.to_pylist() == ROWS.to_pylist()
    types = {field.name: field.type for field in result.schema}
    assert (types["v"], types["n"], types["i"]) == (pa.float64(), pa.int64(), pa.int32())


def test_registered_table_is_replaced_and_removed(engine: StatementEngine) -> None:
    engine.register("t", ROWS)
    assert engine.run(SUM).to_pylist() == [{"s": 3}]
    engine.register("t", ROWS.slice(0, 1))
    assert engine.run(SUM).to_pylist() == [{"s": 1}]
    engine.unregister("t")
    with pytest.raises((SparkRequired, PySparkException)):
        engine.run(SUM)


def test_tables_and_views_of_a_statement_end_with_it(engine: StatementEngine) -> None:
    views = {"w": "SELECT n + 1 AS n FROM t", "t2": "SELECT n * 10 AS n FROM w"}
    text = "SELECT CAST(sum(w.n + t2.n) AS BIGINT) AS s FROM w JOIN t2 ON t2.n = w.n * 10"
    assert engine.run(Statement(text, {"t": ROWS}, views)).to_pylist() == [{"s": 55}]
    for name in ("t", *views):
        with pytest.raises((SparkRequired, PySparkException)):
            engine.run(Statement(f"SELECT * FROM {name}"))


def test_view_is_computed_once(engine: StatementEngine) -> None:
    random = "random()" if isinstance(engine, DuckDBStatements) else "rand()"
    statement = Statement(
        "SELECT a.r = b.r AS equal FROM w AS a CROSS JOIN w AS b",
        views={"w": f"SELECT {random} AS r"},
    )
    assert engine.run(statement).to_pylist() == [{"equal": True}]


def test_statement_over_its_time_limit_is_cancelled_and_the_next_runs(
    engine: StatementEngine,
) -> None:
    with pytest.raises(StatementTimeout, match="exceeded its time limit of 1 s of processor time"):
        engine.run(endless(engine), time_limit=1.0)
    assert engine.run(Statement("SELECT 1 AS n"), time_limit=60.0).to_pylist() == [{"n": 1}]


def test_statement_is_interrupted_from_another_thread(engine: StatementEngine) -> None:
    engine.register("t", ROWS)  # starts the session
    finished = threading.Event()

    def interrupt() -> None:
        while not finished.wait(0.5):
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises((Cancelled, PySparkException, Py4JJavaError)):
            engine.run(endless(engine))
    finally:
        finished.set()
        thread.join()
    assert engine.run(SUM).to_pylist() == [{"s": 3}]


def test_failing_statement_leaves_nothing_behind(engine: StatementEngine) -> None:
    with pytest.raises((SparkRequired, PySparkException)):
        engine.run(Statement("SELECT missing FROM t", {"t": ROWS}))
    with pytest.raises((SparkRequired, PySparkException)):
        engine.run(SUM)
