"""The list beside the backups has the keyed hashes of erased rows, and where they were read not."""

from uuid import UUID

from moirae.backup.erased_list import ErasedList, ListedErasure
from sql.archive import LISTED, ErasedRowRow


def test_list_is_read_as_it_was_written() -> None:
    erasure = ListedErasure(
        UUID(int=7), "ann", b"c" * 16, {"cpu": [ErasedRowRow(b"h" * 16, 3, 9, 490_000)]}
    )
    decoded = ErasedList.decode(ErasedList(b"k" * 32, [erasure]).encode())
    assert decoded.key == b"k" * 32
    (listed,) = decoded.erasures
    assert (listed.id, listed.author, listed.condition_hash) == (UUID(int=7), "ann", b"c" * 16)
    assert listed.rows == {"cpu": [ErasedRowRow(b"h" * 16, LISTED, 0, 490_000)]}
