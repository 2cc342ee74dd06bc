"""The choice of anchors from a necessary condition."""

from moirae.evaluation.index.anchors import Anchor, all_of, anchors_in, any_of, choose

COMMON = Anchor("image", "contains", ".exe")
RARE = Anchor("image", "contains", "mimikatz")
OTHER = Anchor("user", "equals", "system")
SHARES = {COMMON: 0.9, RARE: 0.01, OTHER: 0.2}


def test_of_several_constants_the_rarest_is_chosen() -> None:
    necessary = all_of([COMMON, any_of([RARE, OTHER]), None])
    choice = choose(necessary, SHARES.__getitem__)
    assert choice is not None
    assert choice.anchors == {RARE, OTHER}
    assert choice.frequency == 0.01 + 0.2
    assert anchors_in(necessary) == {COMMON, RARE, OTHER}


def test_an_alternative_without_constants_makes_every_row_a_candidate() -> None:
    assert any_of([RARE, None]) is None
    assert all_of([None, None]) is None
    assert choose(None, SHARES.__getitem__) is None
