"""Proposals for documents around rows, and for times that are in one of several fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from moirae.config import Stream
from moirae.inspect import propose_stream, read_sample

TEN = "2026-11-20T10:00:00Z"
CLOUDWATCH = {
    "owner": "012345678901",
    "logGroup": "web",
    "logEvents": [
        {"id": "1", "timestamp": 1795168800123, "message": "a"},
        {"id": "2", "timestamp": 1795168800124, "message": "b"},
    ],
}
EVENTS = {
    "kind": "List",
    "items": [
        {"kind": "Event", "lastTimestamp": None, "eventTime": "2026-11-20T10:00:00.5Z"},
        {"kind": "Event", "lastTimestamp": "2026-11-20T10:00:01Z", "eventTime": None},
    ],
}


def _propose(path: Path, content: str) -> tuple[Any, list[dict[str, Any]]]:
    path.write_text(content)
    declaration = propose_stream([path]).declaration
    declared = Stream.model_validate(declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    assert sample.refused_count == 0
    return declaration, list(sample.rows)


def test_texts_around_rows_are_proposed_as_columns(tmp_path: Path) -> None:
    declaration, rows = _propose(tmp_path / "x.json", json.dumps(CLOUDWATCH))
    assert declaration["source"]["records"] == "logEvents"
    assert declaration["source"]["outer"] == ["owner", "logGroup"]
    assert [(row["logGroup"], row["owner"], row["message"]) for row in rows] == [
        ("web", "012345678901", "a"),
        ("web", "012345678901", "b"),
    ]


def test_a_time_in_one_of_two_fields_has_alternatives(tmp_path: Path) -> None:
    declaration, rows = _propose(tmp_path / "x.json", json.dumps(EVENTS))
    assert declaration["columns"]["ts"]["from"] == ["eventTime", "lastTimestamp"]
    assert "outer" not in declaration["source"]
    assert [row["ts"].isoformat() for row in rows] == [
        "2026-11-20T10:00:00.500000+00:00",
        "2026-11-20T10:00:01+00:00",
    ]


def test_times_before_texts_are_no_syslog(tmp_path: Path) -> None:
    lines = '2026-11-20T10:00:00Z starting\n2026-11-20T10:00:01Z {"a":1}\n'
    declaration, rows = _propose(tmp_path / "x.log", lines)
    assert declaration["source"]["format"] == "text"
    assert [row["message"] for row in rows] == ["starting", '{"a":1}']


# Lines of programs, with the time of the first one.
TIMES = {
    "[15-Sep-2021 00:24:29] WARNING: child 40": "2021-09-15T00:24:29+00:00",
    "20-Nov-2026 10:00:00.123 INFO [main] start": "2026-11-20T10:00:00.123000+00:00",
    "[22-03-2021 10:07:32.467] [main] INFO start": "2021-03-22T10:07:32.467000+00:00",
    "22.03.2021 10:07:32 start": "2021-03-22T10:07:32+00:00",
    # Offsets and zones belong to the time.
    "2021-11-11 18:53:12.437 +03,x": "2021-11-11T15:53:12.437000+00:00",
    "2021-11-11 18:53:12.437 UTC [1416] LOG": "2021-11-11T18:53:12.437000+00:00",
    "2021-11-11T18:53:12-0530 x": "2021-11-12T00:23:12+00:00",
    "2021-11-11 18:53:12 - root - INFO": "2021-11-11T18:53:12+00:00",
    "Thu Nov 20 10:00:00 UTC 2025 done": "2025-11-20T10:00:00+00:00",
    # Hours of one digit, half days, and other signs between date and time of day.
    "2026-11-20  5:13:11 8 [Warning] denied": "2026-11-20T05:13:11+00:00",
    "261120  5:13:11 [Warning] denied": "2026-11-20T05:13:11+00:00",
    "[app] 7  - 11/20/2026, 7:32:47 PM    WARN [x] failed": "2026-11-20T19:32:47+00:00",
    "Nov 20, 2026 8:34:08 PM org.x warn": "2026-11-20T20:34:08+00:00",
    "[web] 2026/11/20 - 10:49:33 | 401 |": "2026-11-20T10:49:33+00:00",
    "11/20/2026-10:29:01.860293  [**] [1:2:2] x": "2026-11-20T10:29:01.860293+00:00",
    '10.0.0.1 - - [20/11/2026:10:19:31 -0500] "GET /"': "2026-11-20T15:19:31+00:00",
    "2026:11:20-00:17:45: '10.0.0.1' 2 failed": "2026-11-20T00:17:45+00:00",
    "2026.11.20 14:29:16 LOG3[1]: x": "2026-11-20T14:29:16+00:00",
    "[20/Nov/2026 17:00:45] refused": "2026-11-20T17:00:45+00:00",
    "2026-324T10:22:40,672:DEBUG:x": "2026-11-20T10:22:40.672000+00:00",
}


@pytest.mark.parametrize("line", TIMES)
def test_times_of_programs_are_found_with_their_zones(tmp_path: Path, line: str) -> None:
    _, rows = _propose(tmp_path / "x.log", f"{line}\n" * 3)
    assert rows[0]["ts"].isoformat() == TIMES[line]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_declared(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("sep=;\nts;v\n2026-11-20T10:00:00Z;1\n".encode(encoding))
    declaration = propose_stream([path]).declaration
    assert declaration["source"] == {
        "files": str(path),
        "format": "csv",
        "csv": {"delimiter": ";"},
        "encoding": encoding,
    }


# Documents with their rows at some depth, and the path to these.
DOCUMENTS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "search": (
        {"took": 1, "hits": {"total": {"value": 1}, "hits": [{"_source": {"@timestamp": TEN}}]}},
        "hits.hits",
        {},
    ),
    "metrics of Azure": (
        {
            "value": [
                {"name": {"value": "cpu"}, "timeseries": [{"data": [{"timeStamp": TEN, "v": 1}]}]}
            ]
        },
        "value.timeseries.data",
        {"v": 1},
    ),
    "logs of OTLP": (
        {
            "resourceLogs": [
                {"scopeLogs": [{"logRecords": [{"timeUnixNano": "1795168800000000000"}]}]}
            ]
        },
        "resourceLogs.scopeLogs.logRecords",
        {},
    ),
    "answer of Prometheus": (
        {"data": {"result": [{"metric": {"job": "a"}, "value": [1795168800, "1.5"]}]}},
        "data.result",
        {"metric_job": "a", "value_1": 1.5},
    ),
    "arrays inside rows": (
        {"Records": [{"eventTime": TEN, "resources": [{"ARN": "x"}], "n": 1}]},
        "Records",
        {"n": 1},
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_rows_are_found_where_the_times_are(tmp_path: Path, name: str) -> None:
    document, path, expected = DOCUMENTS[name]
    declaration, rows = _propose(tmp_path / "x.json", json.dumps(document))
    assert declaration["source"]["records"] == path
    assert [row["ts"].isoformat() for row in rows] == ["2026-11-20T10:00:00+00:00"]
    assert {column: rows[0][column] for column in expected} == expected


def test_arrays_without_times_are_parts_of_a_row(tmp_path: Path) -> None:
    declaration, rows = _propose(tmp_path / "x.json", json.dumps({"ts": TEN, "tags": [{"k": "v"}]}))
    assert declaration["source"]["format"] == "jsonl"
    assert [row["tags"] for row in rows] == ['[{"k":"v"}]']


ROWS = [[TEN, "a", 1.5], [TEN.replace("00Z", "01Z"), "b", 2]]


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ("".join(f"{json.dumps(row)}\n" for row in ROWS), None),
        (json.dumps(ROWS), None),
        (json.dumps({"status": "ok", "data": {"columns": ["ts"], "rows": ROWS}}), "data.rows"),
    ],
)
def test_rows_that_are_arrays_have_columns_by_position(
    tmp_path: Path, content: str, path: str | None
) -> None:
    declaration, rows = _propose(tmp_path / "x.json", content)
    assert declaration["source"].get("records") == path
    assert "outer" not in declaration["source"]
    assert declaration["columns"]["ts"] == {"type": "timestamp", "from": "[0]"}
    assert [(row["ts"].second, row["f_1"], row["f_2"]) for row in rows] == [
        (0, "a", 1.5),
        (1, "b", 2.0),
    ]


def test_times_of_net_are_read(tmp_path: Path) -> None:
    lines = "".join(
        f'{{"When":"\\/Date({time})\\/","host":"a"}}\n'
        for time in ("1795168800123", "1795168801123+0100")
    )
    declaration, rows = _propose(tmp_path / "x.jsonl", lines)
    assert declaration["columns"]["ts"] == {"type": "timestamp", "from": "When"}
    assert [row["ts"].isoformat() for row in rows] == [
        "2026-11-20T10:00:00.123000+00:00",
        "2026-11-20T10:00:01.123000+00:00",
    ]


def test_export_of_the_journal_names_the_format_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("__CURSOR=s=1\n__REALTIME_TIMESTAMP=1795168800123456\nMESSAGE=a\n\n")
    with pytest.raises(ValueError, match="`journalctl -o json`"):
        propose_stream([path])


def test_lines_of_containers_that_are_mostly_parts_are_joined(tmp_path: Path) -> None:
    parts = "".join(f"2026-11-20T10:00:00.{number}Z stdout P a\n" for number in range(5))
    declaration, rows = _propose(tmp_path / "0.log", f"{parts}2026-11-20T10:00:01Z stdout F b\n")
    assert declaration["source"]["format"] == "cri"
    assert [row["message"] for row in rows] == ["aaaaab"]
