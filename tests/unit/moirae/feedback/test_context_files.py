"""Files of alerts, groups, labels and judgements: what is read, and the place of errors."""

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from archiver.times import from_micros
from moirae.errors import MoiraeError
from moirae.feedback.context_files import (
    read_alerts,
    read_groups,
    read_judgements,
    read_labels,
    read_resolutions,
)

ALERT: dict[str, Any] = {
    "event_id": "e1",
    "event_type": "t",
    "ts": "1970-01-01T01:00:00+01:00",
    "host": "h",
    "facts": {"user=u1": 2},
}


def test_alert_is_read_with_its_time_in_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(orjson.dumps({**ALERT, "ts": "1970-01-01T01:00:01+01:00"}))
    (alert,) = read_alerts(path)
    assert (alert.event_id, alert.event_type, alert.ts) == ("e1", "t", 1_000_000)
    assert (alert.term_counts, alert.location, alert.group) == ({"user=u1": 2}, "h", None)


def test_alert_without_host_has_no_location(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(orjson.dumps({**ALERT, "host": None}))
    (alert,) = read_alerts(path)
    assert alert.location is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "is not valid JSON: "),
        (b"[1]", "must be a JSON object"),
        ({"event_id": 7}, "event_id must be a non-empty string"),
        ({"event_id": "e1"}, "duplicate event_id 'e1', first used in line 1"),
        ({"event_type": ""}, "event_type must be a non-empty string"),
        ({"ts": "yesterday"}, "invalid timestamp 'yesterday': write it as 2024-05-01T12:30:00Z"),
        ({"ts": "2024-05-01T00:00:00"}, "timestamp '2024-05-01T00:00:00' has no time zone"),
        ({"facts": ["a"]}, "facts must be an object of terms and counts"),
        ({"facts": {"a=1": 0}}, "the count of 'a=1' must be a positive integer"),
        ({"facts": {"a=1": True}}, "the count of 'a=1' must be a positive integer"),
        ({"facts": {"a=1": 1.5}}, "the count of 'a=1' must be a positive integer"),
    ],
)
def test_invalid_line_is_reported_with_its_number(
    tmp_path: Path, line: bytes | dict[str, Any], message: str
) -> None:
    path = tmp_path / "alerts.jsonl"
    if isinstance(line, dict):
        line = orjson.dumps({**ALERT, "event_id": "e2", **line})
    path.write_bytes(orjson.dumps(ALERT) + b"\n\n" + line + b"\n")
    with pytest.raises(MoiraeError) as raised:
        list(read_alerts(path))
    assert str(raised.value).startswith(f"{path}:3: {message}")


def test_truncated_gzip_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl.gz"
    path.write_bytes(gzip.compress(orjson.dumps(ALERT) * 1000)[:-20])
    with pytest.raises(MoiraeError, match=r"alerts\.jsonl\.gz:1: cannot be read"):
        list(read_alerts(path))


def test_empty_labels_and_groups_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("event_id,label,other,group\ne1,disk,1,\ne2,,2,g\n")
    assert read_labels(path) == {"e1": "disk"}
    assert read_groups(path) == {"e2": "g"}


def test_missing_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("event_id,host\n")
    with pytest.raises(MoiraeError, match=r"groups\.csv:1: missing column: group"):
        read_groups(path)


def test_judgements_are_read_as_gains(tmp_path: Path) -> None:
    path = tmp_path / "judgements.csv"
    path.write_text("query,relevant_events\ne1,e0:2 a:b:1\ne2,\n")
    assert read_judgements(path) == {"e1": {"e0": 2, "a:b": 1}}


@pytest.mark.parametrize("item", ["e0:0", "e0", "e0:x", ":1"])
def test_invalid_gain_is_reported_with_its_line(tmp_path: Path, item: str) -> None:
    path = tmp_path / "judgements.csv"
    path.write_text(f"query,relevant_events\ne1,{item}\n")
    with pytest.raises(MoiraeError, match=rf"judgements\.csv:2: '{item}' must be event:gain"):
        read_judgements(path)


def _write_resolutions(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "tags.csv"
    path.write_text("\n".join(["event_id,tag,known_at", *rows, ""]), encoding="utf-8")
    return path


def test_last_known_tag_of_an_event_counts(tmp_path: Path) -> None:
    corrected = "e1,net,2024-05-03T00:00:00Z"
    path = _write_resolutions(
        tmp_path,
        "e1,disk,2024-05-01T00:00:00Z",
        corrected,
        "e1,cpu,2024-05-02T00:00:00Z",
        "e2, ,2024-05-02T00:00:00Z",
    )
    [resolution] = read_resolutions(path)
    assert (resolution.event_id, resolution.tag) == ("e1", "net")
    assert from_micros(resolution.known_at).day == 3


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("event_id,label\ne1,disk\n", encoding="utf-8-sig")
    assert read_labels(path) == {"e1": "disk"}


def test_text_in_another_encoding_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("event_id,label\ne1,gestört\n", encoding="latin-1")
    with pytest.raises(MoiraeError, match=r"labels\.csv:2: is not UTF-8"):
        read_labels(path)
