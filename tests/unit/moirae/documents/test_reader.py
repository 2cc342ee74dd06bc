"""YAML documents: positions of keys and values, and rejected files."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.documents.reader import Document, parse_document, read_document
from tests.examples import examples


def read(text: str) -> Document:
    document, problems = parse_document("f.yaml", text, empty_message="nothing here")
    assert problems == ()
    assert document is not None
    return document


def parse_problems(text: str) -> list[str]:
    return [
        str(problem) for problem in parse_document("f.yaml", text, empty_message="nothing here")[1]
    ]


def test_keys_and_values_have_positions() -> None:
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
def test_each_character_of_a_text_has_its_position_in_the_file(text: str) -> None:
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
            position = document.text_position(path, row, column)
            rest = lines[position.line - 1][position.column - 1 :]
            assert rest[0] == character or rest[0] == "\\", (row, column, position)


def test_position_past_the_end_of_a_text_is_its_end() -> None:
    document = read("a: |\n  one\n  two\nb: ''\nc: 5\n")
    assert document.text_position(("a",), 2, 99) == (3, 6)
    assert document.text_position(("a",), 99, 1) == (3, 6)
    assert document.text_position(("b",), 1, 1) == (4, 4)
    assert document.text_position(("c",), 1, 1) == (5, 4)
    assert document.text_position(("d",), 1, 1) == (1, 1)


def test_windows_line_ends_keep_positions() -> None:
    document = read("a: |\r\n  one\r\n  two\r\nb: 1\r\n")
    assert document.data == {"a": "one\ntwo\n", "b": 1}
    assert document.text_position(("a",), 2, 2) == (3, 4)


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_invalid_document_is_rejected(text: str, message: str) -> None:
    (problem,) = parse_problems(text)
    assert problem.startswith(message) or problem.endswith(message)


def test_problems_that_allow_further_parsing_are_reported_together() -> None:
    document, problems = parse_document("f.yaml", "a: 1\na: 2\nb: .inf\nc: 3\n", empty_message="")
    assert document is not None
    assert [problem.line for problem in problems] == [2, 3]
    assert (document.data["a"], document.data["c"]) == (1, 3)


def test_alias_bomb_is_rejected_without_expansion() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"{n}: &{n} [{','.join([f'*{chr(ord(n) - 1)}'] * 9)}]\n" for n in "bcdefg")
    tracemalloc.start()
    begin = time.monotonic()
    assert len(parse_problems(bomb)) == 1
    assert time.monotonic() - begin < 1
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_document_is_read_from_a_file_of_limited_size_in_utf_8(tmp_path: Path) -> None:
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


@examples(500)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    document, problems = parse_document("f.yaml", text, empty_message="empty")
    assert (document is not None) or problems
    for problem in problems:
        assert problem.line is None or problem.line >= 1
        assert len(str(problem)) < 500
