"""Tasks return the rows that any rule needs."""

from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from archiver.delta.data_files import cast_to_fields
from archiver.delta.schema import ARROW_TYPES, StreamSchema
from archiver.delta.table import StreamTable
from archiver.time_range import TimeRange
from moirae.evaluation.index import index_task
from moirae.evaluation.index.index_task import IndexJob, IndexTaskRule, select_rows
from recall.statements import FilePart, FileRows
from tests.inline_jobs import copy
from tests.unit.moirae.evaluation.builders import COLUMNS, START

RULES = (
    IndexTaskRule("SELECT ts, v FROM in_s WHERE host = 'a' AND v > 1", (("v", "double"),)),
    IndexTaskRule(
        "SELECT max(v) AS v, window.end AS ts FROM in_s WHERE host = 'b' "
        "GROUP BY window(ts, '1 minute')",
        (("v", "double"),),
    ),
)


def _job(folder: Path, rules: tuple[IndexTaskRule, ...]) -> tuple[IndexJob, FilePart]:
    schema = StreamSchema("s", COLUMNS, "ts", None, (), timedelta(0), timedelta(0))
    table = StreamTable(folder, schema)
    rows = pa.table(
        {
            "ts": pa.array([START] * 4, ARROW_TYPES["timestamp"]),
            "host": ["a", "a", "b", "c"],
            "v": [1.0, 2.0, 3.0, 4.0],
            "_late": [False] * 4,
            "chunk": pa.array([0] * 4, pa.int32()),
        }
    )
    table.append(cast_to_fields(rows, list(schema.arrow_schema())), 0)
    files = table.data_files()
    rows_of_files = FileRows(table.files, files, TimeRange())
    job = IndexJob(rows_of_files, "in_s", tuple(COLUMNS.items()), rules)
    return copy(job), FilePart(files, TimeRange())


def test_rows_that_match_a_filter_or_may_be_in_a_window_are_returned(tmp_path: Path) -> None:
    table = select_rows(*_job(tmp_path, RULES))
    assert table is not None
    assert table["v"].to_pylist() == [2.0, 3.0]


def test_too_many_rows_or_an_unknown_query_are_left_to_the_driver(tmp_path: Path) -> None:
    with patch.object(index_task, "_MAX_ROWS", 1):
        assert select_rows(*_job(tmp_path / "a", RULES)) is None
    unknown = IndexTaskRule("SELECT ts, v FROM in_s WHERE md5(host) = 'a'", (("v", "double"),))
    assert select_rows(*_job(tmp_path / "b", (unknown,))) is None
