"""What is not Moirae's to erase, and may hold erased rows still: named for whoever owns it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import sql
from moirae.config import FileSource, KafkaSource, Settings
from moirae.erasure.values import ErasedValues
from sql.archive import ErasureGateway

_SHOWN = 1_000  # names of one kind
_DAMAGED_FOLDER = "damaged"  # of repairs


def list_places(
    settings: Settings,
    connection: sql.Connection,
    units_by_stream: Mapping[str, Collection[int]],
    started_at: datetime,
) -> list[str]:
    """Sources, backups and logs that may hold erased rows, each as a sentence."""
    holders: list[str] = []
    for stream, units in units_by_stream.items():
        holders += _list_sources(settings, connection, stream, units)
    holders += _list_backups(connection, started_at)
    holders += _list_relation_files(settings)
    if (settings.home / _DAMAGED_FOLDER).is_dir():
        holders.append(f"files that a repair has set aside: {settings.home / _DAMAGED_FOLDER}")
    for url in (settings.archive, settings.landing):
        if url is not None and url.startswith("s3://"):
            holders.append(
                f"earlier versions of objects below {url}, if the bucket keeps versions, and parts "
                "of uploads that were killed"
            )
    if settings.database:
        holders.append(
            "the PostgreSQL of the workspace: its write-ahead log and archived segments, replicas, "
            "backups, and its own log; tables are rewritten by VACUUM FULL, and so are its statistics if "
            "the role of the workspace owns the database; otherwise let its owner run VACUUM FULL "
            "pg_statistic"
        )
    holders.append("logs of the processes, where they were collected")
    return holders


def _list_sources(
    settings: Settings, connection: sql.Connection, stream: str, units: Collection[int]
) -> Iterator[str]:
    declared = settings.streams.get(stream)
    source = None if declared is None else declared.source
    names = ErasureGateway(connection).list_source_names(units)
    if isinstance(source, KafkaSource):
        yield f"stream {stream}: Kafka topic {source.kafka.topic}: {_shorten(names)}"
    elif isinstance(source, FileSource):
        yield f"stream {stream}: source files {_shorten(names)}"
        if source.after.startswith("move:"):
            yield f"stream {stream}: files moved to {source.after.removeprefix('move:')}"
    elif names:
        yield f"stream {stream}: whoever sent {_shorten(names)}"


def _list_backups(connection: sql.Connection, started_at: datetime) -> Iterator[str]:
    for destination, names in ErasureGateway(connection).list_backups(started_at).items():
        yield (
            f"backups at {destination} from before: {_shorten(names)}; `moirae restore` erases it "
            "again, and a backup that is not kept any more is gone with its files"
        )


def _list_relation_files(settings: Settings) -> Iterator[str]:
    for name, relation in settings.relations.items():
        yield f"relation {name}: its source {relation.source}"


def find_declared(
    settings: Settings, connection: sql.Connection, values: Collection[str]
) -> set[str]:
    """Of some values, those in the workspace file or in rules: they are declared, not erased."""
    if not values:
        return set()
    texts = [settings.file.read_text(encoding="utf-8")]
    texts += ErasureGateway(connection).list_declarations()
    return ErasedValues(values).find_in(texts)


def find_files(home: Path, values: ErasedValues) -> list[str]:
    """Files of the home, but for archive and database, that hold an erased value as it is."""
    paths: list[str] = []
    skipped = {home / "archive", home / "postgresql", home / _DAMAGED_FOLDER}
    pending = [home]
    while pending:
        with suppress(FileNotFoundError):  # the server, which runs, removes files
            for path in sorted(pending.pop().iterdir()):
                if path in skipped or path.is_symlink():
                    continue
                if path.is_dir():
                    pending.append(path)
                elif _is_file_with(path, values):
                    paths.append(str(path))
    return paths


def _is_file_with(path: Path, values: ErasedValues) -> bool:
    try:
        return path.is_file() and values.search_bytes(path.read_bytes())
    except FileNotFoundError:
        return False


def _shorten(names: Collection[str]) -> str:
    listed = sorted(names)
    text = ", ".join(listed[:_SHOWN])
    return f"{text} and others" if len(listed) > _SHOWN else text
