"""Watermarks and newest event time of streams."""

from datetime import datetime

from archiver.clock import utc_now
from archiver.ingest import ArchiveWriter
from archiver.times import Micros, from_micros


def get_watermarks(archive: ArchiveWriter) -> dict[str, Micros | None]:
    """The watermark of each stream; None for a stream without rows."""
    streams = archive.tables.keys()
    return dict(zip(streams, map(archive.watermark, streams), strict=True))


def newest_event_time(archive: ArchiveWriter) -> Micros | None:
    """The newest event time of the declared streams, of rows ahead too; None: they have no rows."""
    newest = (archive.progress[stream].newest for stream in archive.tables)
    return max((time for time in newest if time is not None), default=None)


def newest_time_not_ahead(archive: ArchiveWriter) -> Micros | None:
    """The newest event time that is not ahead of the clock; None: the archive is empty."""
    times = map(archive.current_event_time, archive.tables)
    return max((time for time in times if time is not None), default=None)


def current_event_time(archive: ArchiveWriter) -> datetime:
    """The newest event time not ahead of the clock; the present time while the archive is empty."""
    newest = newest_time_not_ahead(archive)
    return utc_now() if newest is None else from_micros(newest)
