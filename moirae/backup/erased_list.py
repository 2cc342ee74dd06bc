"""The list of what was erased from a workspace: beside its backups, which may be from before.

It holds the key and keyed hashes of identities, so that a restore finds the rows again.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

import orjson

import sql
from moirae.backup.repository import Repository
from moirae.errors import BackupDamaged
from sql.archive import LISTED, ErasedRowRow, ErasureGateway, ErasureRow

_FORMAT = 1


@dataclass(frozen=True)
class ListedErasure:
    """An erasure. `rows`: its rows by stream."""

    id: UUID
    author: str
    condition_hash: bytes
    rows: dict[str, list[ErasedRowRow]]


@dataclass(frozen=True)
class ErasedList:
    """All erasures of a workspace. `key`: of the hashes."""

    key: bytes
    erasures: list[ListedErasure]

    def encode(self) -> bytes:
        """As JSON."""
        erasures = []
        for erasure in self.erasures:
            rows = {
                stream: sorted({(row.hash.hex(), row.hour) for row in stream_rows})
                for stream, stream_rows in erasure.rows.items()
            }
            erasures.append(
                {
                    "id": str(erasure.id),
                    "author": erasure.author,
                    "condition_hash": erasure.condition_hash.hex(),
                    "rows": rows,
                }
            )
        return orjson.dumps({"format": _FORMAT, "key": self.key.hex(), "erasures": erasures})

    @staticmethod
    def decode(content: bytes) -> "ErasedList":
        """Reverse `encode`. Raises `ValueError` and `KeyError`."""
        document = orjson.loads(content)
        erasures = []
        for erasure in document["erasures"]:
            rows = {
                stream: [
                    ErasedRowRow(bytes.fromhex(hashed), LISTED, 0, hour) for hashed, hour in listed
                ]
                for stream, listed in erasure["rows"].items()
            }
            erasures.append(
                ListedErasure(
                    UUID(erasure["id"]),
                    erasure["author"],
                    bytes.fromhex(erasure["condition_hash"]),
                    rows,
                )
            )
        return ErasedList(bytes.fromhex(document["key"]), erasures)


def store_list(connection: sql.Connection, repository: Repository) -> None:
    """Store beside the backups what was erased, if anything was."""
    gateway = ErasureGateway(connection)
    erasures = [_read_erasure(gateway, row) for row in gateway.list_all()]
    if erasures:
        repository.write_erasures(ErasedList(gateway.get_key(), erasures).encode())


def load_list(connection: sql.Connection, repository: Repository) -> Collection[UUID]:
    """Add what the list beside the backups has to a restored database; returns the new erasures."""
    content = repository.read_erasures()
    if content is None:
        return []
    try:
        erased = ErasedList.decode(content)
    except (KeyError, TypeError, ValueError) as error:
        raise BackupDamaged(f"{repository}/erasures.json: damaged: {error}") from error
    return add_list(connection, erased)


def _read_erasure(gateway: ErasureGateway, row: ErasureRow) -> ListedErasure:
    rows = {stream: gateway.list_rows(stream, row.id) for stream in row.streams}
    return ListedErasure(row.id, row.author, row.condition_hash, rows)


def add_list(connection: sql.Connection, erased: ErasedList) -> Collection[UUID]:
    """Add what a list has and the database does not; returns the new erasures, to be applied."""
    gateway = ErasureGateway(connection)
    known_ids = {row.id for row in gateway.list_all()}
    new_erasures = [erasure for erasure in erased.erasures if erasure.id not in known_ids]
    if not new_erasures:
        return []
    with connection.transaction():
        gateway.put_key(erased.key)
        for erasure in new_erasures:
            gateway.start(
                erasure.id, erasure.author, erasure.condition_hash, erasure.rows, state="listed"
            )
            for stream, rows in erasure.rows.items():
                gateway.add_rows(erasure.id, stream, rows)
    return [erasure.id for erasure in new_erasures]
