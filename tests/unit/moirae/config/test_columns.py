"""Columns with a field that they are read from, or a name before."""

from pathlib import Path

import pytest

from moirae.config.table_schemas import stream_schema
from tests.unit.moirae.config.workspace_files import STREAM, load, load_problems


def test_long_form_is_a_type_with_field_and_name_before(tmp_path: Path) -> None:
    columns = "host: {type: STRING, from: host.name}, v: {type: long, was: w}, n: {type: int}"
    stream = load(tmp_path, STREAM.replace("host: string", columns)).streams["cpu"]
    assert stream.columns == {"ts": "timestamp", "host": "string", "v": "bigint", "n": "int"}
    schema = stream_schema("cpu", stream)
    assert schema.fields == {"host": ("host.name",), "v": ("v", "w")}
    assert schema.was == {"v": "w"}
    assert stream.field_names == ["ts", "host.name", "v", "n"]


def test_relations_have_the_same_columns(tmp_path: Path) -> None:
    relation = (
        "relations:\n  hosts:\n    columns: {host: {type: string, from: name}}\n"
        "    key: [host]\n    source: {file: hosts.csv}\n"
    )
    assert load(tmp_path, STREAM + relation).relations["hosts"].fields == {"host": ("name",)}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("h: {was: g}", "streams.cpu.columns.h: missing key 'type'"),
        ("h: {type: strin}", "streams.cpu.columns.h.type: unknown column type 'strin', did you"),
        (
            "h: {type: int, form: a}",
            "streams.cpu.columns.h: unknown key 'form', did you mean 'from'",
        ),
        ("h: [int]", "streams.cpu.columns.h: must be one of boolean, int"),
        ("h: {type: int, was: ts}", "streams.cpu.columns.h.was: column 'ts' is still declared"),
        (
            "h: {type: int, was: g}, i: {type: int, was: g}",
            "streams.cpu.columns.i.was: column 'h' was 'g', too",
        ),
    ],
)
def test_invalid_columns_are_refused(tmp_path: Path, column: str, message: str) -> None:
    problems = load_problems(tmp_path, STREAM.replace("host: string", f"host: string, {column}"))
    assert any(message in problem for problem in problems), problems
