"""Storage of an archive: a local folder, or S3-compatible object storage with a local cache."""

from archiver.storage.base import (
    LOG_FOLDER,
    LocalStorage,
    Storage,
    StorageRoot,
    as_storage,
    fsync_files,
)
from archiver.storage.file_cache import FileCache
from archiver.storage.object_folder import ObjectFolder
from archiver.storage.objects import ListedObject, ObjectGlob, ObjectPath
from archiver.storage.probe import ProbeResult, list_contested_names, probe_storage
from archiver.storage.s3 import S3Storage

__all__ = [
    "FileCache",
    "LOG_FOLDER",
    "ListedObject",
    "LocalStorage",
    "ObjectFolder",
    "ObjectGlob",
    "ObjectPath",
    "ProbeResult",
    "S3Storage",
    "Storage",
    "StorageRoot",
    "as_storage",
    "fsync_files",
    "list_contested_names",
    "probe_storage",
]
