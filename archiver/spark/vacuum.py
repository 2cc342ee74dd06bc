"""Vacuum of a local Delta table by the delta-spark package."""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

_SETTINGS = {
    # Tasks that list files (default: 10,000, each of them also where nothing is left to list).
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # It may keep less than the property of the table says, which follows later.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


def vacuum_table(session: SparkSession, folder: Path, retention: float) -> None:
    """Delete files that only versions older than `retention` seconds need, or none.

    Files of any writer, also of changes (`_change_data`).
    """
    vacuum_session = session.newSession()
    for name, value in _SETTINGS.items():
        vacuum_session.conf.set(name, value)
    DeltaTable.forPath(vacuum_session, str(folder)).vacuum(retention / 3600)
