"""Losses of rules are stored, limited, and left out of later evaluations."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock, patch

import pytest

from moirae.evaluation import losses as losses_module
from moirae.evaluation.loss_rates import WINDOW, LossLimits
from moirae.evaluation.losses import VerdictLosses
from moirae.evaluation.lost_rows import LostRow
from sql.rules import KnownLostRow
from tests.unit.moirae.evaluation.builders import START, make_filter, make_request, make_rows

RULE = make_filter("A", 1.5)
OTHER = make_filter("B", 1.5)


class Losses:
    """Losses with stand-ins for what they store, and a clock."""

    def __init__(self, known: list[KnownLostRow] | None = None) -> None:
        self.now = 1_000.0
        self.gateway, self.registry = Mock(), Mock()
        self.gateway.list_known.return_value = known or []
        self.registry.resume.side_effect = lambda rules: rules
        with (
            patch.object(losses_module, "LostVerdictGateway", return_value=self.gateway),
            patch.object(losses_module, "RuleRegistry", return_value=self.registry),
        ):
            self.losses = VerdictLosses(Mock(), LossLimits(0.01, 2), lambda: self.now)


def _lose(number: int) -> LostRow:
    ts = START + timedelta(seconds=number)
    return LostRow(RULE, "s", {"ts": ts, "host": "a", "v": float(number)}, "too many steps")


@pytest.fixture
def fake() -> Losses:
    return Losses()


def _stored(fake: Losses) -> list[dict[str, Any]]:
    return [row for call in fake.gateway.add.call_args_list for row in call.args[0]]


def test_lost_row_is_stored_and_not_evaluated_again(fake: Losses) -> None:
    request = make_request(make_rows(0.0, 1.0, 2.0))
    assert fake.losses.record([_lose(1)]) == set()
    (row,) = _stored(fake)
    assert (row["rule"], row["ts"], row["reason"]) == (
        "g/A",
        "2026-01-01T00:00:01+00:00",
        "too many steps",
    )
    assert fake.losses.select_losing([RULE, OTHER]) == [RULE]
    table = fake.losses.remove_lost(RULE, request).sources["s"].table
    assert table is not None and table["v"].to_pylist() == [0.0, 2.0]
    later = make_request(make_rows(5.0))
    assert fake.losses.remove_lost(RULE, later) is later


def test_rule_above_the_limit_is_quarantined(fake: Losses) -> None:
    fake.losses.add_rows(make_request(make_rows(*[1.0] * 100)))
    assert fake.losses.record([_lose(1), _lose(2)]) == {"g/A"}
    rule, _, message = fake.registry.quarantine_losing.call_args.args
    assert rule == "g/A"
    assert message == (
        "lost more than 0.01 of its candidate rows and at least 2 rows within ten minutes: "
        "too many steps"
    )
    assert list(fake.losses.losing) == ["g/A"]


def test_rule_resumes_after_ten_minutes_with_few_losses(fake: Losses) -> None:
    fake.losses.record([_lose(1), _lose(2)])
    assert fake.losses.resume_recovered([RULE]) == []
    fake.losses.record_sample(RULE, 10, 0, [_lose(3)])
    fake.now += WINDOW - 1
    fake.losses.record_sample(RULE, 10, 0, [])
    fake.now += 1
    assert fake.losses.resume_recovered([RULE]) == ["g/A"]
    assert fake.losses.losing == {}


def test_rule_that_goes_on_losing_rows_stays_in_quarantine(fake: Losses) -> None:
    fake.losses.record([_lose(1), _lose(2)])
    fake.now += WINDOW
    fake.losses.record_sample(RULE, 10, 0, [_lose(3)])
    assert fake.losses.resume_recovered([RULE]) == []


def test_stored_losses_are_known_after_a_restart() -> None:
    lost = _lose(1)
    version = RULE.rule_version
    known = KnownLostRow(version.rule, version.version, "s", lost.values["ts"], lost.key.row_hash)
    fake = Losses([known])
    fake.losses.load([RULE], {"g/A": datetime.now(UTC) - timedelta(seconds=WINDOW)})
    assert fake.losses.select_losing([RULE]) == [RULE]
    assert fake.losses.resume_recovered([RULE]) == ["g/A"]
