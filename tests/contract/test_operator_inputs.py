"""Inputs as operators have them: each as its kind, decoded from the bytes of a file."""

import pytest

from archiver.formats import CSV, JSONL, CsvDialect, Format, TimeReading
from tests.formats import declare, lines_of, read_rows

TEN = "2026-11-20T10:00:00Z"


def test_fields_are_read_by_name_or_path() -> None:
    schema = declare(
        {"host": "string", "level": "string"},
        {"ts": ("@timestamp",), "host": ("host.name",), "level": ("log.level",)},
    )
    content = (
        b'{"@timestamp":"2026-11-20T10:00:00Z","host.name":"a","log":{"level":"error"}}\n'
        b'{"@timestamp":"2026-11-20T10:00:01Z","host":{"name":"b","ip":1},"log.level":"warn"}\n'
    )
    rows, refused = read_rows(schema, content, JSONL)
    assert rows == [
        (TEN, "a", "error", None),
        ("2026-11-20T10:00:01Z", "b", "warn", '{"host":{"ip":1}}'),
    ]
    assert not refused


def test_objects_and_arrays_in_string_columns_are_json() -> None:
    schema = declare({"tags": "string", "first": "string"}, {"first": ("tags[0].k",)})
    rows, _ = read_rows(schema, b'{"ts":"2026-11-20T10:00:00Z","tags":[{"k":"v"},2]}\n', JSONL)
    assert rows == [(TEN, '[{"k":"v"},2]', "v", None)]


LIST = b"""{"apiVersion":"v1","kind":"List","items":[
 {"lastTimestamp":"2026-11-20T10:00:00Z","involvedObject":{"kind":"Pod","name":"web-1"},"count":3},
 {"lastTimestamp":"2026-11-20T10:00:05Z","involvedObject":{"kind":"Pod","name":"web-2"},"count":1}
]}
"""


def test_records_inside_a_document_are_rows() -> None:
    schema = declare(
        {"kind": "string", "name": "string", "count": "int"},
        {
            "ts": ("lastTimestamp",),
            "kind": ("involvedObject.kind",),
            "name": ("involvedObject.name",),
        },
    )
    record_format = Format("json", records="items")
    rows, refused = read_rows(schema, LIST, record_format)
    assert rows == [
        (TEN, "Pod", "web-1", 3, None),
        ("2026-11-20T10:00:05Z", "Pod", "web-2", 1, None),
    ]
    assert lines_of(schema, LIST, record_format) == [1, 2] and not refused


@pytest.mark.parametrize(
    "content",
    [
        b'[{"ts":"2026-11-20T10:00:00Z","k":"a"},{"ts":"2026-11-20T10:00:01Z","k":"b"}]',
        b'{"ts":"2026-11-20T10:00:00Z",\n "k": "a"}\n{\n"ts":"2026-11-20T10:00:01Z","k":"b"\n}\n',
        b'\xef\xbb\xbf{"ts":"2026-11-20T10:00:00Z","k":"a"}{"ts":"2026-11-20T10:00:01Z","k":"b"}',
    ],
)
def test_arrays_and_documents_one_after_the_other_are_rows(content: bytes) -> None:
    rows, refused = read_rows(declare({"k": "string"}), content, Format("json"))
    assert [row[1] for row in rows] == ["a", "b"] and not refused


def test_nan_and_infinities_are_numbers() -> None:
    content = (
        b'{"ts":"2026-11-20T10:00:00Z","v":NaN,"w":NaN}\n'
        b'{"ts":"2026-11-20T10:00:01Z","v":-Infinity}\n{"ts":"2026-11-20T10:00:01Z","v":1e400}\n'
    )
    rows, refused = read_rows(declare({"v": "double"}), content, JSONL)
    assert repr(rows[0][1:]) == '(nan, \'{"w":"NaN"}\')' and rows[1][1] == float("-inf")
    assert [line.line for line in refused] == [3]


@pytest.mark.parametrize(
    ("unit", "number"),
    [("s", "1795168800.123"), ("ms", "1795168800123"), ("us", "1795168800123000")],
)
def test_numbers_are_times_of_the_declared_unit(unit: str, number: str) -> None:
    schema = declare({"k": "string"}, time=TimeReading(unit=unit))  # type: ignore[arg-type]
    content = f'{{"ts":{number},"k":"n"}}\n{{"ts":"{number}","k":"t"}}\n'.encode()
    rows, refused = read_rows(schema, content, JSONL)
    assert [row[0] for row in rows] == ["2026-11-20T10:00:00.123000Z"] * 2 and not refused


def test_a_time_of_another_unit_is_refused_with_the_key_to_declare() -> None:
    content = (
        b'{"ts":1795168800123}\n{"ts":"1795168800123456789"}\n{"ts":"20/Nov/2026:10:00:00 +0000"}\n'
    )
    _, refused = read_rows(declare({}), content, JSONL)
    assert [line.detail.rpartition(": declare ")[2] for line in refused] == [
        "`time: {column: ts, unit: ms}`",
        "`time: {column: ts, unit: ns}`",
        '`time: {column: ts, format: "apache"}`',
    ]


def test_times_without_an_offset_are_of_the_declared_zone() -> None:
    schema = declare({}, time=TimeReading(zone="Europe/Ljubljana"))
    rows, _ = read_rows(schema, b'{"ts":"2026-07-12 10:58:48,607"}\n', JSONL)
    assert rows == [("2026-07-12T08:58:48.607000Z", None)]


def test_short_offsets_are_read() -> None:
    content = (
        b'{"ts":"2026-11-20T10:00:00+2"}\n{"ts":"2026-11-20T10:00:00 UTC+2:00"}\n'
        b'{"ts":"2026-11-20T10:00:00.5+0200"}\n{"ts":"2026-11-20 10:00:00 GMT"}\n'
        b'{"ts":"20261120T100000Z"}\n{"ts":"2026-W47-5T10:00:00Z"}\n'
    )
    rows, refused = read_rows(declare({}), content, JSONL)
    assert [row[0] for row in rows] == [
        "2026-11-20T08:00:00Z",
        "2026-11-20T08:00:00Z",
        "2026-11-20T08:00:00.500000Z",
        *[TEN] * 3,
    ]
    assert not refused


CLOCK_CHANGES = b'{"ts":"2026-03-29 02:30:00"}\n{"ts":"2026-10-25 02:30:00"}\n'


def test_skipped_and_repeated_times_follow_the_declaration() -> None:
    rows, refused = read_rows(
        declare({}, time=TimeReading(zone="Europe/Rome")), CLOCK_CHANGES, JSONL
    )
    assert [row[0] for row in rows] == ["2026-10-25T00:30:00Z"]
    assert "does not exist: clocks are put forward then" in refused[0].detail
    options = TimeReading(zone="Europe/Rome", ambiguous="later", missing="forward")
    rows, _ = read_rows(declare({}, time=options), CLOCK_CHANGES, JSONL)
    assert [row[0] for row in rows] == ["2026-03-29T01:30:00Z", "2026-10-25T01:30:00Z"]
    options = TimeReading(
        zone="Europe/Rome", formats=("%Y-%m-%d %H:%M:%S",), ambiguous="reject", missing="forward"
    )
    rows, refused = read_rows(declare({}, time=options), CLOCK_CHANGES, JSONL)
    assert [row[0] for row in rows] == ["2026-03-29T01:30:00Z"]
    assert "comes twice" in refused[0].detail


def test_date_and_time_in_two_fields_are_one_time() -> None:
    reading = TimeReading(formats=("%d.%m.%y %H:%M",), parts=("date", "time"), zone="Europe/Rome")
    content = b"date,time,v\n20.11.26,11:00,1\n20.11.26,,2\n"
    rows, refused = read_rows(declare({"v": "int"}, time=reading), content, CSV)
    assert rows == [(TEN, 1, None)]
    assert refused[0].detail == "column ts: event time is missing"


def test_csv_fields_have_line_breaks() -> None:
    content = (
        b'\xef\xbb\xbf"ts","host","msg"\r\n"2026-11-20T10:00:00Z","a","hello, ""x"""\r\n'
        b'"2026-11-20T10:00:01Z","b","two\nlines"\r\n2026-11-20T10:00:02Z,c,"open\n'
        b"2026-11-20T10:00:03Z,d,x\n"
    )
    schema = declare({"host": "string", "msg": "string"})
    rows, refused = read_rows(schema, content, CSV)
    assert [row[1:3] for row in rows] == [("a", 'hello, "x"'), ("b", "two\nlines"), ("d", "x")]
    assert lines_of(schema, content, CSV) == [2, 3, 6]
    assert [(line.line, line.detail) for line in refused] == [
        (5, "a quoted field has no closing quote")
    ]


def test_csv_is_written_in_other_ways() -> None:
    dialect = CsvDialect(delimiter=";", comment="#", decimal=",")
    content = b"# export\nts;host;v\n2026-11-20T10:00:00Z;a;1,5\n2026-11-20T10:00:00Z;a;1.5\n"
    schema = declare({"host": "string", "v": "double"})
    rows, refused = read_rows(schema, content, Format("csv", csv=dialect))
    assert rows == [(TEN, "a", 1.5, None)] and len(refused) == 1
    dialect = CsvDialect(delimiter="\t", header=False, names=("ts", "v", "more"), escape="\\")
    content = b'2026-11-20T10:00:00Z\t1\t"a\\"b"\n'
    rows, _ = read_rows(schema, content, Format("csv", csv=dialect))
    assert rows == [(TEN, None, 1.0, '{"more":"a\\"b"}')]


def test_texts_that_are_no_values_are_null() -> None:
    """As flow logs of AWS have it, and exports of databases."""
    dialect = CsvDialect(delimiter=" ", null_values=("-", "NULL"))
    content = (
        b'start dstport action note\n1795168800 443 ACCEPT "-"\n1795168800 - - x-\n'
        b"1795168800 NULL null -\n- 1 ACCEPT -\n"
    )
    schema = declare(
        {"dstport": "int", "action": "string"}, {"ts": ("start",)}, TimeReading(unit="s")
    )
    rows, refused = read_rows(schema, content, Format("csv", csv=dialect))
    assert rows == [
        (TEN, 443, "ACCEPT", '{"note":null}'),
        (TEN, None, None, '{"note":"x-"}'),
        (TEN, None, "null", '{"note":null}'),
    ]
    assert [line.detail for line in refused] == ["column ts: event time is missing"]


def test_access_logs_are_rows() -> None:
    content = (
        b'203.0.113.9 - - [20/Nov/2026:10:00:00 +0100] "GET /x?y=\\"1\\" HTTP/1.1" 500 1234 "-" '
        b'"curl/8"\nnot a log line\n::1 - bob [20/Nov/2026:10:00:00 +0000] "-" 408 - "-" "-"\n'
    )
    schema = declare(
        {"host": "string", "path": "string", "status": "int", "bytes": "bigint"}, {"ts": ("time",)}
    )
    rows, refused = read_rows(schema, content, Format("combined"))
    assert rows == [
        (
            "2026-11-20T09:00:00Z",
            "203.0.113.9",
            '/x?y=\\"1\\"',
            500,
            1234,
            '{"agent":"curl/8","method":"GET","protocol":"HTTP/1.1"}',
        ),
        (TEN, "::1", None, 408, None, '{"user":"bob"}'),
    ]
    assert refused[0].detail == "not a record of format combined: 'not a log line'"


def test_syslog_of_both_kinds_is_rows() -> None:
    content = (
        b"<34>Nov 20 10:00:00 web-1 su[230]: failed\n"
        b'<165>1 2026-11-20T10:00:01.003Z web-2 app 8710 ID47 [e@1 k="v"] started\n'
        b"Nov 20 10:05:01 web-1 kernel: no priority\n"
        b"<0>2026-11-20T10:00:02+00:00 web-3 cron: x\n"
    )
    schema = declare(
        {
            "host": "string",
            "app": "string",
            "pid": "int",
            "severity": "int",
            "message": "string",
            "structured_data": "string",
        },
        {"ts": ("time",)},
    )
    rows, refused = read_rows(schema, content, Format("syslog"))
    assert [row[:7] for row in rows] == [
        (TEN, "web-1", "su", 230, 2, "failed", None),
        ("2026-11-20T10:00:01.003000Z", "web-2", "app", 8710, 5, "started", '[e@1 k="v"]'),
        # More than five minutes ahead of the clock: of the year before.
        ("2025-11-20T10:05:01Z", "web-1", "kernel", None, None, "no priority", None),
        ("2026-11-20T10:00:02Z", "web-3", "cron", None, 0, "x", None),
    ]
    assert not refused


def test_lines_belong_to_the_record_that_starts_before_them() -> None:
    record_format = Format(
        "text",
        pattern=r"(?P<ts>\S+ \S+) (?P<level>\w+) (?P<message>.*)",
        starts_with=r"[0-9]{4}-[0-9]{2}-",
    )
    content = (
        b'2026-11-20 10:00:00 ERROR boom\nTraceback:\n  File "x"\n2026-11-20 10:00:01 INFO fine\n'
    )
    schema = declare({"level": "string", "message": "string"})
    rows, _ = read_rows(schema, content, record_format)
    assert rows == [
        (TEN, "ERROR", 'boom\nTraceback:\n  File "x"', None),
        ("2026-11-20T10:00:01Z", "INFO", "fine", None),
    ]
    assert lines_of(schema, content, record_format) == [1, 4]


def test_text_around_json_is_read_with_it() -> None:
    record_format = Format("text", pattern=r"(?P<ts>\S+) app: (?P<json>\{.*\})")
    content = b'2026-11-20T10:00:00Z app: {"k":{"x":1},"v":2}\n'
    schema = declare({"x": "int"}, {"x": ("k.x",)})
    assert read_rows(schema, content, record_format)[0] == [(TEN, 1, '{"v":2}')]


def test_logfmt_klog_cri_and_docker_lines_are_rows() -> None:
    schema = declare({"level": "string", "msg": "string"}, {"ts": ("time",)})
    content = b'time=2026-11-20T10:00:00Z level=warn msg="a \\"b\\"" debug\nplain text\n'
    rows, refused = read_rows(schema, content, Format("logfmt"))
    assert rows == [(TEN, "warn", 'a "b"', '{"debug":"true"}')] and len(refused) == 1
    schema = declare({"message": "string", "severity": "string"}, {"ts": ("time",)})
    content = b"W1120 10:00:00.000000    1 main.go:12] hello\n"
    rows, _ = read_rows(schema, content, Format("klog"))
    assert rows == [(TEN, "hello", "W", '{"file":"main.go","line":"12","thread":"1"}')]
    schema = declare({"message": "string", "stream": "string"}, {"ts": ("time",)})
    content = (
        b"2026-11-20T10:00:00Z stdout P one \n2026-11-20T10:00:01Z stderr F other\n"
        b"2026-11-20T10:00:02Z stdout F two\n"
    )
    rows, _ = read_rows(schema, content, Format("cri"))
    assert sorted(rows) == [
        (TEN, "one two", "stdout", None),
        ("2026-11-20T10:00:01Z", "other", "stderr", None),
    ]
    schema = declare({"log": "string", "stream": "string"}, {"ts": ("time",)})
    content = (
        b'{"log":"one ","stream":"stdout","time":"2026-11-20T10:00:00Z"}\n'
        b'{"log":"two\\n","stream":"stdout","time":"2026-11-20T10:00:01Z"}\n'
    )
    rows, _ = read_rows(schema, content, Format("docker"))
    assert rows == [(TEN, "one two", "stdout", None)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "latin-1"])
def test_encodings_are_read_by_mark_or_name(encoding: str) -> None:
    content = '{"ts":"2026-11-20T10:00:00Z","k":"é"}\n'.encode(encoding)
    declared = encoding if encoding in ("utf-16-le", "latin-1") else None
    rows, refused = read_rows(declare({"k": "string"}), content, Format("jsonl", encoding=declared))
    assert rows == [(TEN, "é", None)] and not refused


def test_a_record_past_its_limits_is_a_dead_letter() -> None:
    record_format = Format("text", pattern=r"(?P<ts>\S+) (?P<m>.*)", starts_with="2026")
    content = b"2026-11-20T10:00:00Z a\n" + b"more\n" * 20_000 + b"2026-11-20T10:00:01Z b\n"
    rows, refused = read_rows(declare({"m": "string"}), content, record_format)
    assert [row[1] for row in rows] == ["b"]
    assert refused[0].detail == "the record has more than 10000 lines"


def test_damaged_documents_are_dead_letters_after_their_records() -> None:
    rows, refused = read_rows(declare({}), b'[{"ts":"2026-11-20"},{"ts":"2026', Format("json"))
    assert len(rows) == 1 and refused[0].detail.startswith("not JSON: the document ends")
    _, refused = read_rows(declare({}), b'{"a": []}', Format("json", records="items"))
    assert refused[0].detail == "the document has no records at items"
