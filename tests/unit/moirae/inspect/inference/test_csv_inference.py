"""Proposals for tables of text: header, delimiter, and texts that are no values."""

from pathlib import Path
from typing import Any

import pytest

from moirae.config import Stream
from moirae.inspect import propose_stream, read_sample

# The options of CSV, and the values of the first row by column.
TABLES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "flow log of AWS": (
        "version srcport bytes start end action log-status\n"
        "2 - - 1795168800 1795168860 - NODATA\n2 443 4249 1795168801 1795168861 ACCEPT OK\n",
        {"delimiter": " ", "null_values": ["-"]},
        {"srcport": None, "action": None, "log_status": "NODATA"},
    ),
    "flow log without header": (
        "2 1234 eni-1 10.0.0.1 10.0.0.2 443 6 4249 1795168800 1795168860 OK\n"
        "2 1234 eni-1 10.0.0.1 10.0.0.3 443 6 4249 1795168801 1795168861 OK\n",
        {
            "delimiter": " ",
            "header": False,
            "names": [*(f"column_{n}" for n in range(1, 9)), "time", "column_10", "column_11"],
        },
        {"column_5": "10.0.0.2", "column_8": 4249},
    ),
    "log of CloudFront": (
        "#Version: 1.0\n#Fields: date time sc-bytes cs(Referer)\n"
        "2026-11-20\t10:00:00\t392\t-\n2026-11-20\t10:00:01\t-\tx\n",
        {
            "delimiter": "\t",
            "comment": "#",
            "header": False,
            "names": ["date", "time", "sc-bytes", "cs(Referer)"],
            "null_values": ["-"],
        },
        {"sc_bytes": 392, "cs_Referer": None},
    ),
    "quoted fields that a comment names": (
        "#Version: 1.1\n#Fields: date time cs(User-Agent) sc-status\n"
        '"2026-11-20" "10:00:00" "x (a; b)" "200"\n"2026-11-20" "10:00:01" "y" "404"\n',
        {
            "delimiter": " ",
            "comment": "#",
            "header": False,
            "names": ["date", "time", "cs(User-Agent)", "sc-status"],
        },
        {"cs_User_Agent": "x (a; b)", "sc_status": 200},
    ),
    "fields with other delimiters, without header": (
        "2026-11-20\t10:00:00\tx;y\t1\n2026-11-20\t10:00:01\tx;z\t2\n",
        {"delimiter": "\t", "header": False, "names": ["time", "column_2", "column_3", "column_4"]},
        {"column_3": "x;y", "column_4": 1},
    ),
    "sadf": (
        "# hostname;timestamp;%user\nh;2026-11-20 10:00:00 UTC;1.5\nh;2026-11-20 10:10:00 UTC;2\n",
        {
            "delimiter": ";",
            "comment": "#",
            "header": False,
            "names": ["hostname", "timestamp", "%user"],
        },
        {"hostname": "h", "user": 1.5},
    ),
    "export of a database": (
        "ts,host,v\n2026-11-20T10:00:00Z,NULL,NULL\n2026-11-20T10:00:01Z,NULL,1.5\n",
        {"null_values": ["NULL"]},
        {"v": None},
    ),
    "performance counters": (
        '"(PDH-CSV 4.0) (UTC)(0)","\\\\H\\CPU"\n"11/20/2026 10:00:00.000"," "\n'
        '"11/20/2026 10:00:15.000","12.5"\n',
        {"null_values": [" "]},
        {"H_CPU": None},
    ),
    "rows without header": (
        '2026-11-20 10:00:00 UTC,"db",12,"a ""b""\nc"\n2026-11-20 10:00:01 UTC,"db",13,x\n',
        {"header": False, "names": ["time", "column_2", "column_3", "column_4"]},
        {"column_2": "db", "column_3": 12, "column_4": 'a "b"\nc'},
    ),
    "times without seconds": (
        '"2026-11-20 10:00";"1,5"\n"2026-11-20 10:15";"2,5"\n',
        {"delimiter": ";", "header": False, "names": ["time", "column_2"], "decimal": ","},
        {"column_2": 1.5},
    ),
    "half days": ("Date,Time,v\n11/20/2026,10:00:00 AM,1\n11/21/2026,1:00:00 PM,2\n", {}, {"v": 1}),
    "digits": ("time,v\n20261120100000,1\n20261120100100,2\n", {}, {"v": 1}),
    "nanoseconds": ("t,v\n1795168800000000000,1\n1795168801000000000,2\n", {}, {"v": 1}),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_as_proposed(tmp_path: Path, name: str) -> None:
    content, options, expected = TABLES[name]
    path = tmp_path / "x.csv"
    path.write_text(content)
    declaration = propose_stream([path]).declaration
    assert declaration["source"].get("csv", {}) == options
    declared = Stream.model_validate(declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    assert not sample.refused_count
    row: dict[str, Any] = sample.rows[0]
    assert row["ts"].isoformat() == "2026-11-20T10:00:00+00:00"
    assert {column: row[column] for column in expected} == expected


def test_columns_without_names_and_dates_without_times_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("20261120,100000,1\n20261120,100100,2\n")
    assert (
        "names of the columns, which the file does not have"
        in propose_stream([path]).open_questions
    )
    path.write_text("date,time,v\n20261120,100000,1\n20261120,100100,2\n")
    assert "times of day: date has dates alone" in propose_stream([path]).open_questions


def test_a_text_of_windows_has_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("ts;v\n2026-11-20T10:00:00Z;5 €\n".encode("cp1252"))
    assert propose_stream([path]).declaration["source"]["encoding"] == "cp1252"
    path.write_bytes("ts;v\n2026-11-20T10:00:00Z;é\n".encode("latin-1"))
    assert propose_stream([path]).declaration["source"]["encoding"] == "latin-1"
