"""Why a past event is similar, in sentences; also of hostile terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.similarity_reasons import explain_similarity


def test_shared_and_different_terms_become_three_sentences() -> None:
    sentences = explain_similarity(
        [("msg=disk full", 0.5), ("service=web", 0.13), ("zone=a", 0.1), ("day=mon", 0.05)],
        ["host=n7", "msg=out of memory"],
        ["host=n3", "deploy=d7"],
    )
    assert sentences == [
        "Both have msg “disk full”, service web and zone a: 73% of the similarity.",
        "Different: host is n7 now and was n3 then.",
        "Only the new one has msg “out of memory”; only the past one has deploy d7.",
    ]


def test_numbers_become_ranges() -> None:
    sentences = explain_similarity(
        [("port=80", 0.2), ("port=443", 0.2)], ["cpu=95", "cpu=91.5"], ["cpu=20", "cpu=35"]
    )
    assert sentences == [
        "Both have port 80 to 443: 40% of the similarity.",
        "Different: cpu is 91.5 to 95 now and was 20 to 35 then.",
    ]


def test_near_numbers_name_both_ranges() -> None:
    (sentence,) = explain_similarity([("cpu=93.5 95~91.2", 0.4)], ["a=1"], ["a=1"])[:1]
    assert sentence == (
        "Both have cpu near values (93.5 to 95 now, 91.2 then): 40% of the similarity."
    )


def test_hierarchies_are_shortened_to_what_they_share() -> None:
    sentences = explain_similarity(
        [("path=/var/log/a", 0.2), ("path=/var/log/b", 0.2)],
        ["logger=com.acme.db.Pool"],
        ["logger=com.acme.db.Query"],
    )
    assert sentences == [
        "Both have path /var/log/… (2 values): 40% of the similarity.",
        "Different: logger below com/acme/db is Pool now and was Query then.",
    ]


@pytest.mark.parametrize("values", [("10.0.0.1", "10.0.0.2"), ("1.2.3", "1.2.4")])
def test_addresses_and_versions_are_no_hierarchies(values: tuple[str, str]) -> None:
    sentences = explain_similarity([], [f"ip={values[0]}"], [f"ip={values[1]}"])
    assert sentences == [f"Different: ip is {values[0]} now and was {values[1]} then."]


def test_many_values_are_counted() -> None:
    (sentence,) = explain_similarity([(f"msg={name}", 0.1) for name in "abcd"], ["x=1"], [])[:1]
    assert sentence == "Both have msg a, b and 2 more: 40% of the similarity."


def test_equal_contexts_are_said_to_be_equal() -> None:
    assert explain_similarity([("msg=a", 1.0)], [], []) == [
        "Both have msg a: 100% of the similarity.",
        "Their contexts have the same terms.",
    ]


def test_no_terms_no_sentences() -> None:
    assert explain_similarity([], [], []) == []


@pytest.mark.parametrize(
    ("term", "shown"),
    [
        ("msg=", "msg an empty value"),
        ("=x", "a term x"),
        ("no separator", "a term “no separator”"),
        ("msg=a=b", "msg “a=b”"),
        ("msg=two\nlines\tand\x1b[31mred", "msg “two lines and [31mred”"),
        ("msg=\u202egnp.exe\u2066", "msg gnp.exe"),
        ("msg=<script>alert(1)</script>", "msg “<script>alert(1)</script>”"),
        ("msg=\x00", "msg an empty value"),
        ("n=1e999", "n 1e999"),
        ("n=nan", "n nan"),
        ("n=1_000", "n 1_000"),
        ("path=///", "path ///"),
    ],
)
def test_odd_terms_are_shown_in_one_line(term: str, shown: str) -> None:
    assert explain_similarity([(term, 0.5)], ["x=1"], [])[0] == (
        f"Both have {shown}: 50% of the similarity."
    )


def test_long_values_are_shortened() -> None:
    sentences = explain_similarity([(f"{'n' * 500}={'v' * 1_000_000}", 0.5)], ["x" * 9_999], [])
    assert sentences[0].endswith("v…”: 50% of the similarity.")
    assert all(len(sentence) < 200 for sentence in sentences)


_TERMS = st.text(max_size=40)


@given(
    st.lists(st.tuples(_TERMS, st.floats(0, 1)), max_size=12),
    st.lists(_TERMS, max_size=12),
    st.lists(_TERMS, max_size=12),
)
def test_any_terms_give_at_most_three_lines(
    shared: list[tuple[str, float]], only_new: list[str], only_past: list[str]
) -> None:
    sentences = explain_similarity(shared, only_new, only_past)
    assert len(sentences) <= 3
    for sentence in sentences:
        assert sentence.endswith(".") and len(sentence.splitlines()) == 1
        assert "\x1b" not in sentence and "\u202e" not in sentence
        assert len(sentence) < 1_500
    if shared or only_new or only_past:
        assert sentences
