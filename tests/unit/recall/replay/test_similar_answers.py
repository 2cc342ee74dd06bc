"""Comparison of stored and recomputed hits."""

from recall.replay.similar_answers import describe_difference

HIT = {"rank": 1, "past_eid": "x", "score": 0.5}


def test_equal_scores_may_differ_in_the_last_digits() -> None:
    assert describe_difference([HIT], [{**HIT, "score": 0.5 + 1e-12}]) is None


def test_first_difference_of_hits_is_reported() -> None:
    assert describe_difference([HIT], []) == "the stored answer has 1 hits, the replayed one 0"
    other_event = describe_difference([HIT], [{**HIT, "past_eid": "y"}])
    assert other_event == "hit 1 was x, now it is y"
    other_score = describe_difference([HIT], [{**HIT, "score": 0.6}])
    assert other_score == "hit 1 had the score 0.5, now 0.6"
