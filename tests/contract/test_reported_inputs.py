"""Inputs of public reports of log collectors: each line with what it means, or a dead letter."""

from typing import Any

import orjson
import pytest

from archiver.formats import CSV, JSONL, CsvDialect, Format, TimeReading
from archiver.ingest import find_joined_end
from tests.formats import declare, read_rows

TEN = "2026-11-20T10:00:00Z"


def read_one(schema: Any, line: str, record_format: Format) -> dict[str, Any] | None:
    """The fields of a line that are not null; None: it is refused."""
    rows, refused = read_rows(schema, line.encode() + b"\n", record_format)
    if refused:
        return None
    names = [*schema.columns, "_extra"]
    fields = dict(zip(names, rows[0], strict=True))
    fields |= orjson.loads(fields.pop("_extra") or "{}")
    return {name: value for name, value in fields.items() if value is not None}


SYSLOG = [
    # Hosts that leave their name out (elastic/beats#13270).
    ("<30>Nov 20 10:00:00 charon: 13[MGR] up", {"app": "charon", "message": "13[MGR] up"}),
    ("Nov 20 10:00:00 su[230]: failed", {"app": "su", "pid": "230", "message": "failed"}),
    # Days with a zero, years and fractions (elastic/beats#16824, influxdata/telegraf#10791).
    ("<34>Nov 20 2026 10:00:00 fw app[9]: x", {"host": "fw", "app": "app", "pid": "9"}),
    ("<13>Nov 20 10:00:00.000 h app: x", {"host": "h", "app": "app", "message": "x"}),
    ("<190>2026-11-20 10:00:00 h app: x", {"host": "h", "app": "app"}),
    # Codes of network devices (elastic/beats#52557).
    ("Nov 20 2026 10:00:00 fw : %ASA-6-305011: Built", {"host": "fw", "app": "%ASA-6-305011"}),
    ("<189>29: *Nov 20 10:00:00.000: %SYS-5-CONFIG_I: by x", {"app": "%SYS-5-CONFIG_I"}),
    # A message that begins with a bracket (vectordotdev/vector#7796), and one without tag.
    ("<13>Nov 20 10:00:00 10.0.0.99 [apache] x", {"host": "10.0.0.99", "message": "[apache] x"}),
    ("<13>Nov 20 10:00:00 h last message repeated", {"host": "h"}),
    ("<134>1 2026-11-20T10:00:00Z srv13 iLO5 - - -", {"host": "srv13", "app": "iLO5"}),
    # The zone of the clock, of network devices by `show-timezone`; the stream declares none.
    ("<189>29: Nov 20 10:00:00.000 UTC: %SYS-5-CONFIG_I: by x", {"app": "%SYS-5-CONFIG_I"}),
    ("<13>Nov 20 10:00:00 UTC h app: x", {"host": "h", "app": "app"}),
    ("<13>Nov 20 10:00:00 CET h app: x", None),
    ("<13>Nov 20 10:00:00 UTC-1 app: x", {"host": "UTC-1", "app": "app"}),
    # Priorities have 24 facilities and 8 severities (RFC 5424, section 6.2.1).
    ("<191>Nov 20 10:00:00 h app: x", {"host": "h", "priority": "191", "facility": "23"}),
    ("<192>Nov 20 10:00:00 h app: x", None),
    ("<999>1 2026-11-20T10:00:00Z h app - - - x", None),
    # Cut headers and lines without a time are no rows (elastic/beats#30698).
    ("<14>1 2026-11-20T10:00:00+00:00 vcenter01", None),
    ("<14>MiniSwitch 7483c04f9d75: NETDEV: done", None),
]


@pytest.mark.parametrize(("line", "expected"), SYSLOG)
def test_syslog_of_devices_is_read(line: str, expected: dict[str, Any] | None) -> None:
    columns = {"host": "string", "app": "string", "pid": "string", "message": "string"}
    fields = read_one(declare(columns, {"ts": ("time",)}), line, Format("syslog"))
    if expected is None or fields is None:
        assert fields is expected
        return
    assert fields["ts"] == TEN and fields.items() >= expected.items()
    assert ("host" in fields) is ("host" in expected)


AT_TEN = "[20/Nov/2026:10:00:00 +0000]"
ACCESS = [
    # The format `main` of nginx's packages, and durations after the agent.
    (f'h - - {AT_TEN} "GET / HTTP/2.0" 200 1 "-" "a \\"b\\"" "10.0.0.1"', {"rest": '"10.0.0.1"'}),
    (f'h - - {AT_TEN} "GET / HTTP/1.1" 200 1 "-" "a" 0.005 .', {"agent": "a", "rest": "0.005 ."}),
    # Users with blanks, lists of proxies, virtual hosts, addresses of IPv6.
    (f'::1 - john smith {AT_TEN} "GET / HTTP/1.1" 200 1 "-" "a"', {"user": "john smith"}),
    (f'1.2.3.4, 5.6.7.8 - - {AT_TEN} "-" 200 1 "-" "a"', {"host": "1.2.3.4, 5.6.7.8"}),
    (f'w.example:443 h - u {AT_TEN} "" 200 1 "" ""', {"vhost": "w.example:443", "host": "h"}),
    (f'w.example h - - {AT_TEN} "" 200 1 "" ""', {"vhost": "w.example", "host": "h"}),
    (f'w.example h - u {AT_TEN} "" 200 1 "" ""', {"vhost": "w.example", "host": "h", "user": "u"}),
    (f'2a00::13 - - {AT_TEN} "-" 200 1 "-" "a"', {"host": "2a00::13"}),
    # Requests that are none (vectordotdev/vrl#226), and methods with a hyphen.
    (f'h - - {AT_TEN} "\\x03\\x00/*Cookie: x" 400 1 "-" "-"', {"request": "\\x03\\x00/*Cookie: x"}),
    (f'h - - {AT_TEN} "M-SEARCH * HTTP/1.1" 400 1 "-" "-"', {"method": "M-SEARCH", "path": "*"}),
    # Fractions of seconds, as Apache's %{msec_frac}t writes them.
    (f'h - - {AT_TEN.replace(" ", ".000 ")} "GET / HTTP/1.1" 200 1 "-" "a"', {"host": "h"}),
    (f'h - - {AT_TEN} "GET / HTTP/1.1" two 1 "-" "-"', None),
]


@pytest.mark.parametrize(("line", "expected"), ACCESS)
def test_access_logs_of_servers_are_read(line: str, expected: dict[str, Any] | None) -> None:
    fields = read_one(declare({"host": "string"}, {"ts": ("time",)}), line, Format("combined"))
    assert fields is expected is None or (fields or {}).items() >= (expected or {"": ""}).items()


@pytest.mark.parametrize("name", ["I1120 10:00:00.000000 1 C:/x.go:42] m", "I20261120 10:00:00.0"])
def test_klog_has_years_and_paths_with_colons(name: str) -> None:
    line = name if name.endswith("m") else f"{name} 1 C:/x.go:42] m"
    fields = read_one(declare({"file": "string"}, {"ts": ("time",)}), line, Format("klog"))
    assert fields is not None and (fields["ts"], fields["file"]) == (TEN, "C:/x.go")


ROME = TimeReading(zone="Europe/Rome")
NEW_YORK = TimeReading(
    zone="America/New_York", formats=("%d/%m/%y %H:%M:%S:%f %Z", "%a %b %d %H:%M:%S %Z %Y")
)
TIMES = [
    # RFC 3339 in small letters, RFC 9557, ordinal dates, the end of a day, leap seconds.
    (TimeReading(), "2026-11-20t10:00:00z", TEN),
    (TimeReading(), "2026-11-20T11:00:00+01:00[Europe/Rome]", TEN),
    (TimeReading(), "2026-11-20T11:00:00[Europe/Rome]", None),
    (TimeReading(), "2026-324T10:00:00Z", TEN),
    (TimeReading(), "2026-11-19T24:00:00Z", "2026-11-20T00:00:00Z"),
    (TimeReading(), "2026-11-19T24:00:01Z", None),
    (TimeReading(), "2026-11-20T09:59:60Z", TEN),
    (TimeReading(formats=("%Y-%m-%d %H:%M:%S",)), "2026-11-20 09:59:60", TEN),
    # As Go prints its times.
    (TimeReading(), "2026-11-20 11:00:00 +0100 CET m=+0.001", TEN),
    # Names of zones count where the declared zone has them then.
    (ROME, "2026-11-20 11:00:00 CET", TEN),
    (ROME, "2026-10-25 02:30:00 CET", "2026-10-25T01:30:00Z"),
    (ROME, "2026-10-25 02:30:00 CEST", "2026-10-25T00:30:00Z"),
    (ROME, "2026-11-20 11:00:00 CEST", None),
    (TimeReading(), "2026-11-20 11:00:00 CET", None),
    (NEW_YORK, "20/11/26 05:00:00:000 EST", TEN),
    (NEW_YORK, "Fri Nov 20 10:00:00 UTC 2026", TEN),
    (NEW_YORK, "20/11/26 05:00:00:000 CET", None),
    # Mail without seconds, and with a comment; what browsers print.
    # Oracle and SAS write months in capitals.
    (TimeReading(formats=("%d-%b-%y %I.%M.%S.%f %p",)), "20-NOV-26 10.00.00.000000 AM", TEN),
    (TimeReading(formats=("%d%B%Y:%H:%M:%S",)), "20NOVEMBER2026:10:00:00", TEN),
    (TimeReading(formats=("rfc2822",)), "Fri, 20 Nov 2026 11:00 +0100 (CET)", TEN),
    (
        TimeReading(formats=("%a %b %d %Y %H:%M:%S %z",)),
        "Fri Nov 20 2026 11:00:00 GMT+0100 (Central European Standard Time)",
        TEN,
    ),
]


@pytest.mark.parametrize(("reading", "text", "expected"), TIMES)
def test_times_of_programs_are_read(reading: TimeReading, text: str, expected: str | None) -> None:
    fields = read_one(declare({}, time=reading), f'{{"ts":"{text}"}}', JSONL)
    assert (fields or {}).get("ts") == expected


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        # grafana/loki#1351, #7365, vectordotdev/vrl#103
        ("2019-Nov-20 00:04:38.804", ["%Y-%b-%d %H:%M:%S.%f"]),
        ("1/10/22 23:50:04:362 EDT", ["%d/%m/%y %H:%M:%S:%f %Z", "%m/%d/%y %H:%M:%S:%f %Z"]),
        ("Fri Jul 23 00:28:19.615325 2021", ["%a %b %d %H:%M:%S.%f %Y"]),
        ("31/12/2026 10:00:00 PM", ["%d/%m/%Y %I:%M:%S %p"]),
        ("1795168800.123", ["unit: s"]),  # $msec of nginx
        # PHP and HAProxy, Oracle, browsers, `date` of GNU, SAS, MySQL
        ("20/Nov/2026 10:00:00", ["%d/%b/%Y %H:%M:%S"]),
        ("20/Nov/2026:10:00:00.123", ["%d/%b/%Y:%H:%M:%S.%f"]),
        ("20-NOV-26 10.00.00.000000 AM", ["%d-%b-%y %I.%M.%S.%f %p"]),
        ("11/20/2026, 10:00:00 AM", ["%m/%d/%Y, %I:%M:%S %p"]),
        ("Fri Nov 20 10:00:00 AM UTC 2026", ["%a %b %d %I:%M:%S %p %Z %Y"]),
        ("20NOV2026:10:00:00", ["%d%b%Y:%H:%M:%S"]),
        ("261120 10:00:00", ["%y%m%d %H:%M:%S"]),
    ],
)
def test_a_dead_letter_names_the_formats_that_read_its_time(text: str, formats: list[str]) -> None:
    _, refused = read_rows(declare({}), f'{{"ts":"{text}"}}\n'.encode(), JSONL)
    assert all(name in refused[0].detail for name in formats)
    proposed = sum(map(refused[0].detail.count, ("%Y", "%y", "unit")))
    assert proposed == len(formats)


@pytest.mark.parametrize(
    ("content", "count"),
    [(b'{"items":null}', 0), (b'{"a.items":[{"ts":1}]}{"a":{"items":{"ts":1}}}', 2)],
)
def test_records_may_be_none_and_under_a_name_with_a_point(content: bytes, count: int) -> None:
    path = "items" if count == 0 else "a.items"
    rows, refused = read_rows(declare({}), content, Format("json", records=path))
    assert len(rows) == count and not refused


def test_csv_whose_lines_end_with_carriage_returns_is_not_lost() -> None:
    rows, refused = read_rows(declare({"v": "int"}), b"ts,v\r2026-11-20T10:00:00Z,1\r", CSV)
    assert not rows
    assert "carriage return" in refused[0].detail


@pytest.mark.parametrize(
    "content",
    [
        # RFC 7464, as `journalctl -o json-seq` writes it; files joined with their marks.
        '\x1e{"ts":1795168800,"v":"1"}\n\x1e{"ts":1795168800,"v":12345678901234567890123}\n',
        '\ufeff{"ts":1795168800,"v":"1"}\n\ufeff{"ts":1795168800,"v":12345678901234567890123}\n',
        # Documents divided by commas, the last one with one, too; lines of an array.
        '{"ts":1795168800,"v":"1"},\n{"ts":1795168800,"v":12345678901234567890123},\n',
        '[\n{"ts":1795168800,"v":"1"},\n{"ts":1795168800,"v":12345678901234567890123}\n]\n',
    ],
)
def test_objects_are_divided_by_separators(content: str) -> None:
    names = ("json",) if content.startswith(("{", "[")) else ("json", "jsonl")
    for name in names:
        rows, refused = read_rows(declare({"v": "string"}), content.encode(), Format(name))
        assert not refused
        assert [row[1] for row in rows] == ["1", "12345678901234567890123"]


@pytest.mark.parametrize(("content", "junk"), [("{0}}}{0}]{0}", b"}]"), ("[{0}}},{0}]{0}", b"}")])
def test_a_bracket_that_closes_nothing_loses_no_other_record(content: str, junk: bytes) -> None:
    document = content.format('{"ts":1795168800}').encode()
    rows, refused = read_rows(declare({}), document, Format("json"))
    assert len(rows) == 3 and b"".join(line.raw for line in refused) == junk


@pytest.mark.parametrize("first", ["sep=;", "\ufeffsep=;\r", '"sep=;"', "SEP=;"])
def test_a_first_line_that_names_the_delimiter_of_excel_is_no_header(first: str) -> None:
    content = f"{first}\nts;v\n2026-11-20T10:00:00Z;1,5\n".encode()
    declared = Format("csv", csv=CsvDialect(delimiter=";", decimal=","))
    rows, refused = read_rows(declare({"v": "double"}), content, declared)
    assert not refused and [row[1] for row in rows] == [1.5]
    rows, refused = read_rows(declare({"v": "double"}), content, CSV)
    assert not rows
    assert [line.detail for line in refused] == [
        "the first line says that ';' divides fields: declare `csv: {delimiter: ';'}`"
    ]


MAIL_TIMES = [
    ("Fri, 20 Nov 2026 05:00:00 EST", TEN),
    ("Fri, 20 Nov 2026 06:00:00 EDT", TEN),
    ("20 Nov 2026 03:00 PDT", TEN),
    ("Fri, 20 Nov 2026 10:00:00 UT", TEN),
    ("Fri, 20 Nov 2026 10:00:00 GMT", TEN),
    ("Fri, 20 Nov 2026 05:00:00 -0500 (EST)", TEN),
    ("Fri, 20 Nov 2026 18:00:00 CET", None),
    ("Fri, 20 Nov 2026 10:00:00 +2500", None),
]


@pytest.mark.parametrize(("text", "expected"), MAIL_TIMES)
def test_zones_of_mails_have_their_offsets(text: str, expected: str | None) -> None:
    schema = declare({}, time=TimeReading(formats=("rfc2822",)))
    fields = read_one(schema, f'{{"ts":"{text}"}}', JSONL)
    assert (fields and fields["ts"]) == expected


@pytest.mark.parametrize("offset", ["+5:30", "+530", "+0530", "+05:30", "UTC+5:30"])
def test_offsets_of_formats_may_have_hours_of_one_digit(offset: str) -> None:
    schema = declare({}, time=TimeReading(formats=("%d.%m.%Y %H:%M %z",)))
    fields = read_one(schema, f'{{"ts":"20.11.2026 15:30 {offset}"}}', JSONL)
    assert fields is not None and fields["ts"] == TEN


def test_the_zone_of_a_clock_is_one_of_the_declared_zone() -> None:
    schema = declare({"host": "string"}, {"ts": ("time",)}, TimeReading(zone="Europe/Rome"))
    fields = read_one(schema, "<13>Nov 20 11:00:00 CET h app: x", Format("syslog"))
    assert fields is not None and (fields["ts"], fields["host"]) == (TEN, "h")


@pytest.mark.parametrize(
    ("zone", "local", "year"),
    [
        ("Asia/Tokyo", "19:05", 2026),
        ("Asia/Tokyo", "19:06", 2025),
        ("America/New_York", "05:05", 2026),
        ("America/New_York", "05:06", 2025),
    ],
)
def test_a_year_that_is_left_out_is_that_of_the_clock_in_the_zone(
    zone: str, local: str, year: int
) -> None:
    """At 10:00 UTC, and at most five minutes later."""
    time = TimeReading(zone=zone, formats=("%b %d %H:%M:%S", "iso"))
    schema = declare({}, {"ts": ("time",)}, time)
    lines = {
        "syslog": f"<13>Nov 20 {local}:00 h app: x",
        "klog": f"I1120 {local}:00.000000       1 x.go:1] a",
        "jsonl": f'{{"time":"Nov 20 {local}:00"}}',
    }
    for name, line in lines.items():
        fields = read_one(schema, line, Format(name))  # type: ignore[arg-type]
        assert fields is not None and fields["ts"].startswith(str(year)), name


LOGFMT = [
    # Escapes of Go's and JavaScript's quotes (go-logfmt/logfmt#22).
    (r'e="file \u001b[33mreally\x1b[0m"', {"e": "file \x1b[33mreally\x1b[0m"}),
    (r's="\ud83d\ude00\tx"', {"s": "\U0001f600\tx"}),
    (r's="\ud83d"', None),
    # Values that are missing, and signs within them (vectordotdev/vector#7134).
    ('a= b= c="x=1" url=/?a=b&c', {"c": "x=1", "url": "/?a=b&c"}),
    ('v=1579739313"80007168', None),
]


@pytest.mark.parametrize(("pairs", "expected"), LOGFMT)
def test_quoted_values_of_logfmt_are_read(pairs: str, expected: dict[str, Any] | None) -> None:
    fields = read_one(declare({}), f"ts={TEN} {pairs}", Format("logfmt"))
    if expected is None or fields is None:
        assert fields is expected
        return
    assert fields.items() >= expected.items()


def test_empty_columns_of_a_spreadsheet_have_names_of_their_own() -> None:
    content = b"ts,v,,\n2026-11-20T10:00:00Z,1,,x\n"
    rows, refused = read_rows(declare({"v": "int"}), content, CSV)
    assert not refused and rows[0][2] == '{"":null,"column 4":"x"}'


CRI = [f"{TEN} stdout F a P b\n", f"{TEN} stdout P one \n", f"{TEN} stderr F x\n"]
DOCKER = [
    f'{{"log":"{log}","stream":"{stream}","time":"{TEN}"}}\n'
    for log, stream in (("a P b\\n", "stdout"), ("one ", "stdout"), ("x\\n", "stderr"))
]


@pytest.mark.parametrize(("name", "lines"), [("cri", CRI), ("docker", DOCKER)])
def test_lines_wait_for_the_parts_of_any_stream(name: str, lines: list[str]) -> None:
    whole, part, other = (line.encode() for line in lines)
    for content, complete in (
        (whole, whole),
        (whole + part, whole),
        (whole + part + other, whole),
        (whole + part + other + whole + other, whole + part + other + whole + other),
        (b"no record\n" + whole, b"no record\n" + whole),
        (part + other * 40_000, part + other * 40_000),
    ):
        assert find_joined_end(content, name) == len(complete)
