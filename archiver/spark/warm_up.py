"""`python -m archiver.spark.warm_up ARCHIVE`: does once what a start does, so that its classes can be shared."""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame

from archiver.spark import session


def main(archive: Path) -> None:
    """Start, read Delta and Parquet, judge a filter and a window, run two micro-batches, end."""
    options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
    with tempfile.TemporaryDirectory() as work:
        spark = session.start_session("warm up", "local[2]", Path(work) / "warehouse", options)
        rows = pa.table(
            {"ts": pa.array([0], pa.timestamp("us", tz="UTC")), "host": ["a"], "v": [1.0]}
        )
        write_deltalake(f"{work}/table", rows)
        spark.read.format("delta").load(f"{work}/table").collect()
        parquet = [str(path) for path in Path(work, "table").glob("*.parquet")]
        spark.read.schema("ts timestamp, host string, v double").parquet(
            *parquet
        ).createOrReplaceTempView("past")
        spark.createDataFrame(rows).createOrReplaceTempView("new")
        window = "SELECT host, window.end AS ts, avg(v) AS v FROM past GROUP BY host, window(ts, '10 seconds')"
        spark.sql(f"{window} UNION ALL SELECT host, ts, v FROM new WHERE v > 0").toArrow()
        spark.sql(
            "SELECT explode(filter(array(if(v > 0, named_struct('r', 1), NULL)), x -> true)) FROM new"
        ).toArrow()
        landing = Path(work) / "landing"
        landing.mkdir()
        (landing / "a.jsonl").write_text("{}\n")
        files = spark.readStream.format("binaryFile").schema(
            "path string, modificationTime timestamp, length long, content binary"
        )

        def batch(frame: DataFrame, _: int) -> None:
            frame.select("path").collect()

        stream = (
            files.load(str(landing))
            .writeStream.foreachBatch(batch)
            .option("checkpointLocation", f"{work}/state")
        )
        stream.trigger(availableNow=True).start().awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
