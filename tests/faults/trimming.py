"""A process that archives and trims revisions without a pause, to be killed."""

from datetime import timedelta
from pathlib import Path

from moirae.config.settings import load_settings_from_environment
from moirae.runtime import database, storage
from recall.ledger.revision_archive import RevisionArchive


def main(workspace: Path) -> None:
    settings = load_settings_from_environment(workspace)
    with database.connect_database(settings, "trimming") as connection:
        archive = RevisionArchive(connection, storage.open_storage(settings), 0.0, timedelta(0))
        while True:
            archive.flush()
            archive.trim()
