"""Tests by regular expressions: what is searched as text, and what RE2 must not decide."""

import pytest

from moirae.evaluation.index.anchors import Anchor, AnyOf
from moirae.evaluation.index.patterns import Undecided, compile_regex
from moirae.evaluation.index.text_columns import map_text
from recall.errors import SparkRequired


def holds(pattern: str, text: str) -> bool:
    test = compile_regex(pattern)
    return test.holds(map_text(text, test.case), text)


def necessary_texts(pattern: str) -> set[str]:
    necessary = compile_regex(pattern).necessary(
        lambda text: Anchor("c", "contains", text) if text else None
    )
    if isinstance(necessary, Anchor):
        return {str(necessary.constant)}
    assert isinstance(necessary, AnyOf)
    return {str(part.constant) for part in necessary.parts if isinstance(part, Anchor)}


def test_end_of_text_is_also_before_a_last_line_end() -> None:
    for end in ("", "\n", "\r\n", "\r", "\u2028"):
        assert holds(r"(?iu)(\\cmd\.exe|\\sh)$", "C:\\CMD.EXE" + end)
    assert not holds(r"(?iu)\\cmd\.exe$", "C:\\CMD.EXE\n\n")


def test_dot_stops_at_line_ends_unless_the_flag_s_is_set() -> None:
    assert not holds("a.b", "a\u2028b")
    assert holds("(?s)a.b", "a\u2028b")


def test_alternatives_that_fold_alike_are_one_anchor() -> None:
    assert necessary_texts("[Pp]rogram[Dd]ata") == {"programdata"}
    assert necessary_texts("(?iu).*(Foo|BAR).*") == {"foo", "bar"}
    assert necessary_texts(r"https?://[0-9]+(?:\.zip)?") == {"http://", "https://"}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"[a-z]+\s$", "a \n"), (r"\bx", "éx"), ("(?iu)[a-z]x", "İx")],
)
def test_spark_decides_where_the_engines_disagree(pattern: str, text: str) -> None:
    with pytest.raises(Undecided):
        holds(pattern, text)


@pytest.mark.parametrize("pattern", ["(?<=a)b", "a*+", r"(a)\1", r"\p{L}", "[a[b]]", "(?x)a b"])
def test_other_patterns_are_left_to_spark(pattern: str) -> None:
    with pytest.raises(SparkRequired):
        compile_regex(pattern)


def test_time_does_not_grow_faster_than_the_text() -> None:
    assert not holds(r"(?:a+)+b[0-9]", "a" * 50_000)
