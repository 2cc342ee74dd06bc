"""Finds the files of streams that the ledger does not have, in folders and in object storage."""

from moirae.live.sources.discovery.batches import FileBatches
from moirae.live.sources.discovery.changed_files import ChangedFiles
from moirae.live.sources.discovery.folders import FolderDiscovery
from moirae.live.sources.discovery.objects import ObjectDiscovery
from moirae.live.sources.discovery.recorded_versions import RecordedVersions
from moirae.live.sources.discovery.renamed_files import RenamedFiles

__all__ = [
    "ChangedFiles",
    "FileBatches",
    "FolderDiscovery",
    "ObjectDiscovery",
    "RecordedVersions",
    "RenamedFiles",
]
