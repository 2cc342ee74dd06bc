"""Java's patterns as trees with places."""

import pytest

from moirae.rules.checks.pattern_parts import ANY, PatternPart, parse_parts


def _atoms(part: PatternPart) -> list[PatternPart]:
    if part.kind == "characters":
        return [part]
    return [atom for inner in part.parts for atom in _atoms(inner)]


@pytest.mark.parametrize(
    ("pattern", "characters"),
    [
        ("[a-c]", set(b"abc")),
        ("(?i)[a-b]", set(b"abAB")),
        ("[^a]", ANY - set(b"a")),
        (r"[\d_]", set(b"0123456789_")),
        (r"\t", set(b"\t")),
        (r"[a&&b]", ANY),
        ("é", {233}),
        ("日", {256}),
        ("[]a]", set(b"]a")),
        ("[a-]", set(b"a-")),
    ],
)
def test_characters_of_a_part(pattern: str, characters: set[int]) -> None:
    (atom,) = _atoms(parse_parts(pattern))
    assert atom.characters == characters


def test_places_of_repetitions() -> None:
    pattern = "ab(cd){2,5}?e"
    (repetition,) = [part for part in parse_parts(pattern).parts if part.kind == "repetition"]
    assert pattern[repetition.start : repetition.end] == "(cd){2,5}?"
    assert (repetition.least, repetition.most) == (2, 5)


@pytest.mark.parametrize("pattern", ["(", ")", "[", "a{", "\\"])
def test_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"parenthesis|end|numbers"):
        parse_parts(pattern)
