"""The golden files hold the present texts, so that each change of wording is reviewed."""

import pytest

from tests.golden.collect import COLLECTORS, GOLDEN


@pytest.mark.parametrize("name", COLLECTORS)
def test_texts_match_the_golden_file(name: str) -> None:
    """After an intended change: `python -m tests.golden.collect`, then review the difference."""
    assert COLLECTORS[name]() == (GOLDEN / name).read_text()
