"""Names of batches that `moirae ingest` writes."""

from pathlib import Path

import pytest

from moirae.cli.ingest import InputFormat, _batch_stem, _batch_suffix, _format_accounting
from moirae.errors import UsageError


@pytest.mark.parametrize(
    ("name", "stem"),
    [("-", "stdin"), ("in/cpu 1.csv.gz", "cpu_1"), ("a.b.jsonl", "a_b"), ("x" * 99, "x" * 60)],
)
def test_batch_is_named_after_its_file(name: str, stem: str) -> None:
    assert _batch_stem(name) == stem


@pytest.mark.parametrize(
    ("name", "input_format", "suffix"),
    [
        ("a.csv.gz", None, ".csv.gz"),
        ("a.jsonl", None, ".jsonl"),
        ("a.txt", InputFormat.CSV, ".csv"),
        ("a.txt.gz", InputFormat.JSONL, ".jsonl.gz"),
    ],
)
def test_suffix_states_format_and_compression(
    tmp_path: Path, name: str, input_format: InputFormat | None, suffix: str
) -> None:
    (tmp_path / name).touch()
    assert _batch_suffix(str(tmp_path / name), input_format) == suffix


def test_standard_input_is_jsonl_by_default() -> None:
    assert _batch_suffix("-", None) == ".jsonl"
    assert _batch_suffix("-", InputFormat.CSV) == ".csv"


def test_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(UsageError, match="no such file"):
        _batch_suffix(str(tmp_path / "b.csv"), None)
    with pytest.raises(UsageError, match="unknown suffix: add --format"):
        _batch_suffix(str(tmp_path / "a.txt"), None)


def test_accounting_points_to_dead_letters() -> None:
    counts = {"read": 8, "archived": 6, "duplicates": 1, "dead_lettered": 1}
    assert _format_accounting(counts, "cpu") == (
        "8 read, 6 archived, 1 duplicate, 1 dead letter "
        "(see `moirae dead-letters list --stream cpu`)"
    )
    counts = {"read": 6, "archived": 6, "duplicates": 0, "dead_lettered": 0}
    assert _format_accounting(counts, "cpu") == "6 read, 6 archived, 0 duplicates, 0 dead letters"
