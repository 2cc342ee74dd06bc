"""Replacement of characters that a stream cannot show."""

import io
import json
import os
import sys

import pytest

from moirae.runtime import standard_streams
from moirae.runtime.standard_streams import is_utf8, replace_unencodable, write_json


def _stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("a – b …", "ascii", "a - b ..."),
        ("±1 ≥ 2 → x", "ascii", "+-1 >= 2 -> x"),
        ("±1", "latin-1", "±1"),
        ("╭─┬│╯━", "ascii", "+-+|+-"),
        ("ö", "ascii", "\\xf6"),
        ("中😀", "latin-1", "\\u4e2d\\U0001f600"),
        ("\udcff", "ascii", "\\xff"),
        ("ö – 中", "utf-8", "ö – 中"),
    ],
)
def test_unencodable_characters_are_replaced(text: str, encoding: str, shown: str) -> None:
    assert replace_unencodable(text, _stream(encoding)) == shown


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", True), ("UTF8", True), ("latin-1", False), ("ascii", False), ("cp1252", False)],
)
def test_utf8_is_recognised_by_any_name(encoding: str, expected: bool) -> None:
    assert is_utf8(_stream(encoding)) is expected


def test_stream_in_memory_shows_every_character() -> None:
    assert is_utf8(io.StringIO())


@pytest.mark.parametrize(("encoding", "is_ascii"), [("latin-1", True), ("utf-8", False)])
def test_json_is_ascii_unless_the_stream_is_utf8(
    encoding: str, is_ascii: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = _stream(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    write_json('{"ö":"中😀\\n"}'.encode())
    stream.flush()
    written = stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert json.loads(written) == {"ö": "中😀\n"}
    assert written.isascii() is is_ascii


def test_other_errors_than_those_of_encoding_are_raised() -> None:
    standard_streams.register_replacements()
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", "moirae.replace")


@pytest.mark.parametrize("code", [0, 1])
def test_result_of_a_command_is_kept_when_its_reader_has_enough(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = io.TextIOWrapper(io.FileIO(writer, "w"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    standard_streams.prepare_stdout()
    standard_streams.keep_exit_code(code)
    sys.stdout.write("PROBLEM: …\n")
    with pytest.raises(SystemExit) as end:
        sys.stdout.flush()
    assert end.value.code == code
    sys.stdout.close()
