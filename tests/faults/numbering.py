"""A process that archives numbered events in small commits, while their files are compacted and
vacuumed, until it is killed.
"""

from itertools import cycle
from pathlib import Path

import pyarrow as pa

from archiver.chunks.maintenance import ChunkMaintenance
from archiver.delta.sequenced_table import EVENTS, SequencedTable

# Longer than a commit takes on a busy machine: what is not committed yet is no part of the table
# either.
RETENTION = 5.0
# Events of a chunk.
CHUNK = 500


def rows(after: int, last: int) -> pa.Table:
    """Events with the numbers beyond one up to another."""
    numbers = range(after + 1, last + 1)
    texts = {
        name: [f"{name} {n % 3}" for n in numbers]
        for name in ("rule", "version", "key", "attributes")
    }
    ts = pa.array([n * 1000 for n in numbers], pa.timestamp("us", tz="UTC"))
    parts = pa.array([n // CHUNK for n in numbers], pa.int32())
    return pa.table({"ts": ts, "eid": [str(n) for n in numbers], **texts, "chunk": parts})


def main(root: Path) -> None:
    """Until killed."""
    ChunkMaintenance(root, [], RETENTION, (EVENTS,))
    table = SequencedTable(root, EVENTS)
    last = table.last_number()
    for count in cycle((1, 7, 2, 30)):
        table.append(rows(last, last + count), last, last + count)
        last += count
