"""How long input waits to be archived."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

import sql
from archiver.clock import utc_now
from archiver.errors import StorageFailed
from moirae.config import FileSource, KafkaSource, Settings
from moirae.inspect.report import UnreadInputStatus
from moirae.runtime.storage import Landings
from sql.archive import UnitGateway, UnreadInputGateway


def list_unread_input(connection: sql.Connection, now: datetime) -> list[UnreadInputStatus]:
    """The streams with unread input as the live process last saw it, the longest wait first."""
    return [
        _describe(row.stream, row.oldest_at, row.checked_at, now)
        for row in UnreadInputGateway(connection).list_all()
    ]


def measure_unread_input(
    settings: Settings,
    connection: sql.Connection,
    stored: Sequence[UnreadInputStatus],
    processes: Sequence[Mapping[str, Any]],
) -> list[UnreadInputStatus]:
    """What `list_unread_input` returned, while a live process looks for input.

    Else what it stored last may have been archived since: streams with files on this machine are
    looked at here, and the others keep what is stored.
    """
    if any(_looks_for_input(process) for process in processes):
        return list(stored)
    now = utc_now()
    unread = {row["stream"]: row for row in stored if not _is_seen_here(settings, row["stream"])}
    for stream, seconds in _find_oldest(settings, connection).items():
        oldest_at = datetime.fromtimestamp(seconds, UTC)
        if stream not in unread or oldest_at < unread[stream]["oldest_at"]:
            unread[stream] = _describe(stream, oldest_at, now, now)
    return sorted(unread.values(), key=lambda row: row["oldest_at"])


def _looks_for_input(process: Mapping[str, Any]) -> bool:
    """Whether a process is the live process, after its start."""
    is_live = process["role"] == "live" and process["alive"]
    return bool(is_live and process["state"] != "starting")


def _is_seen_here(settings: Settings, stream: str) -> bool:
    """Whether all input of a stream lies in files of this machine, so that stored times are older."""
    declared = settings.streams.get(stream)
    if declared is None or isinstance(declared.source, KafkaSource):
        return False
    return not (isinstance(declared.source, FileSource) and declared.source.is_in_object_storage)


def _find_oldest(settings: Settings, connection: sql.Connection) -> dict[str, float]:
    """By stream, when the oldest unread file or batch of this machine arrived, in seconds."""
    # Loaded here: they import Spark, for which the status of a running workspace need not wait.
    from moirae.live.sources import LandingFolders, arrived_at
    from moirae.live.sources.discovery import FolderDiscovery

    find_archived = UnitGateway(connection).finished_names
    oldest: dict[str, float] = {}
    landing_folders = LandingFolders(Landings.of(settings), settings.streams)
    with suppress(StorageFailed):  # of object storage: the status of the rest is shown
        for stream in settings.streams:
            for unit in islice(landing_folders.list_units(stream), 1):
                assert unit.arrived_at is not None
                oldest[stream] = unit.arrived_at
    for stream, declared in settings.streams.items():
        if not isinstance(declared.source, FileSource) or declared.source.is_in_object_storage:
            continue
        discovery = FolderDiscovery(
            stream, declared.source.files, settings.file.parent, partial(find_archived, stream)
        )
        times = list(map(arrived_at, discovery.find_new()))
        if times:
            oldest[stream] = min([*times, oldest.get(stream, times[0])])
    return oldest


def _describe(
    stream: str, oldest_at: datetime, checked_at: datetime, now: datetime
) -> UnreadInputStatus:
    return UnreadInputStatus(
        stream=stream,
        oldest_at=oldest_at,
        waiting_seconds=max(0.0, (now - oldest_at).total_seconds()),
        checked_at=checked_at,
    )
