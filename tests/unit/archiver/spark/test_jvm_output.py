"""Which lines of a JVM's standard error are logged."""

import pytest

from archiver.spark.jvm_output import select_unexpected

TRACEBACK = [
    b"Traceback (most recent call last):\n",
    b'  File "daemon.py", line 1, in manager\n',
    b"    outfile.flush()\n",
]


@pytest.mark.parametrize(
    "last", [b"BrokenPipeError: [Errno 32] Broken pipe\n", b"ConnectionResetError: x\n"]
)
def test_tracebacks_of_closed_connections_are_left_out(last: bytes) -> None:
    lines = [b"before\n", *TRACEBACK, last, b"\n", b"after\n"]
    assert list(select_unexpected(lines)) == ["before", "after"]


def test_other_tracebacks_are_whole() -> None:
    lines = [*TRACEBACK, b"ValueError: x\n", b"after\n"]
    assert list(select_unexpected(lines)) == [
        *(line.decode().rstrip() for line in TRACEBACK),
        "ValueError: x",
        "after",
    ]


def test_a_traceback_that_does_not_end_is_there_at_the_end() -> None:
    assert len(list(select_unexpected(TRACEBACK))) == len(TRACEBACK)
