"""Declarations that are proposed from samples."""

import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from moirae.config import Relation, Stream
from moirae.inspect.inference.stream_inference import propose_stream
from moirae.inspect.stream_sample import read_sample

TEN = "2026-11-20T10:00:00"
# By name of a file: its content, the options of the source, and parts of what the sample leaves open.
SAMPLES: dict[str, tuple[bytes, dict[str, Any], list[str]]] = {
    "nested.jsonl": (
        f'{{"@timestamp":"{TEN}Z","host":{{"name":"a"}}}}\n'.encode(),
        {"format": "jsonl"},
        [],
    ),
    "list.json": (
        f'{{"kind":"List","items":[{{"lastTimestamp":"{TEN}Z","n":1}}]}}'.encode(),
        {"format": "json", "records": "items"},
        [],
    ),
    "array.json": (f'[{{"ts":"{TEN}Z"}},\n{{"ts":"{TEN}Z"}}]'.encode(), {"format": "json"}, []),
    "local.jsonl": (f'{{"ts":"{TEN},607"}}\n'.encode(), {"format": "jsonl"}, ["zone"]),
    "days.csv": (b"when,v\n01/02/2026 10:00:00,1\n", {"format": "csv"}, ["day or month", "zone"]),
    "semicolon.csv": (
        f"# x\nts;host;v\n{TEN}Z;a;1\n".encode(),
        {"format": "csv", "csv": {"delimiter": ";", "comment": "#"}},
        [],
    ),
    "decimals.csv": (
        b"Zeit;Host;Wert\n20.11.2026 11:00:00;a;1,5\n20.11.2026 11:05:00;a;-2,25\n",
        {"format": "csv", "csv": {"delimiter": ";", "decimal": ","}},
        ["zone"],
    ),
    "points.csv": (
        b"Zeit;Wert;Wo\n20.11.2026 11:00:00;1.5;46,05\n20.11.2026 11:05:00;2.5;46,05\n",
        {"format": "csv", "csv": {"delimiter": ";"}},
        ["zone"],
    ),
    "flows.log": (
        b"version srcaddr dstaddr bytes start end action\n"
        b"2 192.0.2.1 192.0.2.9 4249 1795168800 1795168860 ACCEPT\n"
        b"2 192.0.2.1 192.0.2.7 52 1795168801 1795168861 REJECT\n",
        {"format": "csv", "csv": {"delimiter": " "}},
        [],
    ),
    "spreadsheet.csv": (
        b"Datum;Uhrzeit;Wert\n20.11.2026;11:00:00;7\n20.11.2026;11:05:00;8\n",
        {"format": "csv", "csv": {"delimiter": ";"}},
        ["zone"],
    ),
    "iis.log": (
        b"#Software: x\n#Fields: date time cs-method sc-status\n2026-11-20 10:00:00 GET 200\n",
        {
            "format": "csv",
            "csv": {
                "delimiter": " ",
                "comment": "#",
                "header": False,
                "names": ["date", "time", "cs-method", "sc-status"],
            },
        },
        ["zone"],
    ),
    "zeek.log": (
        b"#separator \\x09\n#fields\tts\tproto\n1795168800.123456\ttcp\n",
        {
            "format": "csv",
            "csv": {
                "delimiter": "\t",
                "comment": "#",
                "header": False,
                "names": ["ts", "proto"],
            },
        },
        [],
    ),
    "error.log": (
        b"[Sun Dec 04 04:47:44 2005] [notice] ready\n[Sun Dec 04 04:47:45 2005] [error] bad\n",
        {
            "format": "text",
            "pattern": ANY,
        },
        ["zone", "tail"],
    ),
    "access.log": (
        b'h - - [20/Nov/2026:10:00:00 +0100] "GET / HTTP/1.1" 200 5 "-" "x"\n' * 3,
        {"format": "combined"},
        ["tail"],
    ),
    "syslog": (
        b"<34>Nov 20 10:00:00 web-1 su[230]: failed\n",
        {"format": "syslog"},
        ["zone", "tail"],
    ),
    "pairs.log": (f"time={TEN}Z level=info msg=x\n".encode(), {"format": "logfmt"}, ["tail"]),
    "utf16.jsonl": (f'{{"ts":"{TEN}Z","k":"é"}}\n'.encode("utf-16"), {"format": "jsonl"}, []),
}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_proposed_stream_reads_its_sample(tmp_path: Path, name: str) -> None:
    content, options, questions = SAMPLES[name]
    path = tmp_path / name
    path.write_bytes(content)
    proposed = propose_stream([path])
    assert proposed.declaration["source"] == {"files": str(path), **options}
    assert len(proposed.open_questions) == len(questions)
    for question, part in zip(proposed.open_questions, questions, strict=True):
        assert part in question
    declared = Stream.model_validate(proposed.declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    if not any("day or month" in question for question in questions):
        assert sample.row_count > 0 and sample.refused_count == 0


def test_units_of_numbers_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"ts":1795168800123,"host":"a"}\n')
    proposed = propose_stream([path])
    assert proposed.declaration["time"] == {"column": "ts", "unit": "ms"}
    assert proposed.declaration["key"] == ["host"]


def test_lines_of_a_stack_trace_belong_to_their_record(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"2026-11-20 10:00:00 ERROR boom\nTraceback:\n2026-11-20 10:00:01 INFO x\n")
    proposed = propose_stream([path])
    declared = Stream.model_validate(proposed.declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    assert [row["message"] for row in sample.rows] == ["boom\nTraceback:", "x"]


def test_a_file_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n":1}\n')
    with pytest.raises(ValueError, match="no field is a time in all records"):
        propose_stream([path])


def test_times_of_day_without_a_date_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("08:09:33.81 execve(x) = 0\n08:09:34.01 brk(0) = 1\n")
    with pytest.raises(ValueError, match="times of day have no date"):
        propose_stream([path])


def test_a_table_without_times_is_a_relation(tmp_path: Path) -> None:
    path = tmp_path / "templates.csv"
    path.write_text("level,template id,count\nINFO,T1,3\nINFO,T2,3\n")
    proposed = propose_stream([path])
    declared = Relation.model_validate(proposed.declaration)
    assert proposed.is_relation
    assert declared.key == ("template_id",)
    assert proposed.declaration["columns"] == {
        "level": "string",
        "template_id": {"type": "string", "from": "template id"},
        "count": "bigint",
    }


def test_records_with_many_texts_are_summarized_in_little_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    words = ["x" * (number % 60) + f" {number}" for number in range(2_000)]
    path.write_text("".join(f'{{"ts":"2026-01-01","text":"{word}"}}\n' for word in words))
    started_at = time.process_time()
    propose_stream([path])
    assert time.process_time() - started_at < 5


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"sensor": "77{i}", "speed": "6{i}"}, ["sensor"]),
        ({"cause": "x", "node": "{i}"}, ["node"]),
        ({"cause": "x", "rack_id": "{i}"}, ["rack_id"]),
        ({"bytes": "{i}", "vmId": "{i}"}, ["vmId"]),
        ({"host": "a", "node": "{i}"}, ["host"]),
        ({"bytes": "{i}", "paid": "1"}, None),
        ({"cause": "x", "bytes": "{i}"}, None),
        ({"message": "m{i}", "pool": "p{i}"}, ["pool"]),
        ({"message": "m{i}", "bytes": "{i}"}, None),
    ],
)
def test_numbers_of_things_are_keys(tmp_path: Path, fields: dict[str, str], key: Any) -> None:
    lines = ["ts," + ",".join(fields)]
    for number in range(12):
        values = (value.format(i=number % 3) for value in fields.values())
        lines.append(f"2026-11-20T10:00:{number:02}Z," + ",".join(values))
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    declaration = propose_stream([file]).declaration
    assert declaration.get("key") == key
    Stream.model_validate(declaration)


def test_a_number_that_differs_in_each_record_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    rows = [f"2026-11-20T10:00:{number:02}Z,{number},7" for number in range(12)]
    file.write_text("\n".join(["ts,id,v", *rows]) + "\n")
    assert "key" not in propose_stream([file]).declaration


def test_columns_with_decimal_commas_are_numbers(tmp_path: Path) -> None:
    content, _, _ = SAMPLES["decimals.csv"]
    (tmp_path / "decimals.csv").write_bytes(content)
    declaration = propose_stream([tmp_path / "decimals.csv"]).declaration
    columns = declaration["columns"]
    assert columns == {
        "ts": {"type": "timestamp", "from": "Zeit"},
        "Host": "string",
        "Wert": "double",
    }
