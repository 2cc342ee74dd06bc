"""Vacuum of a local Delta table by the delta-spark package."""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession


def vacuum_table(session: SparkSession, folder: Path, retention: float) -> None:
    """Delete files that only versions older than `retention` seconds need, or none.

    Files of any writer, also of changes (`_change_data`).
    """
    DeltaTable.forPath(session, str(folder)).vacuum(retention / 3600)
