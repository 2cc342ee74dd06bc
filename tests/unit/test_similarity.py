"""Similarity of contexts: the paper's measure, its order, its reasons, and `moirae similarity run`."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.errors import MoiraeError, UsageError
from recall.relevance.ready_contexts import AlertContext, rank_similar
from recall.similarity.corpus import ContextVectors, Corpus
from recall.similarity.measure import MEASURES
from recall.similarity.ranking import TopK, explain_score

TFIDF, BINARY = MEASURES["tfidf"], MEASURES["binary"]
HOUR = 3_600_000_000
NO_GAP = timedelta(0)

E1 = {"user=u1": 1, "proc=p1": 1}
E2 = {"user=u2": 1, "user=u3": 1, "proc=p2": 1, "proc=p3": 1}
E3 = {"user=u2": 1, "proc=p1": 1, "proc=p3": 1}


def alerts(
    *facts: dict[str, int], times: Iterable[int] | None = None, kind: str = "t"
) -> list[AlertContext]:
    hours = range(len(facts)) if times is None else times
    return [
        AlertContext(f"e{i}", kind, hour * HOUR, f)
        for i, (hour, f) in enumerate(zip(hours, facts, strict=True), start=1)
    ]


def corpus(*facts: dict[str, int]) -> Corpus:
    made = Corpus()
    for ts, bag in enumerate(facts):
        made.add(ts, bag)
    return made


def pairs(rows: Iterable[tuple[str, int, str, float]]) -> list[tuple[str, str]]:
    return [(query, event) for query, _, event, _ in rows]


def _by_hand(one: str, other: str, log: Callable[[float], float]) -> float:
    bags = {"e1": E1, "e2": E2, "e3": E3}
    idf = {
        term: log(3 / sum(term in bag for bag in bags.values()))
        for bag in bags.values()
        for term in bag
    }
    weights = [
        {term: count * idf[term] for term, count in bags[name].items()} for name in (one, other)
    ]
    dot = sum(weight * weights[1].get(term, 0.0) for term, weight in weights[0].items())
    return dot / math.prod(math.sqrt(sum(w * w for w in bag.values())) for bag in weights)


class TestMeasures:
    def test_the_worked_example(self) -> None:
        rows = list(rank_similar(alerts(E1, E2, E3), NO_GAP, 10, TFIDF, leave_one_out=True))
        scores = {(query, event): score for query, _, event, score in rows}
        # The paper rounds log10(3) and log10(3/2) to two digits on the way, which makes 0.203 and 0.287.
        for (query, past), printed in {("e1", "e3"): 0.203, ("e2", "e3"): 0.287}.items():
            assert scores[query, past] == pytest.approx(
                _by_hand(query, past, math.log10), abs=1e-12
            )
            assert _by_hand(query, past, lambda x: round(math.log10(x), 2)) == pytest.approx(
                printed, abs=5e-4
            )
        assert scores["e3", "e1"] == scores["e1", "e3"]
        assert ("e1", "e2") not in scores
        assert ("e2", "e1") not in scores

    def test_counts_go_up_to_and_including_the_query(self) -> None:
        # At e2: E = 2, a is in both and weighs nothing. At e3: E = 3, a is in two of three.
        bags = (
            {"a=1": 1, "b=1": 1},
            {"a=1": 1, "c=1": 1},
            {"a=1": 1, "c=1": 1, "d=1": 1},
            {"z=1": 1},
        )
        rows = list(rank_similar(alerts(*bags), NO_GAP, 10, TFIDF))
        assert pairs(rows) == [("e3", "e2")]

    def test_counts_of_terms_weigh(self) -> None:
        bags = {"a=1": 5, "b=1": 1}, {"a=1": 1, "b=1": 5}, {"z=1": 1}, {"a=1": 9, "b=1": 1}
        tfidf = [row for row in rank_similar(alerts(*bags), NO_GAP, 10, TFIDF) if row[0] == "e4"]
        binary = [row for row in rank_similar(alerts(*bags), NO_GAP, 10, BINARY) if row[0] == "e4"]
        assert pairs(tfidf) == [("e4", "e1"), ("e4", "e2")]
        assert pairs(binary) == [("e4", "e2"), ("e4", "e1")]
        assert [score for *_, score in binary] == [1, 1]

    def test_binary_cosine(self) -> None:
        [row] = rank_similar(alerts(E2, E3), NO_GAP, 10, BINARY)
        assert row[3] == pytest.approx(2 / np.sqrt(4 * 3))

    def test_attributes_by_hand(self) -> None:
        bags = {"h=1": 1, "m=a": 7, "m=b": 1}, {"h=1": 1, "m=a": 1, "m=c": 1}, {"h=2": 1, "m=z": 1}
        rows = list(
            rank_similar(alerts(*bags), NO_GAP, 10, MEASURES["attributes"], leave_one_out=True)
        )
        two, one = math.log(3 / 2), math.log(3)  # held by two of three, by one
        host = two / math.sqrt(math.sqrt(two) * math.sqrt(two))
        message = two / math.sqrt(two + one)
        whole = math.sqrt(two) + math.sqrt(two + one)
        assert {(q, e): s for q, _, e, s in rows} == {
            ("e1", "e2"): pytest.approx((host + message) / whole, abs=1e-12),
            ("e2", "e1"): pytest.approx((host + message) / whole, abs=1e-12),
        }

    def test_many_terms_of_one_attribute_do_not_drown_the_others(self) -> None:
        words, rest = (
            {f"m={n}": 1 for n in range(10)},
            {f"{name}=1": 1 for name in ("host", "state", "user", "job")},
        )
        query, same_words, same_rest = {**words, **rest}, {**words, "host=2": 1}, {"m=x": 1, **rest}
        bags = same_words, same_rest, {"m=y": 1}, {"m=v": 1}, query
        answers = {
            m: [
                e
                for q, _, e, _ in rank_similar(alerts(*bags), NO_GAP, 10, MEASURES[m])
                if q == "e5"
            ]
            for m in MEASURES
        }
        assert answers["tfidf"] == answers["binary"] == ["e1", "e2"]
        assert answers["attributes"] == ["e2", "e1"]

    def test_shares_are_parts_of_the_score(self) -> None:
        known = corpus(
            {"h=1": 1, "m=a": 7, "m=b": 1}, {"h=1": 1, "m=a": 1, "m=c": 1}, {"h=2": 1, "m=z": 1}
        )
        measure, counts = MEASURES["attributes"], known.counts()
        query, past = known.contexts[0], known.contexts[1]
        without_host = known.vocabulary.encode({"h=9": 1, "m=a": 1, "m=c": 1})
        parts = dict(
            zip(
                known.vocabulary.decode_terms(query.terms),
                measure.term_contributions(query, past, counts),
                strict=True,
            )
        )
        assert parts["m=b"] == 0
        host = math.log(3 / 2) ** 0.5
        assert parts["h=1"] / parts["m=a"] == pytest.approx(
            host / (math.log(3 / 2) / math.sqrt(math.log(4.5))), rel=1e-9
        )
        assert measure.term_contributions(query, without_host, counts)[0] == 0

    @pytest.mark.parametrize("name", MEASURES)
    def test_equal_contexts_are_most_alike(self, name: str) -> None:
        known = corpus(E1, E2, E3, E3)
        scores = MEASURES[name].score_rows(
            known.contexts[2], known.contexts.oldest_rows(4), known.counts()
        )
        assert scores[3] == pytest.approx(1, abs=1e-12)
        assert (scores[:2] < 1).all()

    def test_an_empty_context_is_like_nothing(self) -> None:
        for measure in MEASURES.values():
            assert pairs(rank_similar(alerts({}, {}, E1, E1, {}, E2), NO_GAP, 10, measure)) == [
                ("e4", "e3")
            ]

    def test_terms_that_the_pinned_counts_do_not_know_count_as_held_once(self) -> None:
        known = corpus(E1, E2, E3)
        pinned, query = known.counts(), known.contexts[2]
        found = known.vocabulary.encode({"user=u2": 1, "user=new": 1})
        [score] = TFIDF.score_rows(query, ContextVectors([found]).oldest_rows(1), pinned)
        u2, p1, p3, new = (np.log10(3 / held) for held in (2, 2, 2, 1))
        plain = u2**2 / np.sqrt((u2**2 + p1**2 + p3**2) * (u2**2 + new**2))
        assert score == pytest.approx(plain, abs=1e-11)

    def test_what_is_equal_on_paper_ties(self) -> None:
        # Terms of equal counts in other places of the sum: the last bits would differ.
        many = {f"n={i}": 1 + i % 7 for i in range(40)}
        first, second = {**many, "x=1": 3}, {"y=1": 3, **dict(reversed(many.items()))}
        query = {**many, "x=1": 3, "y=1": 3}
        rows = list(rank_similar(alerts(first, second, {"z=1": 1}, query), NO_GAP, 10, TFIDF))
        assert pairs(rows)[-2:] == [("e4", "e2"), ("e4", "e1")]
        assert rows[-1][3] == rows[-2][3]


class TestCorpus:
    def test_counts_stay_as_they_were_pinned(self) -> None:
        known = corpus(E1, E2)
        pinned, rows = known.counts(), known.contexts.oldest_rows(2)
        before = rows.weighted_sums(np.ones(rows.width)).tolist()
        for ts in range(2, 3000):
            known.add(ts, {**E3, f"n={ts}": 2})
        assert (pinned.event_count, pinned.newest_ts) == (2, 1)
        assert pinned.document_frequencies.tolist() == [1] * 6
        assert rows.weighted_sums(np.ones(len(known.vocabulary))).tolist() == before == [2, 4]
        assert known.counts().event_count == 3000

    def test_terms_know_their_attribute(self) -> None:
        words = corpus({"host=n1": 1, "msg=a=b": 2}, {"host=n2": 1, "bare": 1}).vocabulary
        named = dict(
            zip(words.decode_terms(range(len(words))), words.attributes.tolist(), strict=True)
        )
        assert (
            named["host=n1"] == named["host=n2"]
            and len({named["host=n1"], named["msg=a=b"], named["bare"]}) == 3
        )

    def test_events_enter_in_time_order(self) -> None:
        known = corpus(E1, E2)
        with pytest.raises(ValueError, match="order of their times"):
            known.add(0, E3)


class TestOrder:
    def test_ties_go_to_the_newer(self) -> None:
        bags = [E1] * 5 + [{"z=1": 1}, E1]
        assert pairs(rank_similar(alerts(*bags), NO_GAP, 3, TFIDF))[-3:] == [
            ("e7", "e5"),
            ("e7", "e4"),
            ("e7", "e3"),
        ]

    def test_of_equal_times_the_later_in_the_file_is_newer(self) -> None:
        rows = rank_similar(alerts({"z=1": 1}, E1, E1, E1, times=[1, 0, 0, 2]), NO_GAP, 10, TFIDF)
        assert pairs(rows) == [("e4", "e3"), ("e4", "e2")]

    def test_a_better_score_beats_a_newer_event(self) -> None:
        rows = list(rank_similar(alerts(E3, E2, E1, E3), NO_GAP, 10, BINARY))
        assert [(event, rank) for query, rank, event, _ in rows if query == "e4"] == [
            ("e1", 1),
            ("e2", 2),
            ("e3", 3),
        ]

    def test_running_top_k_tells_what_changed(self) -> None:
        top: TopK[int] = TopK(2)
        assert top.add([4, 5], np.array([0.5, 0.0]))
        assert not top.add([1, 2], np.array([0.0, 0.0]))
        assert top.add([3], np.array([0.5]))
        assert not top.add([0], np.array([0.5]))
        assert top.add([1], np.array([0.6]))
        assert [(hit.event, hit.score) for hit in top.hits] == [(1, 0.6), (4, 0.5)]

    def test_k_is_at_least_one(self) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            TopK(0)


class TestCandidates:
    def test_older_by_the_gap_at_least(self) -> None:
        rows = rank_similar(
            alerts(E1, E1, {"z=1": 1}, E1, times=[0, 1, 2, 6]), timedelta(hours=5), 10, TFIDF
        )
        assert pairs(rows) == [("e4", "e2"), ("e4", "e1")]
        rows = rank_similar(
            alerts(E1, E1, {"z=1": 1}, E1, times=[0, 1, 2, 6]),
            timedelta(hours=5, seconds=1),
            10,
            TFIDF,
        )
        assert pairs(rows) == [("e4", "e1")]

    def test_never_of_the_same_time(self) -> None:
        assert list(rank_similar(alerts(E1, E1, times=[0, 0]), NO_GAP, 10, BINARY)) == []

    def test_only_of_the_same_type(self) -> None:
        both = [
            *alerts(E1),
            *(AlertContext("other", "u", HOUR, E1), AlertContext("last", "t", 2 * HOUR, E1)),
        ]
        assert pairs(rank_similar(both, NO_GAP, 10, BINARY)) == [("last", "e1")]

    def test_leave_one_out_asks_all_others(self) -> None:
        rows = rank_similar(alerts(E1, E1, E3), timedelta(hours=5), 10, BINARY, leave_one_out=True)
        assert pairs(rows) == [
            ("e1", "e2"),
            ("e1", "e3"),
            ("e2", "e1"),
            ("e2", "e3"),
            ("e3", "e2"),
            ("e3", "e1"),
        ]

    @pytest.mark.parametrize("leave_one_out", [False, True])
    def test_never_of_the_same_group(self, leave_one_out: bool) -> None:
        grouped = [
            AlertContext(str(i), "t", i * HOUR, E1, group)
            for i, group in enumerate(["a", "a", None, "b", "a"])
        ]
        rows = pairs(rank_similar(grouped, NO_GAP, 10, BINARY, leave_one_out))
        assert [event for query, event in rows if query == "4"] == ["3", "2"]
        assert len(rows) == (14 if leave_one_out else 7)


class TestExplain:
    def test_shares_sum_to_one(self) -> None:
        known = corpus(E1, {**E2, "proc=p3": 4}, E3)
        found = explain_score(
            TFIDF, known.vocabulary, known.contexts[2], known.contexts[1], known.counts()
        )
        assert found.shared_terms == pytest.approx({"proc=p3": 0.8, "user=u2": 0.2})
        assert list(found.shared_terms) == ["proc=p3", "user=u2"]
        assert sum(found.shared_terms.values()) == pytest.approx(1)
        assert (found.only_query, found.only_past) == (["proc=p1"], ["user=u3", "proc=p2"])
        assert (found.event_count, found.newest_ts) == (3, 2)
        plain = TFIDF.score_rows(known.contexts[2], known.contexts.oldest_rows(2), known.counts())
        assert found.score == plain[1]

    def test_binary_shares_are_equal(self) -> None:
        known = corpus({"user=u2": 9, "proc=p3": 1}, E3)
        found = explain_score(
            BINARY, known.vocabulary, known.contexts[1], known.contexts[0], known.counts()
        )
        assert found.shared_terms == {"proc=p3": 0.5, "user=u2": 0.5}

    def test_what_all_have_has_no_share(self) -> None:
        known = corpus(E1, E1)
        found = explain_score(
            TFIDF, known.vocabulary, known.contexts[1], known.contexts[0], known.counts()
        )
        assert (found.score, found.shared_terms) == (0, {"user=u1": 0, "proc=p1": 0})


LINES = [
    {
        "event_id": f"e{i}",
        "event_type": "t",
        "ts": f"2024-05-01T0{i}:00:00Z",
        "host": "h",
        "facts": facts,
    }
    for i, facts in enumerate([E1, E2, E3], start=1)
]


def written(path: Path, lines: Iterable[object]) -> Path:
    data = b"".join(
        line if isinstance(line, bytes) else orjson.dumps(line) + b"\n" for line in lines
    )
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(
        app, ["similarity", "run", *map(str, arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


class TestCommand:
    @pytest.mark.parametrize("name", ["alerts.jsonl", "alerts.jsonl.gz"])
    def test_rows_with_whole_scores(self, tmp_path: Path, name: str) -> None:
        out = run("--events", written(tmp_path / name, LINES), "--leave-one-out", "--k", 1)
        header, *rows = [line.split(",") for line in out.splitlines()]
        assert header == ["query", "rank", "event", "score"]
        expected = list(rank_similar(alerts(E1, E2, E3), NO_GAP, 1, TFIDF, leave_one_out=True))
        assert [
            (query, int(rank), event, float(score)) for query, rank, event, score in rows
        ] == expected

    def test_gap_measure_and_out(self, tmp_path: Path) -> None:
        events, out = written(tmp_path / "a.jsonl", LINES), tmp_path / "run.csv"
        assert run("--events", events, "--gap", "1h", "--measure", "binary", "--out", out) == ""
        assert out.read_text().splitlines()[1:] == [
            f"e3,1,e2,{next(iter(rank_similar(alerts(E2, E3), NO_GAP, 1, BINARY)))[3]!r}",
            f"e3,2,e1,{next(iter(rank_similar(alerts(E1, E3), NO_GAP, 1, BINARY)))[3]!r}",
        ]
        run("--events", events, "--gap", "61m", "--measure", "binary", "--out", out)
        assert [line.split(",")[:3] for line in out.read_text().splitlines()[1:]] == [
            ["e3", "1", "e1"]
        ]

    def test_groups(self, tmp_path: Path) -> None:
        events = written(tmp_path / "a.jsonl", LINES)
        groups = tmp_path / "groups.csv"
        groups.write_text("event_id,label,group\ne1,x,\ne2,x,g\ne3,y,g\n")
        out = run("--events", events, "--leave-one-out", "--measure", "binary", "--groups", groups)
        assert [line.split(",")[:3] for line in out.splitlines()[1:]] == [
            ["e1", "1", "e3"],
            ["e3", "1", "e1"],
        ]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b"{\n", "is no JSON: "),
            ([1], "is no JSON object"),
            ({**LINES[1], "event_id": 7}, "event_id must be a text"),
            ({**LINES[1], "event_id": "e1"}, "event_id 'e1' stands in line 1 already"),
            ({**LINES[1], "event_type": ""}, "event_type must be a text"),
            ({**LINES[1], "ts": "yesterday"}, "ts 'yesterday' is no time"),
            ({**LINES[1], "ts": "2024-05-01T00:00:00"}, "has no time zone"),
            ({**LINES[1], "facts": ["a"]}, "facts must be an object"),
            (
                {**LINES[1], "facts": {"a=1": 0}},
                "the count of 'a=1' must be a whole number from 1 on",
            ),
            ({**LINES[1], "facts": {"a=1": True}}, "the count of 'a=1'"),
            ({**LINES[1], "facts": {"a=1": 1.5}}, "the count of 'a=1'"),
        ],
    )
    def test_bad_lines_are_named(self, tmp_path: Path, line: object, message: str) -> None:
        events = written(tmp_path / "a.jsonl", [LINES[0], b"\n", line])
        with pytest.raises(MoiraeError, match=r"a\.jsonl:3: ") as raised:
            run("--events", events)
        assert message in str(raised.value)

    def test_a_broken_archive_is_no_crash(self, tmp_path: Path) -> None:
        events = tmp_path / "a.jsonl.gz"
        events.write_bytes(gzip.compress(orjson.dumps(LINES[0]) * 1000)[:-20])
        with pytest.raises(MoiraeError, match=r"a\.jsonl\.gz:1: cannot be read"):
            run("--events", events)

    def test_wrong_usage(self, tmp_path: Path) -> None:
        events = written(tmp_path / "a.jsonl", LINES)
        with pytest.raises(
            UsageError, match="unknown measure 'jaccard': must be one of attributes, binary, tfidf"
        ):
            run("--events", events, "--measure", "jaccard")
        with pytest.raises(UsageError, match="--gap: '6' is not a duration"):
            run("--events", events, "--gap", "6")
        with pytest.raises(MoiraeError, match=r"groups\.csv:1: has no column group"):
            run(
                "--events",
                events,
                "--groups",
                written(tmp_path / "groups.csv", [b"event_id,host\n"]),
            )
        with pytest.raises(MoiraeError, match="No such file"):
            run("--events", events, "--out", tmp_path / "none" / "run.csv")
