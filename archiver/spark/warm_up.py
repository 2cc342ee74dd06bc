"""`python -m archiver.spark.warm_up ARCHIVE start|work`: archive the classes that a start of Spark
loads, or typical work.
"""

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

from archiver.spark import NUMBER_SOURCE, session

_BATCH_TIMEOUT = 60.0  # seconds
_WINDOW_QUERY = (
    "SELECT host, window.end AS ts, avg(v) AS v FROM past GROUP BY host, window(ts, '10 seconds')"
)
_FILTER_QUERY = "SELECT host, ts, v FROM new WHERE v > 0"
_HIGHER_ORDER_QUERY = (
    "SELECT explode(filter(array(if(v > 0, named_struct('r', 1), NULL)), x -> true)) FROM new"
)


def main(archive: Path, *, is_work: bool) -> None:
    """Start Spark and stop it; for work, read Delta and Parquet, run batch queries and a stream."""
    options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        spark = session.start_session("warm up", "local[2]", folder / "warehouse", options)
        if is_work:
            _run_queries(spark, folder / "table")
            _run_stream(spark, folder)
        spark.stop()


def _run_queries(spark: SparkSession, table: Path) -> None:
    rows = pa.table({"ts": pa.array([0], pa.timestamp("us", tz="UTC")), "host": ["a"], "v": [1.0]})
    write_deltalake(str(table), rows)
    spark.read.format("delta").load(str(table)).collect()
    parquet_files = map(str, table.glob("*.parquet"))
    past = spark.read.schema("ts timestamp, host string, v double").parquet(*parquet_files)
    past.createOrReplaceTempView("past")
    spark.createDataFrame(rows).createOrReplaceTempView("new")
    spark.sql(f"{_WINDOW_QUERY} UNION ALL {_FILTER_QUERY}").toArrow()
    spark.sql(_HIGHER_ORDER_QUERY).toArrow()


def _run_stream(spark: SparkSession, folder: Path) -> None:
    """Run a Structured Streaming query for two batches."""
    is_processed = threading.Event()

    def process_batch(_frame: DataFrame, _number: int) -> None:
        is_processed.set()

    numbers = spark.readStream.format(NUMBER_SOURCE).option("name", "warm up").load()
    writer = numbers.writeStream.foreachBatch(process_batch)
    query = writer.option("checkpointLocation", str(folder / "state")).start()
    jvm: Any = spark._jvm
    for number in (1, 2):
        jvm.org.moirae.numbers.Numbers.publish("warm up", number)
        is_processed.wait(_BATCH_TIMEOUT)
        is_processed.clear()
    query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_work=sys.argv[2] == "work")
