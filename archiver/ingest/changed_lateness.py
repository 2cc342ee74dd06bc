"""A greater `lateness` does not move watermarks back: what was settled stays settled."""

import sql
from archiver.ingest.watermarks import watermark
from archiver.ingest.writer import ArchiveWriter
from archiver.times import Micros, duration_to_micros
from sql.archive import LatenessGateway


def hold_watermarks(archive: ArchiveWriter, connection: sql.Connection) -> None:
    """Advance the streams whose `lateness` has grown to their watermark before, and store it."""
    gateway = LatenessGateway(connection)
    before = gateway.list_all()
    stream_advances: dict[str, Micros] = {}
    partition_advances: dict[tuple[str, str], Micros] = {}
    lateness = {
        stream: duration_to_micros(table.schema.lateness)
        for stream, table in archive.tables.items()
    }
    for stream, present in lateness.items():
        previous = before.get(stream)
        if previous is None or previous >= present:
            continue
        partitions = archive.partitions.get(stream, {})
        mark = watermark(archive.progress[stream], partitions, previous)
        if mark is not None:
            stream_advances[stream] = mark
        for name, partition in partitions.items():
            partition_mark = partition.progress.watermark(previous)
            if partition_mark is not None:
                partition_advances[stream, name] = partition_mark
    if stream_advances:
        archive.advance(stream_advances)
    if partition_advances:
        archive.advance_partitions(partition_advances)
    gateway.put(lateness)
