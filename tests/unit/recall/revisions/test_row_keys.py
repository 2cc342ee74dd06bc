"""Keys of the rows of answers."""

from recall.requests import SimilarQuestion
from recall.revisions.row_keys import describe_rows, key_rows, question_row_key

SIMILAR = SimilarQuestion(None, 1.0, "newest", ("c",), 10, "tfidf", 0)


def test_rows_without_key_are_counted() -> None:
    assert list(key_rows([{"a": 1}, {"a": 1}, {"a": 2}], None)) == [
        '[{"a":1},1]',
        '[{"a":1},2]',
        '[{"a":2},1]',
    ]


def test_key_columns_identify_a_row() -> None:
    assert list(key_rows([{"a": 1, "n": 5}], ("a",))) == ['{"a":1}']
    assert list(key_rows([{"n": 5}], ())) == ["{}"]


def test_order_of_columns_does_not_matter() -> None:
    first = key_rows([{"a": 1, "b": 2}], None)
    assert first.keys() == key_rows([{"b": 2, "a": 1}], None).keys()


def test_hits_are_shown_without_their_explanation() -> None:
    hit = {"past_eid": "e", "rank": 1, "score": 0.5, "past_ts": 1_000_000, "shared": [["a", 1.0]]}
    assert question_row_key(SIMILAR) == ("past_eid",)
    assert describe_rows(SIMILAR, [hit]) == [
        {
            "past_eid": "e",
            "rank": 1,
            "score": 0.5,
            "past_ts": "1970-01-01T00:00:01.000000Z",
        }
    ]
