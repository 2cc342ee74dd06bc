"""Proposals for documents around rows, and for times that are in one of several fields."""

import json
from pathlib import Path
from typing import Any

from moirae.config import Stream
from moirae.inspect import propose_stream, read_sample

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
