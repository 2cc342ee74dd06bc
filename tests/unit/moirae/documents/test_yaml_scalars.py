"""Scalars of YAML 1.2: types, spelling."""

from __future__ import annotations

from typing import Any

import pytest

from moirae.documents.reader import Document, parse_document


def read(text: str) -> Document:
    document, problems = parse_document("f.yaml", text, empty_message="nothing here")
    assert problems == ()
    assert document is not None
    return document


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_scalar_has_the_type_of_yaml_1_2(text: str, expected: Any) -> None:
    value = read(f"a: {text}\n").data["a"]
    assert value == expected
    assert isinstance(value, type(expected))


def test_keys_are_text() -> None:
    assert read("on: 1\nno: 2\n1: 3\ntrue: 4\n").data == {"on": 1, "no": 2, "1": 3, "true": 4}


def test_numbers_keep_their_spelling() -> None:
    data = read("a: 1.10\nb: 0x10\n").data
    assert (data["a"].source_text, data["b"].source_text) == ("1.10", "0x10")
