"""How far apart the rows of one key of a stream are."""

from datetime import timedelta

from archiver.read import Reader
from archiver.time_range import TimeRange
from archiver.times import Micros, duration_to_micros
from recall.engines import DuckDBStatements, Statement, scan_files

_SAMPLE = duration_to_micros(timedelta(days=1))  # of the newest rows


def find_row_interval(reader: Reader, stream: str, newest: Micros) -> timedelta | None:
    """The median over the last day of rows; None: no key has two rows."""
    schema = reader.schema(stream)
    start = newest - _SAMPLE
    snapshot = reader.snapshot(stream, TimeRange(start))
    if not snapshot.files:
        return None
    time = f'epoch_us("{schema.time}")'
    keys = ", ".join(f'"{column}"' for column in schema.key)
    partition = f"PARTITION BY {keys} " if keys else ""
    text = (
        f"SELECT median(gap) AS gap FROM (SELECT {time} - lag({time}) OVER "
        f"({partition}ORDER BY {time}) AS gap FROM {scan_files(snapshot)} "
        f"WHERE {time} >= {start}) WHERE gap > 0"
    )
    (gap,) = DuckDBStatements().run(Statement(text))["gap"].to_pylist()
    return None if gap is None else timedelta(microseconds=gap)
