"""An alert as the command line prints it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from moirae.cli.alerts import _list_properties, _select_best
from moirae.cli.options import print_properties
from moirae.inspect.past_events import RecallAnswer, SimilarEvent
from moirae.services.operations.alerts import AlertDetails
from sql.stages import HistoryChangeRow

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_decisions_of_the_condition_are_shown_with_their_reasons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    decisions = [
        HistoryChangeRow("waiting", False, "no answer of norm yet", START),
        HistoryChangeRow(
            "withdrawn", True, "false for all 3 rows \x1b[2J", START + timedelta(seconds=2)
        ),
    ]
    alert = AlertDetails(
        id=UUID(int=1),
        eid=UUID(int=2),
        rule="g/r",
        version="v",
        key={},
        labels={},
        annotations={},
        state="firing",
        history="withdrawn",
        history_final=True,
        starts_at=START,
        fired_at=START,
        last_at=START,
        ends_at=None,
        end_reason=None,
        events=1,
        past=False,
        created_at=START,
        raised_at=None,
        updated_at=START,
        acknowledged_by=None,
        assigned_to=None,
        resolution=None,
        tag=None,
        effect=None,
        notes=[],
        decisions=decisions,
    )
    print_properties(_list_properties(alert))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "history waiting 2026-01-01 00:00:00Z: no answer of norm yet" in lines
    decided = r"history withdrawn 2026-01-01 00:00:02Z: false for all 3 rows \x1b[2J, final"
    assert decided in lines


def test_alert_is_shown_with_its_most_similar_past_alerts() -> None:
    hits = [SimilarEvent(UUID(int=n), n, 0.5, START, [], [], [], None) for n in range(1, 6)]
    answers = [
        RecallAnswer("norm", "sql", "done", 1, None, [{"n": 1}], None, None),
        RecallAnswer("similar", "similar", "done", 1, None, None, hits, None),
        RecallAnswer("other", "similar", "done", 1, None, None, [], None),
    ]
    (best,) = _select_best(answers)
    assert best.recall == "similar" and best.hits == hits[:3]
