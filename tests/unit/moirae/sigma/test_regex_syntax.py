"""Regular expressions of Sigma rules are written in the syntax of Java."""

import pytest

from moirae.errors import NotImported
from moirae.sigma.regex_syntax import to_java_regex


@pytest.mark.parametrize(
    ("pattern", "flags", "expected"),
    [
        ("a.b", "", "a.b"),
        ("a.b", "i", "(?iu)a.b"),
        ("(?i)a", "s", "(?isu)a"),
        ("[[x]", "", r"[\[x]"),
        ("[^]a&&b]", "", r"[^\]a\&\&b]"),
        ("[[:alpha:]_[:^digit:]]", "", r"[\p{Alpha}_\P{Digit}]"),
        ("a{2,3}b{x}", "", r"a{2,3}b\{x}"),
        (r"\p{L}\x{41}\[", "", r"\p{L}\x{41}\["),
    ],
)
def test_pattern_has_the_same_meaning_in_java(pattern: str, flags: str, expected: str) -> None:
    assert to_java_regex(pattern, flags) == expected


@pytest.mark.parametrize("pattern", ["(?P<a>x)", "(?R)", r"a\K", "[a", "(*SKIP)", "a\\"])
def test_what_java_lacks_is_a_reason(pattern: str) -> None:
    with pytest.raises(NotImported, match=r"regular expression"):
        to_java_regex(pattern, "")
