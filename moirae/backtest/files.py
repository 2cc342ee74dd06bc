"""Files in place of the archive of a workspace, as a back-test reads them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.clock import utc_now
from archiver.times import duration_to_micros, to_micros
from moirae.backtest.archive import BacktestArchive
from moirae.config import Settings, stream_schema
from moirae.errors import Problem, ProblemsError, UsageError
from moirae.history import PastFinder, RelationVersions
from moirae.rule_tests import read_stream_file, write_archive

# No rows come after those of files: what waits for later rows is over.
_END_OF_INPUT = duration_to_micros(timedelta(days=400))


def open_files(
    settings: Settings,
    read_relation: Callable[[str], pa.Table],
    spark: SparkSession,
    files: Mapping[str, Sequence[Path]],
    folder: Path,
) -> BacktestArchive:
    """An archive of the rows of files, by stream, in a folder. All of them are in time.

    `read_relation`: see `RelationVersions`. Raises `ProblemsError` with refused lines, and
    `UsageError` for streams that are not declared.
    """
    schemas = [stream_schema(*item) for item in settings.streams.items()]
    rows = {stream: _read(settings, stream, paths) for stream, paths in files.items()}
    reader = write_archive(folder, schemas, rows)
    columns = {name: relation.columns for name, relation in settings.relations.items()}
    relations = RelationVersions(read_relation, frozenset(columns), columns)
    finder = PastFinder(spark, reader, relations, settings.recall.engine)
    archive = BacktestArchive.create(finder, reader, {})
    end = max(archive.newest.values(), default=0) + _END_OF_INPUT
    watermarks = dict.fromkeys(reader.streams, end)
    return BacktestArchive.create(finder, reader, watermarks, has_alerts=False)


def _read(settings: Settings, stream: str, paths: Sequence[Path]) -> pa.Table:
    declared = settings.streams.get(stream)
    if declared is None:
        names = ", ".join(settings.streams)
        raise UsageError(f"no stream {stream!r} in {settings.file.name}; streams are {names}")
    schema = stream_schema(stream, declared)
    now = to_micros(utc_now())
    problems: list[Problem] = []
    tables: list[pa.Table] = []
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        for part in read_stream_file(schema, declared.source.record_format, path, now):
            tables.append(part.rows)
            if part.problem is not None:
                problems.append(part.problem)
    if problems:
        raise ProblemsError(problems)
    return pa.concat_tables(tables) if tables else schema.arrow_schema().empty_table()
