"""Records of text files."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.errors import SourceDamaged
from archiver.formats import CSV, JSONL, Format
from archiver.ingest.text_records import TextRecord, split_records


def test_blank_lines_and_byte_order_mark_are_left_out() -> None:
    content = b"\xef\xbb\xbfa,b\r\n\r\n  \n1,2\n"
    assert split_records(content, CSV) == [TextRecord(1, b"a,b"), TextRecord(4, b"1,2")]


def test_quoted_line_breaks_join_lines_of_csv_only() -> None:
    content = b'"a\nb",1\n2\n'
    assert split_records(content, CSV) == [TextRecord(1, b'"a\nb",1'), TextRecord(3, b"2")]
    assert [record.line for record in split_records(content, JSONL)] == [1, 2, 3]


@given(
    st.lists(
        st.lists(st.text(alphabet='ab,"\n\r;'), min_size=2, max_size=3).filter(
            lambda row: any(field.strip() for field in row)
        )
    )
)
def test_each_row_of_a_csv_writer_is_a_record(rows: list[list[str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    records = split_records(text.getvalue().encode(), CSV)
    assert [next(csv.reader([record.text.decode()])) for record in records] == rows


def test_documents_of_one_line_are_divided() -> None:
    records = split_records(b"[{},{}]{}", Format("json"))
    assert [record.text for record in records] == [b"{}", b"{}", b"{}"]
    with pytest.raises(SourceDamaged):
        split_records(b"[{},{", Format("json"))
