"""Literals and names are read by the parser as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from moirae.sigma.sql_text import (
    escape_like,
    escape_regex,
    fold_text,
    has_letters,
    quote_name,
    quote_text,
)
from recall.query import parse


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_literal_is_the_text(text: str) -> None:
    for value in (text, f"{text}\n\t\\'"):
        literal = parse(f"SELECT {quote_text(value)} AS a").selects[0].this
        assert literal.this == value


@pytest.mark.parametrize("name", ["Image", "order", "Group", "a b", "x`y", "_"])
def test_name_is_one_column(name: str) -> None:
    column = parse(f"SELECT {quote_name(name)} FROM t").selects[0]
    assert isinstance(column, exp.Column)
    assert column.name == name


def test_texts_are_escaped_for_patterns() -> None:
    assert escape_like(r"50%_\x") == r"50\%\_\\x"
    assert escape_regex("a.b😀[é") == r"a\.b😀\[é"


def test_case_matters_to_letters_only() -> None:
    assert not has_letters("4624 \\ 😀 –")
    assert has_letters("4624a")
    assert has_letters("İ")
    assert fold_text("AB") == "'ab'"
    assert fold_text("Ü") == "lower('Ü')"
