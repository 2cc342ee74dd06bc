"""Limits of the rows that a rule may lose."""

from moirae.evaluation.loss_rates import WINDOW, LossLimits, LossRates
from moirae.evaluation.plan import RuleVersion

RULE = RuleVersion("g/A", "1")
LIMITS = LossLimits(0.01, 20)


def test_three_crafted_rows_do_not_switch_a_rule_off() -> None:
    rates = LossRates(LIMITS)
    rates.add_candidates({RULE: 5}, 0.0)
    rates.add_losses(RULE, 3, 3, 0.0)
    assert not rates.exceeds(RULE, "s", 1.0)


def test_share_of_the_candidates_counts() -> None:
    rates = LossRates(LIMITS)
    rates.add_candidates({RULE: 3_000}, 0.0)
    rates.add_losses(RULE, 25, 25, 0.0)
    assert not rates.exceeds(RULE, "s", 1.0)
    rates.add_losses(RULE, 6, 6, 2.0)
    assert rates.exceeds(RULE, "s", 2.0)
    assert not rates.exceeds(RULE, "s", 2.0 + WINDOW)


def test_all_rows_of_the_stream_are_candidates_without_the_index() -> None:
    rates = LossRates(LIMITS)
    rates.add_rows({"s": 10_000}, 0.0)
    rates.add_losses(RULE, 50, 50, 0.0)
    assert not rates.exceeds(RULE, "s", 0.0)
    assert rates.exceeds(RULE, "other", 0.0)


def test_rows_that_were_lost_before_do_not_switch_a_rule_off() -> None:
    rates = LossRates(LIMITS)
    rates.add_losses(RULE, 500, 0, 0.0)
    assert not rates.exceeds(RULE, "s", 0.0)


def test_rule_recovers_when_its_samples_have_few_losses() -> None:
    rates = LossRates(LIMITS)
    assert rates.has_recovered(RULE, 0.0)
    rates.add_sample(RULE, 50, 0, 1, 0.0)
    assert not rates.has_recovered(RULE, 10.0)
    rates.add_sample(RULE, 50, 0, 0, 20.0)
    assert rates.has_recovered(RULE, 20.0)
    rates.retain(set())
    assert rates.has_recovered(RULE, 20.0)


def test_rule_that_loses_each_of_its_rare_candidates_does_not_recover() -> None:
    rates = LossRates(LIMITS)
    rates.add_sample(RULE, 5_000, 1, 1, 0.0)
    assert not rates.has_recovered(RULE, 1.0)
    rates.add_sample(RULE, 5_000, 200, 0, 2.0)
    assert rates.has_recovered(RULE, 2.0)


def test_counts_of_many_batches_leave_the_window_too() -> None:
    rates = LossRates(LIMITS)
    rates.add_candidates({RULE: 3_000}, 0.0)
    for batch in range(1, 60):
        rates.add_candidates({RULE: 1}, batch / 10)
    rates.add_losses(RULE, 25, 25, WINDOW)
    assert rates.exceeds(RULE, "s", WINDOW)
