"""Matchers: Alertmanager's syntax, read and written."""

import pytest

from moirae.config import Matcher
from moirae.config.matchers import format_matchers, match_all, parse_matchers, sort_matchers


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ('severity="page"', [("severity", "=", "page")]),
        ("severity = page", [("severity", "=", "page")]),
        ('{a="b", c!~"d,e",}', [("a", "=", "b"), ("c", "!~", "d,e")]),
        ('"über x"="y"', [("über x", "=", "y")]),
        (r'a="q\"u\\o\nte"', [("a", "=", 'q"u\\o\nte')]),
        (r'a=~"\d+"', [("a", "=~", r"\d+")]),
        ("a=", [("a", "=", "")]),
        ("foo-bar=x", [("foo-bar", "=", "x")]),
        ("topology.kubernetes.io/zone =~ eu.*", [("topology.kubernetes.io/zone", "=~", "eu.*")]),
        (r'a="b\tc"', [("a", "=", r"b\tc")]),
        (r'"a"="b\tc\u00e9"', [("a", "=", "b\tcé")]),
        ("{}", []),
        ("a=b c", [("a", "=", "b c")]),
        ("{a=b", [("a", "=", "b")]),
        ('"a"="\\x41\\101"', [("a", "=", "AA")]),
        ('{"a"=x , b!=y}', [("a", "=", "x"), ("b", "!=", "y")]),
    ],
)
def test_matchers_are_read_as_alertmanager_writes_them(
    text: str, matchers: list[tuple[str, str, str]]
) -> None:
    assert [(m.name, m.operator, m.value) for m in parse_matchers(text)] == matchers


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a b=c", r'"a"="\d"', r'"a"="\ud800"', 'a="b', 'a="b"c', "a=~(", 'a=b"c'),
        *("a=x,,b=y", ",a=x", "foo.x=a b", "foo.x=", '"a"=b"', '{"a"=b', '"a"="\n"', '"a"="\\xff"'),
        *('"a"=,', '"a"="b" "c"="d"', '"a"="b",,'),
    ],
)
def test_invalid_matcher_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_matchers(text)


@pytest.mark.parametrize(
    ("matcher", "labels", "matches"),
    [
        (Matcher("a", "=", "b"), {"a": "b"}, True),
        (Matcher("a", "=", ""), {}, True),
        (Matcher("a", "!=", "b"), {}, True),
        (Matcher("a", "=~", "b|c"), {"a": "bc"}, False),
        (Matcher("a", "=~", "b.*"), {"a": "bc"}, True),
        (Matcher("a", "!~", "b.*"), {"a": "abc"}, True),
        (Matcher("a", "=~", ".*"), {}, True),
    ],
)
def test_label_that_is_missing_is_empty_and_patterns_match_whole_values(
    matcher: Matcher, labels: dict[str, str], matches: bool
) -> None:
    assert match_all([matcher], labels) is matches


def test_matchers_are_written_so_that_they_are_read_again() -> None:
    matchers = sort_matchers(
        [Matcher("b", "=~", 'x"\\\n'), Matcher("a", "!=", "2"), Matcher("ü d", "=", "1")]
    )
    text = format_matchers(matchers)
    assert text == '{a!="2",b=~"x\\"\\\\\\n","ü d"="1"}'
    assert parse_matchers(text) == matchers
