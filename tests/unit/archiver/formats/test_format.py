"""Formats and their options."""

import pytest

from archiver.formats import CSV, JSONL, CsvDialect, Format, infer_format_name, landed_format


@pytest.mark.parametrize(
    "record_format",
    [
        JSONL,
        Format(
            "csv", csv=CsvDialect(delimiter=";", names=("a", "b"), header=False, null_values=("-",))
        ),
        Format("text", pattern="(?P<a>.*)", starts_with="x", encoding="utf-16"),
        Format("json", records="items"),
    ],
)
def test_document_of_a_format_is_decoded_again(record_format: Format) -> None:
    assert Format.decode(record_format.encode()) == record_format


@pytest.mark.parametrize(
    ("name", "declared", "expected"),
    [
        ("a.jsonl", Format("combined"), JSONL),
        ("a.combined.gz", Format("combined", encoding="latin-1"), None),
        ("a.csv.zst", JSONL, CSV),
        ("a.json", JSONL, JSONL),
        ("a.json", Format("json", records="items"), None),
    ],
)
def test_landed_batches_have_the_format_of_their_suffix(
    name: str, declared: Format, expected: Format | None
) -> None:
    assert landed_format(name, declared) == (declared if expected is None else expected)


def test_unknown_suffix_names_the_formats() -> None:
    with pytest.raises(ValueError, match="set `format` to one of jsonl, json, csv"):
        infer_format_name("a.log")
