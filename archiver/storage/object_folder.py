"""A folder of objects that processes add to and take from: listed, put, deleted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from archiver.errors import StorageFailed
from archiver.storage import objects
from archiver.storage.objects import ListedObject, ObjectPath
from archiver.storage.s3_errors import summarize_error

_MULTIPART_SIZE = 32 << 20  # bytes; larger objects are uploaded in parts


@dataclass(frozen=True)
class ObjectFolder:
    """The objects below a URL, `s3://bucket/prefix`."""

    url: str

    def list(self, subfolder: str = "") -> Iterator[ListedObject]:
        """The objects at any depth below, in the order of their names. Raises `StorageFailed`."""
        bucket, key = objects.split_url(self.url)
        prefix = f"{key}/{subfolder}".strip("/")
        try:
            for page in obstore.list(objects.open_bucket(bucket), f"{prefix}/"):
                for metadata in page:
                    path = ObjectPath(f"s3://{bucket}/{metadata['path']}")
                    yield ListedObject(path, metadata["last_modified"], metadata["size"])
        except (BaseError, OSError) as error:
            raise StorageFailed(f"{self.url}: {summarize_error(str(error))}") from None

    def put(self, name: str, file: BinaryIO, size: int) -> None:
        """Store the content of a file; it is durable then. Raises `OSError`."""
        store, key = self._locate(name)
        try:
            obstore.put(store, key, file, use_multipart=size > _MULTIPART_SIZE)
        except BaseError as error:
            raise objects.to_os_error(error) from None

    def delete(self, name: str) -> None:
        """Delete an object if it exists. Raises `OSError`."""
        store, key = self._locate(name)
        try:
            obstore.delete(store, key)
        except NotFoundError:
            return
        except BaseError as error:
            raise objects.to_os_error(error) from None

    def _locate(self, name: str) -> tuple[S3Store, str]:
        bucket, key = objects.split_url(f"{self.url}/{name}")
        return objects.open_bucket(bucket), key
