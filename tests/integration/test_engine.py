"""Spark as installed: local, quiet, in UTC, and stopped with its process."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from archiver.errors import NotInstalled
from archiver.spark import session
from archiver.spark.paths import JARS

pytestmark = pytest.mark.services

TS = datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)
ROWS = pa.table(
    {
        "ts": pa.array([TS, TS.replace(second=1)], pa.timestamp("us", tz="UTC")),
        "host": ["a", "ü"],
        "value": [1.5, None],
    }
)
LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Delta table that Spark did not write."""
    write_deltalake(tmp_path / "table", ROWS)
    return tmp_path / "table"


@pytest.mark.slow
def test_spark_reads_tables_of_deltalake(spark: SparkSession, table: Path) -> None:
    assert (
        spark.read.format("delta").load(str(table)).orderBy("ts").toArrow().to_pylist()
        == ROWS.to_pylist()
    )


def test_listed_files_have_the_rows_of_the_table(spark: SparkSession, table: Path) -> None:
    files = DeltaTable(table).file_uris()
    frame = spark.read.schema("ts timestamp, host string, value double").parquet(*files)
    assert frame.orderBy("ts").toArrow().to_pylist() == ROWS.to_pylist()


def test_deltalake_reads_tables_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS)
    for _ in range(2):
        frame.write.format("delta").mode("append").save(str(tmp_path / "table"))
    assert len(DeltaTable(tmp_path / "table").to_pyarrow_table()) == 2 * len(ROWS)


def test_time_is_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark._jvm is not None
    assert spark._jvm.java.util.TimeZone.getDefault().getID() == "UTC"
    assert spark.sql("SELECT date_format(timestamp '2026-03-29 02:30:00', 'HH')").first() == ("02",)


def test_class_path_is_local(spark: SparkSession) -> None:
    conf = dict(spark.sparkContext.getConf().getAll())
    assert not {"spark.jars.packages", "spark.jars.repositories", "spark.jars.ivy"} & conf.keys()
    jars = [Path(path) for path in conf["spark.driver.extraClassPath"].split(":")]
    assert all(jar.parent == JARS and jar.is_file() for jar in jars)


def test_spark_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark._jvm is not None
    jvm = psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())
    listening = [c for c in jvm.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    addresses = {connection.laddr.ip for connection in listening}
    assert addresses
    assert addresses <= LOOPBACK


def test_sql_reaches_no_files(spark: SparkSession, table: Path) -> None:
    for statement in (f"SELECT * FROM delta.`{table}`", "SELECT * FROM text.`/etc/hostname`"):
        with pytest.raises(
            Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
        ):
            spark.sql(statement).collect()


def test_streaming_query_resumes_at_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    seen: list[tuple[int, str]] = []

    def batch(frame: DataFrame, number: int) -> None:
        seen.extend((number, row.value) for row in frame.collect())

    for name in ("first", "second"):
        (landing / name).write_text(f"{name}\n")
        stream = spark.readStream.text(str(landing)).writeStream.foreachBatch(batch)
        stream = stream.option("checkpointLocation", str(tmp_path / "state")).trigger(
            availableNow=True
        )
        stream.start().awaitTermination()
    assert seen == [(0, "first"), (1, "second")]
    leftovers = [
        path.name
        for path in (tmp_path / "state" / "commits").iterdir()
        if not path.name.startswith(".")
    ]
    assert sorted(leftovers) == ["0", "1"]


def test_missing_jars_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "JARS", tmp_path)
    with pytest.raises(NotInstalled, match="moirae setup"):
        session.jar_settings("local[2]")


def test_spark_leaves_the_interrupt_handler_alone(spark: SparkSession) -> None:
    # A shell starts background jobs with SIGINT ignored, which Spark leaves as it is, too.
    handler = signal.getsignal(signal.SIGINT)
    assert handler in (signal.default_int_handler, signal.SIG_IGN)


CHILD = """
import sys, time
from pathlib import Path
from archiver.spark import start_session
spark = start_session("child", "local[1]", Path(sys.argv[1]), {}, "short")
print(spark._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
for line in sys.stdin:
    print(spark.range(3).count(), flush=True)
"""


@pytest.mark.slow
def test_jvm_survives_an_interrupt_but_not_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        java = psutil.Process(int(child.stdout.readline()))
        java.send_signal(signal.SIGINT)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "3\n"
        child.kill()
        _, alive = psutil.wait_procs([java], timeout=10)
        assert not alive
