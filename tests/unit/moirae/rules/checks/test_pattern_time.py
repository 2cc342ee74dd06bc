"""Patterns whose time may grow faster than the length of a value."""

import pytest

from moirae.rules.checks.pattern_time import find_slow_part


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (r"(x+x+)+y", "(x+x+)+ repeats"),
        (r"(a|aa)+$", "(a|aa)+ repeats"),
        (r"(?i)(a|A)*z", "(a|A)* repeats"),
        (r"^(\w+\s?)*$", r"(\w+\s?)* repeats"),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "(([a-z])+.)+ repeats"),
        (r"(?:(?:[^,]*,?)*);", "(?:[^,]*,?)* repeats"),
        (r"\d+\d+x", r"\d+\d+ has repetitions"),
        (r"[^a]*b?[^b]*c", "[^a]*b?[^b]* has repetitions"),
        (r"(.*)(.*)#", "has repetitions that match the same characters"),
        (r"[a-z&&[^x]]+[a-z]+1", "[a-z&&[^x]]+[a-z]+ has repetitions"),
        (r"\p{L}+\w+!", r"\p{L}+\w+ has repetitions"),
        (r"(?=.*(a+)+b)c", "(a+)+ repeats"),
        (r"(.+)\1x", ".+ is tried again from each character"),
        (r"foo(?!bar).*a.*b", ".*a.* has repetitions"),
    ],
)
def test_slow_part_is_named(pattern: str, part: str) -> None:
    message = find_slow_part(pattern)
    assert message is not None
    assert part in message


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a",
        "(?iu).*(a|b).*",
        "(?isu)^.*net.*\\|.*find.*$",
        r"://[0-9]{1,3}\.[0-9]{1,3}",
        "(ab|ac)*d",
        "^(a+b)+$",
        "a++b+c",
        r"\Q(x+x+)+\Ey",
        r"^[^@]+@[^@]+\.com$",
        r"(?i)\bpass(word)?\s*[:=]\s*\S+",
        "(a+)+",
        "[(a+)+]y",
        "(",
        "a{",
        "[a",
        "\\",
        "(?<name>a)b",
        "*",
    ],
)
def test_other_patterns_are_not_named(pattern: str) -> None:
    assert find_slow_part(pattern) is None


def test_long_parts_are_cut() -> None:
    message = find_slow_part("(" + "a+" * 100 + ")+y")
    assert message is not None and len(message) < 140
