"""The reader of YAML: meaning, places, refusals."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moirae.documents.reader import Document, parse_document, read_document


def read(text: str) -> Document:
    document, problems = parse_document("f.yaml", text, empty_message="nothing here")
    assert problems == ()
    assert document is not None
    return document


def complaints(text: str) -> list[str]:
    return [
        str(problem) for problem in parse_document("f.yaml", text, empty_message="nothing here")[1]
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NO", "NO"),
        ("on", "on"),
        ("yes", "yes"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("1_000_000", 1_000_000),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("-1.5e3", -1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("_1", "_1"),
        ("1__0", "1__0"),
        ("9" * 50, "9" * 50),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ('"a\\tb"', "a\tb"),
        ("a b", "a b"),
        ("[1, [x]]", [1, ["x"]]),
        ("{on: off}", {"on": "off"}),
    ],
)
def test_values_mean_what_yaml_1_2_says(written: str, meant: Any) -> None:
    value = read(f"a: {written}\n").data["a"]
    assert value == meant
    assert isinstance(value, type(meant))


def test_keys_are_text() -> None:
    assert read("on: 1\nno: 2\n1: 3\ntrue: 4\n").data == {"on": 1, "no": 2, "1": 3, "true": 4}


def test_numbers_remember_their_spelling() -> None:
    data = read("a: 1.10\nb: 0x10\n").data
    assert (data["a"].source_text, data["b"].source_text) == ("1.10", "0x10")


def test_places_of_keys_and_values() -> None:
    document = read("streams:\n  cpu:\n    id: [a, b]\n  empty:\nx: |\n\n    text\n")
    assert document.key_position(("streams", "cpu")) == (2, 3)
    assert document.position(("streams", "cpu")) == (3, 5)
    assert document.position(("streams", "cpu", "id", 1)) == (3, 13)
    assert document.position(("streams", "empty")) == (4, 3)
    assert document.position(("x",)) == (7, 5)
    assert document.position(("streams", "cpu", "none", 3)) == (2, 3)
    assert document.key_position(()) == (1, 1)


SCALARS = [
    "a: SELECT host FROM cpu",
    "a: 'it''s a ''quoted'' host'",
    'a: "tab\\there \\"host\\" \\x41 \\u0020 \\\\ host"',
    "a: |\n  SELECT host,\n    cpu\n\n  FROM cpu",
    "a: |-  # why\n\n      SELECT host\n      FROM cpu\n",
    "a: |2\n   SELECT host",
    "a: >\n  SELECT host\n  FROM cpu\n\n  WHERE host\n",
    "a: SELECT host\n  FROM cpu\n  WHERE host",
    'a: "SELECT host\n  FROM cpu\\\n  WHERE host"',
    "a: {b: SELECT host}",
    "- a: |\n    SELECT host\n".replace("- a", "a:\n- a"),
]


@pytest.mark.parametrize("text", SCALARS)
def test_each_character_of_a_text_is_found_in_the_file(text: str) -> None:
    document = read(text)
    path: tuple[str | int, ...] = ("a",)
    value: Any = document.data["a"]
    while not isinstance(value, str):
        step: str | int = 0 if isinstance(value, list) else next(iter(value))
        path, value = (*path, step), value[step]
    lines = text.split("\n")
    for row, line in enumerate(value.split("\n"), 1):
        for column, character in enumerate(line, 1):
            if character.isspace():
                continue
            place = document.text_position(path, row, column)
            found = lines[place.line - 1][place.column - 1 :]
            assert found[0] == character or found[0] == "\\", (row, column, place)


def test_places_past_the_end_of_a_text() -> None:
    document = read("a: |\n  one\n  two\nb: ''\nc: 5\n")
    assert document.text_position(("a",), 2, 99) == (3, 6)
    assert document.text_position(("a",), 99, 1) == (3, 6)
    assert document.text_position(("b",), 1, 1) == (4, 4)
    assert document.text_position(("c",), 1, 1) == (5, 4)
    assert document.text_position(("d",), 1, 1) == (1, 1)


def test_windows_line_ends() -> None:
    document = read("a: |\r\n  one\r\n  two\r\nb: 1\r\n")
    assert document.data == {"a": "one\ntwo\n", "b": 1}
    assert document.text_position(("a",), 2, 2) == (3, 4)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "f.yaml:1:1: nothing here"),
        ("# only a note\n", "f.yaml:1:1: nothing here"),
        ("---\n", "f.yaml:1:1: nothing here"),
        ("~\n", "f.yaml:1:1: nothing here"),
        ("- a\n", "f.yaml:1:1: the file must contain a mapping, `key: value`"),
        ("text\n", "f.yaml:1:1: the file must contain a mapping, `key: value`"),
        ("a: 1\nb:\n  c: 2\n  c: 3\n", "f.yaml:4:3: b: duplicate key 'c', first on line 3"),
        (
            "a: &x 1\n",
            "f.yaml:1:4: a: anchors (&) are not allowed; write values out where they are used",
        ),
        ("a: *x\n", "f.yaml:1:4: a: aliases (*) are not allowed; write the value out"),
        ("a: !!str 1\n", "f.yaml:1:4: a: tags (!) are not allowed: 'tag:yaml.org,2002:str'"),
        ("a: ! 1\n", "f.yaml:1:4: a: tags (!) are not allowed: '!'"),
        (
            "a:\n  <<: {b: 1}\n",
            "f.yaml:2:3: a: merge keys (<<) are not allowed; write the values out",
        ),
        ("? [a]\n: 1\n", "f.yaml:1:3: a key must be text"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2:1: only one document is allowed in a file"),
        ("%YAML 1.1\n---\na: NO\n", "f.yaml:2:1: directives (%) are not allowed"),
        ("a: .nan\n", "f.yaml:1:4: a: must be a finite number, not .nan"),
        ("a:\n- -.Inf\n", "f.yaml:2:3: a[0]: must be a finite number, not -.Inf"),
        ("a: 1e999\n", "f.yaml:1:4: a: must be a finite number, not 1e999"),
        ("a: 1\nb: x\0y\n", "f.yaml:2:5: character U+0000 is not allowed"),
        ("a: x\ry\n", "f.yaml:1:5: character U+000D is not allowed"),
        ("a: x\u2028y\n", "f.yaml:1:5: character U+2028 is not allowed"),
        ('a: "\\0"\n', "f.yaml:1:4: a: character U+0000 is not allowed"),
        ('a: "\\U00110000"\n', "f.yaml:1:1: a: not YAML: chr() arg not in range(0x110000)"),
        ("a: [1\n", "f.yaml:2:1: a: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: " + "[" * 40, "nested deeper than 32 levels"),
        ("a: [" + "1," * 40_000 + "]", "more than 30000 values; split the file"),
        ("a: " + "x" * 100_001, "f.yaml: a line is longer than 100000 characters"),
        ("a: |\n" + "  0123456789\n" * 90_000, "f.yaml: larger than 1 MiB; split the file"),
    ],
)
def test_what_is_refused(text: str, complaint: str) -> None:
    (found,) = complaints(text)
    assert found.startswith(complaint) or found.endswith(complaint)


def test_faults_that_can_be_gone_on_after_come_together() -> None:
    document, problems = parse_document("f.yaml", "a: 1\na: 2\nb: .inf\nc: 3\n", empty_message="")
    assert document is not None
    assert [problem.line for problem in problems] == [2, 3]
    assert (document.data["a"], document.data["c"]) == (1, 3)


def test_an_alias_bomb_is_refused_at_once() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"{n}: &{n} [{','.join([f'*{chr(ord(n) - 1)}'] * 9)}]\n" for n in "bcdefg")
    tracemalloc.start()
    begin = time.monotonic()
    assert len(complaints(bomb)) == 1
    assert time.monotonic() - begin < 1
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    assert read_document(file, empty_message="")[1][0].message.startswith(
        "cannot be read: No such file"
    )
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    document, _ = read_document(file, empty_message="")
    assert document is not None
    assert document.data == {"a": 1}
    file.write_bytes(b"a: 1\nb: \xff\n")
    assert str(read_document(file, empty_message="")[1][0]) == f"{file}:2: not UTF-8 text"
    file.write_bytes(b"#" * (1 << 20) + b"#")
    assert "larger than 1 MiB" in read_document(file, empty_message="")[1][0].message


PIECES = [
    "a",
    "- ",
    ": ",
    "\n",
    "  ",
    "|",
    ">",
    "'",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    "&x",
    "*x",
    "!t",
    "?",
]
PIECES += [
    "---",
    "...",
    "%YAML 1.2",
    "<<",
    "1",
    ".nan",
    "\t",
    "\r",
    "\0",
    "\ufeff",
    "\ud800",
    "é",
    "\x85",
]


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    document, problems = parse_document("f.yaml", text, empty_message="empty")
    assert (document is not None) or problems
    for problem in problems:
        assert problem.line is None or problem.line >= 1
        assert len(str(problem)) < 500
