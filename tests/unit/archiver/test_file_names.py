"""Names of files as text."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.file_names import escape_name, unescape_name


@pytest.mark.parametrize(
    "name", ["a.jsonl", "landing/é 20%#?.csv", "back\\slash", "\\x", "日本", "a:b*[c]{d}"]
)
def test_ordinary_name_is_unchanged(name: str) -> None:
    assert escape_name(name) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"l\xe9.jsonl", "l\\xe9.jsonl"),
        (b"a\nb\x7f", "a\\x0ab\\x7f"),
        ("right\u202eleft".encode(), "right\\xe2\\x80\\xaeleft"),
        (b"l\\xe9.jsonl", "l\\x5cxe9.jsonl"),
    ],
)
def test_other_characters_are_escaped_byte_by_byte(name: bytes, text: str) -> None:
    assert escape_name(os.fsdecode(name)) == text


@given(st.lists(st.sampled_from([b"\\", b"x", b"5c", b"e9", b"\xe9", b"\n", "é".encode()])))
def test_escaped_names_are_distinct(parts: list[bytes]) -> None:
    name = os.fsdecode(b"".join(parts))
    assert unescape_name(escape_name(name)) == name


@given(st.binary())
def test_escaped_name_is_text_for_databases_and_terminals(content: bytes) -> None:
    name = os.fsdecode(content)
    text = escape_name(name)
    assert text.encode().decode() == text
    assert not any(ord(char) < 0x20 for char in text)
    assert unescape_name(text) == name
