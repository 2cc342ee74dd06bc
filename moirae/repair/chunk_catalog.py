"""Chunks of the archive that the catalog lacks, as after a restore of an older database. No I/O."""

from collections.abc import Iterable, Mapping, Sequence

from archiver.chunks import Chunk
from archiver.delta import ChunkFiles
from archiver.times import Micros


def find_unknown_chunks(
    chunks: Sequence[Chunk], tables: Iterable[Mapping[int, ChunkFiles]]
) -> list[tuple[int, Micros]]:
    """Chunks after the newest known one, with the event time at which each begins, in order.

    All rows of a chunk are later than those of the chunks before, so that its oldest row may be its
    beginning.
    """
    newest = max(chunk.id for chunk in chunks)
    oldest: dict[int, Micros] = {}
    for files in tables:
        for chunk, content in files.items():
            if chunk > newest:
                oldest[chunk] = min(content.oldest, oldest.get(chunk, content.oldest))
    return sorted(oldest.items())
