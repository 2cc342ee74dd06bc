"""Rows of relation files."""

import pytest

from archiver.formats import CSV, JSONL, Format
from moirae.config.streams import Relation
from moirae.errors import ProblemsError
from moirae.live.sources.relation_rows import identity_columns, parse_rows


def _make_relation(**options: object) -> Relation:
    declared = {
        "columns": {"host": "string", "cores": "bigint", "since": "timestamp"},
        "key": ["host"],
        "source": {"file": "hosts.csv"},
        **options,
    }
    return Relation.model_validate(declared)


def _cores(content: bytes, file_format: Format = CSV) -> dict[str, int]:
    rows = parse_rows("hosts", _make_relation(), file_format, "hosts", content)
    return {row["host"]: row["cores"] for row in rows}


def test_quoted_line_break_is_part_of_the_value() -> None:
    content = b'host,cores,since\n"a\nb",1,\n"c ""d""",2,\n"e\r\nf",3,\r\n'
    assert _cores(content) == {"a\nb": 1, 'c "d"': 2, "e\r\nf": 3}


def test_error_after_a_quoted_line_break_has_the_line_of_the_file() -> None:
    with pytest.raises(ProblemsError, match="hosts:4: column cores: 'x' is not a number"):
        _cores(b'host,cores,since\n"a\nb",1,\nc,x,\n')


def test_quote_that_is_never_closed_is_refused_with_its_line() -> None:
    with pytest.raises(ProblemsError, match="hosts:2: a quoted field has no closing quote"):
        _cores(b'host,cores,since\n"a,1,\nb,2,\n')


def test_quote_inside_a_field_opens_nothing() -> None:
    assert _cores(b'host,cores,since\n5" disk,1,\n6" disk,2,\n') == {'5" disk': 1, '6" disk': 2}


def test_integers_are_exact_or_refused() -> None:
    content = b"host,cores,since\na,9007199254740993.0,\nb,-9223372036854775808,\nc,1e3,\n"
    assert _cores(content) == {"a": 2**53 + 1, "b": -(2**63), "c": 1_000}
    with pytest.raises(ProblemsError, match=r"hosts:1: .* -9223372036854775809 is out of range"):
        _cores(b'{"host": "a", "cores": -9223372036854775809}\n', JSONL)


def test_text_that_is_not_utf_8_is_refused_with_its_line() -> None:
    with pytest.raises(ProblemsError, match="hosts:2: not UTF-8 text"):
        _cores(b"host,cores,since\ncaf\xe9,1,\n")


def test_row_without_its_start_of_validity_is_refused() -> None:
    relation = _make_relation(valid_from="since")
    assert identity_columns(relation) == ["host", "since"]
    with pytest.raises(ProblemsError, match="hosts:2: column since: event time is missing"):
        parse_rows("hosts", relation, CSV, "hosts", b"host,cores,since\na,1,\n")
