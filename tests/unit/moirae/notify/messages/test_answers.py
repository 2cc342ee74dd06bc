"""What history says of an alert."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from moirae.notify.messages.answers import describe_answers
from sql.notifications import AnswerOfEventRow, FixRow

PAST = UUID(int=5)


def make_answer(**fields: Any) -> AnswerOfEventRow:
    values: dict[str, Any] = {
        "eid": UUID(int=1),
        "recall": "norm",
        "kind": "sql",
        "number": 1,
        "final": True,
        "coverage": {"read": 2, "pieces": 2},
        "answer": None,
        "comparable": None,
        "match": None,
        "forecast": None,
        "rule": "g/r",
        "attributes": {"host": "a", "cpu": 90.0},
    }
    return AnswerOfEventRow(**{**values, **fields})


def test_norm_says_whether_the_value_is_normal() -> None:
    described = describe_answers([make_answer(answer=[{"mean": 40.0, "sd": 10.0}])], {})
    assert described["norm"]["norm"] == {
        "rows": [{"mean": 40.0, "sd": 10.0}],
        "value": {"cpu": 90.0},
        "deviations": 5.0,
        "normal": False,
    }


def test_norm_without_a_mean_is_shown_as_it_is() -> None:
    described = describe_answers([make_answer(answer=[{"n": 3}])], {})
    assert described["norm"]["norm"] == {"rows": [{"n": 3}]}


@pytest.mark.parametrize(
    ("verdict", "normal"),
    [("higher", False), ("lower", False), ("usual", True), ("too few cycles", None)],
)
def test_verdict_of_a_norm_comes_before_its_mean(verdict: str, normal: bool | None) -> None:
    row = {
        "verdict": verdict,
        "says": "higher than 99.3 % of the same hour",
        "mean": 40.0,
        "sd": 9.0,
    }
    described = describe_answers([make_answer(answer=[row])], {})
    expected = {"rows": [row], "verdict": verdict, "normal": normal, "says": row["says"]}
    assert described["norm"]["norm"] == expected


def test_similar_alerts_come_with_what_fixed_them() -> None:
    hit = {
        "past_eid": str(PAST),
        "score": 0.9,
        "past_ts": 0,
        "rank": 1,
        "shared": [["msg=disk full", 0.7]],
        "only_new": ["host=a"],
        "only_past": ["host=b"],
    }
    fix = FixRow(
        eid=PAST,
        alert=UUID(int=6),
        summary="b: disk full",
        starts_at=datetime(2026, 1, 1, tzinfo=UTC),
        ends_at=datetime(2026, 1, 1, 0, 5, tzinfo=UTC),
        resolution="restarted it",
        tag="restart",
        author="ann",
    )
    forecast = {
        "tags": [["restart", 0.8]],
        "new_tag": 0.1,
        "intervals": [[0.6, 0.9]],
        "episodes": 30,
    }
    answer = make_answer(recall="similar", kind="similar", answer=[hit], forecast=forecast)
    described = describe_answers([answer], {PAST: fix})
    assert described["similar"] == [
        {
            "event": str(PAST),
            "score": 0.9,
            "at": "1970-01-01T00:00:00Z",
            "reasons": [
                "Both have msg “disk full”: 70% of the similarity.",
                "Different: host is a now and was b then.",
            ],
            "alert": str(UUID(int=6)),
            "summary": "b: disk full",
            "lasted_seconds": 300.0,
            "resolution": "restarted it",
            "tag": "restart",
            "by": "ann",
        }
    ]
    assert described["resolution"] == [
        {"tag": "restart", "probability": 0.8, "low": 0.6, "high": 0.9}
    ]
