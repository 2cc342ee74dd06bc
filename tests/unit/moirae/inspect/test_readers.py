"""Other readers of the tables: each reads what the table lists, or says what it cannot."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta.table import StreamTable
from moirae.inspect.finding import Finding
from moirae.inspect.readers import check_readers, list_readers, select_chunks
from tests.unit.archiver.delta.test_table import SCHEMA, rows


def check(table: StreamTable) -> dict[str, Finding]:
    return {finding.check.rpartition(" ")[2]: finding for finding in check_readers("s", table)}


def test_installed_readers_read_each_layout(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    assert all(not finding.problems for finding in check(table).values())
    table.append(rows(range(3)), 1)
    table.append(rows(range(3, 6), chunk=1), 2)
    wider = StreamTable(tmp_path, replace(SCHEMA, columns={**SCHEMA.columns, "new": "double"}))
    wider.declare()
    new_rows = rows(range(6, 9), chunk=2)
    wider.append(new_rows.append_column("new", pa.nulls(3, pa.float64())), 3)
    assert select_chunks(wider) == [2, 1]
    findings = check(wider)
    assert list(findings) == list(list_readers())
    assert all(not finding.problems for finding in findings.values()), findings
    assert findings["DuckDB"].summary == "2 chunks read"


def test_file_of_another_type_is_a_problem_of_each_reader(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(3)), 1)
    path = table.data_folder / table.data_files()[0].path
    damaged = pq.ParquetFile(path).read()
    halves = pa.array([0.5, 1.5, 2.5])
    pq.write_table(damaged.set_column(damaged.column_names.index("n"), "n", halves), path)
    findings = check(table)
    assert findings["delta-rs"].problems and findings["pandas"].problems
    assert findings["DuckDB"].problems == ["chunk 0: column n is DOUBLE in files, not BIGINT"]
