"""Proposals for lines of programs: each time as it is meant, and what is left of the line."""

from pathlib import Path
from typing import Any

import pytest

from moirae.config import Stream
from moirae.inspect import propose_stream, read_sample
from moirae.inspect.inference.text_inference import infer_labelled

TEN = "2026-11-20T10:00:00"
# Two lines of each program, the time of the first one, and its message.
PROGRAMS: dict[str, tuple[str, str, str | None]] = {
    # Fractions are part of the time.
    "squid": (
        "1795168800.123    119 10.0.0.1 TCP_MISS/200\n1795168801.5      5 10.0.0.1 TCP_HIT/200\n",
        f"{TEN}.123000",
        "119 10.0.0.1 TCP_MISS/200",
    ),
    "apache errors": (
        "[Fri Nov 20 10:00:00.5 2026] [core:error] [pid 1] x\n"
        "[Fri Nov 20 10:00:01.5 2026] [mpm:notice] [pid 1] y\n",
        f"{TEN}.500000",
        "[core:error] [pid 1] x",
    ),
    "hadoop": (
        f"{TEN},123 INFO a.B: x\n{TEN},124 WARN a.B: y\n".replace("T", " "),
        f"{TEN}.123000",
        "a.B: x",
    ),
    "zookeeper": (
        f"{TEN},123 [myid:1] - INFO  [main:x@1] - a\n".replace("T", " ") * 2,
        f"{TEN}.123000",
        "[myid:1] - INFO  [main:x@1] - a",
    ),
    # A word after a time is no host where there is no application.
    "mysql": (
        f"{TEN}.5Z 0 [Warning] [MY-1] x\n{TEN}.6Z 0 [System] [MY-2] y\n",
        f"{TEN}.500000",
        "0 [Warning] [MY-1] x",
    ),
    "consul": (f"{TEN}Z [INFO]  agent: x\n{TEN}Z [WARN]  agent: y\n", TEN, "agent: x"),
    # Times behind other text.
    "redis": (
        "1:M 20 Nov 2026 10:00:00.123 * Ready\n1:C 20 Nov 2026 10:00:01.123 # Bad\n",
        f"{TEN}.123000",
        " * Ready",
    ),
    "haproxy": (
        "10.0.1.2:33 [20/Nov/2026:10:00:00.655] web a\n10.0.1.2:34 [20/Nov/2026:10:00:01.655] web b\n",
        f"{TEN}.655000",
        "] web a",
    ),
    "auditd": (
        "type=SYSCALL msg=audit(1795168800.123:24): a=b\ntype=CWD msg=audit(1795168800.5:24): c=d\n",
        f"{TEN}.123000",
        ":24): a=b",
    ),
    "rails": (
        f"I, [{TEN}.5 #1]  INFO -- : x\nE, [{TEN}.6 #1] ERROR -- : y\n",
        f"{TEN}.500000",
        " #1]  INFO -- : x",
    ),
    "line protocol": (
        "cpu,host=a v=1 1795168800000000000\ncpu,host=b v=2 1795168801000000000\n",
        TEN,
        None,
    ),
    # Records of several lines, whose first one has a time behind a text.
    "slow queries": (
        f"# Time: {TEN}Z\n# User: root\nselect 1;\n# Time: {TEN}Z\n# User: x\nselect 2;\n",
        TEN,
        "# User: root\nselect 1;",
    ),
    # Each record begins with another word.
    "words before times": (
        f"Main::INFO::{TEN},101::a::1::x\nmain()\nThread-2::ERROR::{TEN},300::b\n".replace(
            "T1", " 1"
        ),
        f"{TEN}.101000",
        "::a::1::x\nmain()",
    ),
    # Some times have a fraction, and others none.
    "servers of two versions": (
        "[Fri Nov 20 10:00:00 2026] [error] x\n[Fri Nov 20 10:00:01.5 2026] [core:error] y\n",
        TEN,
        "[error] x",
    ),
    "times of two shapes": (
        "11/20/26 10:00:00.5 web[1].ERR x\n11/20/26, 10:00:01 PM MST.5 web[1].ERR y\n",
        f"{TEN}.500000",
        "web[1].ERR x",
    ),
    "klog with traces": (
        "E1120 10:00:00.5       1 a.go:1] bad\ngoroutine 1:\n\tmain()\n\tx\n",
        f"{TEN}.500000",
        "bad\ngoroutine 1:\n\tmain()\n\tx",
    ),
    "php": (
        "[20-Nov-2026 10:00:00 UTC] PHP Warning: x\n[20-Nov-2026 10:00:01 UTC] PHP Notice: y\n",
        TEN,
        "PHP Warning: x",
    ),
    "coloured": (
        f"\x1b[32m{TEN}\x1b[0m a\n\x1b[31m{TEN}\x1b[0m b\n".replace("T", " "),
        TEN,
        "\x1b[0m a",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_of_programs_are_read_as_proposed(tmp_path: Path, name: str) -> None:
    content, first, message = PROGRAMS[name]
    path = tmp_path / "x.log"
    path.write_text(content)
    declared = Stream.model_validate(propose_stream([path]).declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    assert not sample.refused_count
    row: dict[str, Any] = sample.rows[0]
    assert row["ts"].isoformat()[5:] == f"{first}+00:00"[5:]
    assert row.get("message") == message


def test_lines_above_the_first_record_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "general.log"
    path.write_text(
        "/usr/sbin/db, Version: 8.0. started with:\nTime   Id Command\n"
        f"{TEN}.5Z\t 9 Query\tselect 1\nfrom t\n{TEN}.6Z\t 9 Quit\n{TEN}.7Z\t 9 Quit\n"
    )
    declared = Stream.model_validate(propose_stream([path]).declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    assert [row["message"] for row in sample.rows] == ["9 Query\tselect 1\nfrom t"] + ["9 Quit"] * 2
    assert [(refused.line, refused.record[:4]) for refused in sample.refused] == [(1, "/usr")]


def test_the_order_of_a_date_of_two_digits_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    path.write_text("26/11/20 10:00:00 INFO A: x\n26/11/20 10:00:01 WARN B: y\n")
    proposed = propose_stream([path])
    assert proposed.declaration["time"] == {"column": "ts"} or proposed.declaration["time"] == "ts"
    assert "%d/%m/%y %H:%M:%S or %y/%m/%d %H:%M:%S" in proposed.open_questions[0]


def test_labels_divided_by_tabs_are_fields(tmp_path: Path) -> None:
    path = tmp_path / "x.ltsv"
    path.write_text(
        "time:[20/Nov/2026:10:00:00 +0000]\thost:a\treq:GET / HTTP/1.1\tsize:941\n"
        "time:[20/Nov/2026:10:00:01 +0000]\thost:b\tforwarded-for:c\treq:GET /x\tsize:-\n"
    )
    declared = Stream.model_validate(propose_stream([path]).declaration)
    sample = read_sample("s", declared, path, declared.source.record_format, 10)
    assert sample.refused_count == 0
    rows = [[row[name] for name in ("host", "forwarded_for", "req", "size")] for row in sample.rows]
    assert rows == [["a", None, "GET / HTTP/1.1", 941], ["b", "c", "GET /x", None]]


def test_labels_that_would_be_one_group_are_no_labelled_text() -> None:
    assert infer_labelled([b"a-b:1\ta.b:2"]) is None
    assert infer_labelled([b"a-b:1\ta.c:2"]) is not None
