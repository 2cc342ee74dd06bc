"""Rows and refused records of a file."""

from pathlib import Path

from archiver.formats import JSONL
from moirae.config import Stream
from moirae.inspect.stream_sample import SampledRefusal, read_sample


def test_first_rows_and_refused_records_are_shown_and_all_counted(tmp_path: Path) -> None:
    declared = Stream.model_validate(
        {"columns": {"ts": "timestamp", "n": "int"}, "time": "ts", "source": {"http": True}}
    )
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"ts":1,"n":1}\n{"ts":2,"n":"x"}\n{"ts":3,"n":3}\n{"ts":4,"n":"y"}\n')
    sample = read_sample("s", declared, path, JSONL, 1)
    assert [row["n"] for row in sample.rows] == [1]
    assert sample.refused == [
        SampledRefusal(2, "column n: 'x' is not a number", '{"ts":2,"n":"x"}')
    ]
    assert (sample.row_count, sample.refused_count) == (2, 2)
    assert sample.columns == ["ts", "n", "_extra"]
