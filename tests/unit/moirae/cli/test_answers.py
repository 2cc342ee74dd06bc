"""Answers of recalls as the command line draws them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from rich.console import Console, RenderableType

from moirae.cli.answers import render_answer, render_hits
from moirae.inspect.past_events import Opinion, RecallAnswer, SimilarEvent

START = datetime(2026, 1, 1, tzinfo=UTC)
COVERAGE = {"read": 2, "left": 3, "failed": 0, "read_from": 0, "final": False, "partial": True}


def draw(renderable: RenderableType) -> list[str]:
    """The lines that are printed, without indentation."""
    console = Console(width=160)
    with console.capture() as capture:
        console.print(renderable)
    return [line.strip() for line in capture.get().splitlines() if line.strip()]


def make_answer(**fields: Any) -> RecallAnswer:
    defaults = {"recall": "r", "kind": "sql", "state": "done", "number": 1, "coverage": None}
    empty = {"rows": None, "hits": None, "error": None}
    return RecallAnswer(**{**defaults, **empty, **fields})


def test_similar_event_shows_alert_shared_terms_and_last_notes() -> None:
    notes = [
        {"kind": "ack", "author": "ada", "text": "mine", "tag": None},
        {"kind": "note", "author": "ada", "text": "fan is loud", "tag": None},
        {"kind": "note", "author": "ben", "text": "fan is dead\x1b[2J", "tag": None},
        {"kind": "resolution", "author": "ben", "text": "new fan", "tag": "fan"},
    ]
    past = {
        "alert": UUID(int=7 << 96),
        "annotations": {"summary": "n7 is hot"},
        "notes": notes,
        "starts_at": START,
        "ends_at": START + timedelta(minutes=7),
        "last_at": START,
        "again": 2,
    }
    shared = [("cpu=93.5~91.2", 0.75), ("slice=a", 0.25)]
    hit = SimilarEvent(UUID(int=1), 1, 0.5, START, shared, [], [], past)
    lines = draw(render_hits([hit]))
    assert lines[0].startswith("1. 0.500 00000007  2026-01-01 00:00:00Z  n7 is hot")
    assert lines[0].endswith("n7 is hot  lasted 7 min, recurred 2 times within a week")
    assert lines[1:] == [
        "shares cpu=93.5~91.2 75%, slice=a 25%",
        "acknowledged by ada: mine",
        r"note fan is dead\x1b[2J",
        "resolution new fan [fan]",
    ]


def test_similar_event_says_why_it_is_similar_and_why_not_the_same() -> None:
    hit = SimilarEvent(UUID(int=1), 1, 0.5, START, [], [], [], None)
    reasons = ["Both have msg “\x1b[2J”.", "Different: host is a now and was b then."]
    lines = draw(render_hits([replace(hit, reasons=reasons)]))
    assert lines[-2:] == [r"Both have msg “\x1b[2J”.", reasons[1]]


def test_probability_of_a_match_has_its_interval() -> None:
    match = {
        "episodes": 40,
        "withheld": False,
        "probability": 0.31,
        "interval": [0.2, 0.45],
        "nothing_comparable": 0.12,
        "nothing_comparable_interval": [0.05, 0.24],
    }
    lines = draw(render_answer(make_answer(hits=[], match=match)))
    assert lines[1] == (
        "best hit is of the same kind 0.31 (0.20–0.45), nothing comparable 0.12 (0.05–0.24)"
    )
    lines = draw(render_answer(make_answer(hits=[], match={"episodes": 3, "withheld": True})))
    assert lines[1] == ("how probable a match is: too few to say (3 episodes of known resolution)")


def test_probable_resolutions_have_intervals_and_say_why_frequencies_are_shown() -> None:
    forecast = {
        "tags": [["restart", 0.8]],
        "new_tag": 0.1,
        "intervals": [[0.6, 0.9]],
        "new_tag_interval": [0.0, 0.2],
        "reason": "Plain frequencies are shown.",
    }
    lines = draw(render_answer(make_answer(hits=[], forecast=forecast)))
    assert lines[1:3] == [
        "probable resolution: restart 0.80 (0.60–0.90), none of these 0.10 (0.00–0.20)",
        "Plain frequencies are shown.",
    ]


def test_single_recurrence_is_named_once() -> None:
    past = {"starts_at": START, "ends_at": None, "last_at": START, "again": 1, "key": {}}
    hit = SimilarEvent(UUID(int=1), 1, 0.5, START, [], [], [], past)
    assert draw(render_hits([hit]))[0].endswith("lasted 0 min, recurred once within a week")


def test_deleted_past_event_shows_score_and_time() -> None:
    hit = SimilarEvent(UUID(int=1), 2, 0.25, START, [], [], [], None)
    assert draw(render_hits([hit]))[0].startswith("2. 0.250 2026-01-01 00:00:00Z")


def test_different_opinions_about_a_past_event_are_shown() -> None:
    agreed, disagreed = Opinion(author="ada", helps=True), Opinion(author="bob", helps=False)
    hit = SimilarEvent(UUID(int=1), 1, 0.5, START, [], [], [], None)
    assert draw(render_hits([replace(hit, judgements=[agreed])]))[-1] == "judged ada agrees"
    lines = draw(render_hits([replace(hit, judgements=[disagreed, agreed])]))
    assert lines[-1] == (
        "judged bob disagrees, ada agrees; nothing is learned from it, as opinions differ"
    )


def test_long_answer_shows_number_of_omitted_rows() -> None:
    lines = draw(render_answer(make_answer(rows=[{"n": n} for n in range(1023)])))
    assert lines[-2:] == ["19", "… and 1,003 more (use -o json)"]


def test_partial_answer_shows_estimates_below_its_rows() -> None:
    estimates = [{"n": {"value": 25.0, "low": 20.0, "high": None}}]
    fields: dict[str, Any] = {"rows": [{"n": 10}], "estimates": estimates}
    lines = draw(render_answer(make_answer(coverage=COVERAGE, **fields)))
    assert lines[-2:] == ["10", "≈ 25.00 [20.00, ]"]
    complete = {**COVERAGE, "left": 0, "partial": False, "final": True}
    assert draw(render_answer(make_answer(coverage=complete, **fields)))[-1] == "10"


def test_row_of_many_columns_has_a_line_for_each_and_its_sentence_first() -> None:
    row = {f"q{i}": float(i) for i in range(20)} | {"says": "higher than 99.3 % of the same hour"}
    lines = draw(render_answer(make_answer(rows=[row])))
    assert lines[1].split(maxsplit=1) == ["says", "higher than 99.3 % of the same hour"]
    assert lines[2].split() == ["q0", "0.00"]
    assert len(lines) == 22


def test_hint_is_shown_if_events_are_probably_not_comparable() -> None:
    hit = SimilarEvent(UUID(int=1), 1, 0.5, START, [], [], [], None)
    for probability, hint in ((0.2, "probably no comparable event"), (0.6, "the best hit is")):
        lines = draw(render_answer(make_answer(hits=[hit], comparable=probability)))
        assert lines[1].startswith(hint)


def test_recall_without_answer_shows_state_and_error() -> None:
    assert draw(render_answer(make_answer(state="running"))) == ["r  running", "no answer yet"]
    lines = draw(render_answer(make_answer(state="failed", error="out of memory")))
    assert lines == ["r  failed", "no answer", "failed: out of memory"]


def test_answer_says_among_how_many_candidates_it_ranked() -> None:
    lines = draw(render_answer(make_answer(hits=[], kind="similar", candidates=321)))
    assert any(line.startswith("ranked among 321 candidates") for line in lines)
    lines = draw(render_answer(make_answer(hits=[], kind="similar")))
    assert not any("candidates" in line for line in lines)
