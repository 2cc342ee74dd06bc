"""Values of Sigma rules become predicates over a column."""

import pytest
from sigma.types import SigmaString

from moirae.errors import NotImported
from moirae.sigma.fields import MappedField
from moirae.sigma.predicates import join_chain, match_any_text, match_text, parse_text

TEXT = MappedField("t", "string")
NUMBER = MappedField("n", "int")


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        ("Cmd", TEXT, "lower(t) = 'cmd'"),
        ("42", TEXT, "t = '42'"),
        ("*Cmd*", TEXT, "contains(lower(t), 'cmd')"),
        ("Cmd*", TEXT, "startswith(lower(t), 'cmd')"),
        ("**Cmd", TEXT, "endswith(lower(t), 'cmd')"),
        ("a*b?c", TEXT, "lower(t) LIKE 'a%b_c'"),
        ("*5%\\*x", TEXT, "endswith(lower(t), '5%*x')"),
        ("a_*b", TEXT, r"lower(t) LIKE 'a\\_%b'"),
        ("*", TEXT, "t IS NOT NULL"),
        ("", TEXT, "t = ''"),
        ("7", NUMBER, "n = 7"),
        ("07", NUMBER, "CAST(n AS STRING) = '07'"),
        ("7*", NUMBER, "startswith(CAST(n AS STRING), '7')"),
        ("TRUE", MappedField("b", "boolean"), "b = true"),
    ],
)
def test_value_becomes_a_predicate(value: str, field: MappedField, expected: str) -> None:
    assert match_text(field, parse_text(SigmaString(value))) == expected


def test_cased_value_is_compared_as_it_is() -> None:
    assert match_text(TEXT, parse_text(SigmaString("*Cmd"), is_cased=True)) == "endswith(t, 'Cmd')"


def test_alternatives_become_a_list_or_a_pattern() -> None:
    equal = [parse_text(SigmaString(name)) for name in ("A", "b", "a")]
    assert match_any_text(TEXT, equal) == ["lower(t) IN ('a', 'b')"]
    many = [parse_text(SigmaString(f"*x.{number}*")) for number in range(100)]
    (pattern,) = match_any_text(TEXT, many)
    assert pattern.startswith(r"lower(t) RLIKE '(x\\.0|x\\.1|")
    few = many[:2]
    assert match_any_text(TEXT, few) == ["contains(lower(t), 'x.0')", "contains(lower(t), 'x.1')"]


def test_long_chain_is_grouped() -> None:
    text = join_chain([f"c{number}" for number in range(120)], "OR")
    assert text.count("(") == 3
    assert text.count("OR") == 119


def test_time_is_not_compared_with_text() -> None:
    with pytest.raises(NotImported, match="is a timestamp"):
        match_text(MappedField("ts", "timestamp"), parse_text(SigmaString("x")))


def test_control_characters_are_a_reason() -> None:
    with pytest.raises(NotImported, match="control characters"):
        parse_text(SigmaString("a\0b"))
