"""SQL over files that store columns under other names or types, or lack new ones."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader
from recall.statements.duckdb_statements import DuckDBStatements
from recall.statements.file_scan import scan_files
from recall.statements.statement import Statement
from tests.unit.archiver.delta.test_table import SCHEMA, rows


@pytest.mark.parametrize(
    ("columns", "was", "expected"),
    [
        ({"ts": "timestamp", "n": "bigint"}, {}, {"n": [0, 1]}),
        (
            {"ts": "timestamp", "n": "double", "new": "date"},
            {},
            {"n": [0.0, 1.0], "new": [None] * 2},
        ),
        ({"ts": "timestamp", "m": "bigint"}, {"m": "n"}, {"m": [0, 1]}),
    ],
)
def test_columns_are_as_declared(
    tmp_path: Path,
    columns: dict[str, str],
    was: dict[str, str],
    expected: dict[str, list[object]],
) -> None:
    StreamTable(tmp_path, replace(SCHEMA, id=None)).append(rows(range(2)), 1)
    schema = StreamSchema("s", columns, "ts", None, (), timedelta(0), timedelta(0), was=was)
    snapshot = Reader(tmp_path, [schema]).snapshot("s")
    result = DuckDBStatements().run(Statement(f"FROM {scan_files(snapshot)} WHERE NOT _late"))
    assert result.num_rows == 1  # one of the two is late
    names = ", ".join(expected)
    text = f"SELECT {names} FROM {scan_files(snapshot)} ORDER BY ts"
    assert DuckDBStatements().run(Statement(text)).to_pydict() == expected
