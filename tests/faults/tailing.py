"""A process that reads growing files as fast as they grow, until killed.

`spark`: executors archive the batches, in this process.
"""

import sys
import time
from pathlib import Path

from archiver.executors import ExecutorIngest
from archiver.ingest.engines import EnginePolicy
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import database
from tests.growing_files import GrowingFileReader
from tests.inline_jobs import InlineJobs


def open_reader(workspace: Path, *, spark: bool, drain: bool = False) -> GrowingFileReader:
    """A reader of the workspace's growing files."""
    settings = load_settings_from_environment(workspace)
    connection = database.connect_database(settings, "tailing")
    reader = GrowingFileReader(workspace.parent, connection, drain=drain)
    if spark:
        engines = reader.archive.engines
        engines.policy = EnginePolicy("spark")
        engines.executors = ExecutorIngest(InlineJobs(), engines.sizes)
    return reader


def main(workspace: Path) -> None:
    """Until killed."""
    reader = open_reader(workspace, spark=(workspace.parent / "spark").exists())
    while True:
        reader.input.update()
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
