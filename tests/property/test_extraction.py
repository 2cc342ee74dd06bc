"""What `regexp_extract` returns in the index is what a backtracking matcher finds."""

import re

from hypothesis import given
from hypothesis import strategies as st

from moirae.evaluation.index.patterns import compile_extraction
from recall.errors import SparkRequired

_ATOMS = st.sampled_from(["a", "b", "ab", "[ab]", "[^a]", r"\d", ".", "^", "a{1,2}"])
_REPEATS = st.sampled_from(["", "", "?", "*", "+", "??", "*?", "+?", "{1,2}"])


def _extend(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequences = st.lists(parts, min_size=1, max_size=3).map("".join)
    groups = st.tuples(st.sampled_from(["(", "(?:"]), sequences, sequences, _REPEATS)
    return groups.map(lambda part: f"{part[0]}{part[1]}|{part[2]}){part[3]}")


_PATTERNS = st.lists(st.recursive(_ATOMS, _extend, max_leaves=5), min_size=1, max_size=3)


@given(
    st.tuples(st.sampled_from(["", "", "(?i)"]), _PATTERNS.map("".join)).map("".join),
    st.lists(st.text("abAB1c", max_size=6), min_size=1, max_size=4),
    st.integers(0, 2),
)
def test_group_is_that_of_a_backtracking_matcher(
    pattern: str, texts: list[str], number: int
) -> None:
    try:
        extract = compile_extraction(pattern, number)
        compiled = re.compile(pattern)
    except (SparkRequired, re.error):
        return
    for text in texts:
        match = compiled.search(text)
        assert extract(text) == ((match.group(number) or "") if match else "")
