"""A declaration beside what an existing table records."""

from dataclasses import replace
from pathlib import Path

from archiver.delta.declared_table import read_declaration
from archiver.delta.table import StreamTable
from tests.unit.archiver.delta.test_table import SCHEMA, rows


def test_table_is_read_without_being_changed(tmp_path: Path) -> None:
    assert read_declaration(tmp_path, SCHEMA) is None
    narrower = replace(SCHEMA, columns={**SCHEMA.columns, "n": "int"})
    table = StreamTable(tmp_path, SCHEMA)
    declaration = read_declaration(tmp_path, narrower)
    assert declaration is not None and not declaration.problems  # no rows yet
    table.append(rows(range(2)), 1)
    declaration = read_declaration(tmp_path, narrower)
    assert declaration is not None
    assert [problem.path for problem in declaration.problems] == [("columns", "n")]
    same = read_declaration(tmp_path, SCHEMA)
    assert same is not None and same.is_recorded and same.schema == table.schema
    table.refresh()
    assert table.version == 1
