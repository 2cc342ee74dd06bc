"""Formats of records and times in the workspace file."""

from pathlib import Path

import pytest

from archiver.formats import CsvDialect, Format, TimeReading
from tests.unit.moirae.config.workspace_files import STREAM, load, load_problems


def with_source(source: str) -> str:
    return STREAM.replace("{http: true}", source)


def test_formats_have_options(tmp_path: Path) -> None:
    source = "{files: a.log, format: csv, csv: {delimiter: ';', names: [ts], null_values: ['-']}, "
    source += "encoding: UTF8}"
    stream = load(tmp_path, with_source(source)).streams["cpu"]
    dialect = CsvDialect(delimiter=";", names=("ts",), null_values=("-",))
    assert stream.source.record_format == Format("csv", csv=dialect)
    assert stream.identity == "row" and stream.time_reading == TimeReading()


def test_lines_of_logs_are_identified_by_their_place_unless_declared(tmp_path: Path) -> None:
    text = with_source("{files: a.log, format: combined}")
    assert load(tmp_path, text).streams["cpu"].identity == "place"
    text = text.replace("source:", "identity: row\n    source:")
    assert load(tmp_path, text).streams["cpu"].identity == "row"


def test_times_are_declared_in_a_mapping(tmp_path: Path) -> None:
    text = STREAM.replace(
        "time: ts", "time: {column: ts, unit: ms, format: iso, zone: Europe/Rome}"
    )
    stream = load(tmp_path, text).streams["cpu"]
    assert stream.time == "ts"
    assert stream.time_reading == TimeReading("ms", ("iso",), "Europe/Rome")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{http: true}", "{files: a.log}", "set `format` to one of jsonl, json"),
        (
            "{http: true}",
            "{files: a.jsonl, records: items}",
            "`records` is an option of format json",
        ),
        ("{http: true}", "{files: a, format: text, pattern: '(a)'}", "has no named group"),
        (
            "{http: true}",
            "{files: a, format: text, pattern: '(?P<a>x)(b)'}",
            "has a group without a name",
        ),
        ("{http: true}", "{files: a, format: text, pattern: '(?<='}", "regular expression of RE2"),
        ("{http: true}", "{files: a.csv, csv: {delimiter: '\"'}}", "must differ"),
        ("{http: true}", "{files: a.csv, encoding: klingon}", "unknown encoding 'klingon'"),
        ("time: ts", "time: {column: host}", "must be a timestamp"),
        ("time: ts", "time: {column: ts, zone: Mars}", "unknown time zone 'Mars'"),
        ("time: ts", "time: {column: ts, format: '%Q'}", "unknown directive '%Q'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    (problem,) = load_problems(tmp_path, STREAM.replace(old, new))
    assert message in problem
