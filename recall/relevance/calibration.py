"""Learning the probabilities of `recall.similarity.calibration_model`, and testing them. No I/O.

An episode is one case. Each case is predicted from what was known before it; when its outcome is
known, the prediction is compared with it. So the weights of the mixture, and the tests, come from
predictions that could not know the outcome.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

import numpy as np

from archiver.times import Micros
from recall.learning import SwitchingMixture, fit_logistic, sigmoid
from recall.relevance.forecasts import calibration_error, perfect_calibration_error
from recall.relevance.rankers import CandidateSet, Floats, Ranker
from recall.similarity.calibration_model import (
    MIN_EPISODES,
    Calibration,
    OutcomeModel,
    answer_features,
)

# Fewer cases are not tested.
_MIN_TESTED_CASES = 15
_FEATURES = 5
# The weights of regression, share of all episodes and share of recent ones, before anything is known.
_INITIAL_MIXTURE = np.array([2.0, 1.0, 1.0])
_SWITCH_SHARE = 0.02  # the chance that another of them becomes the best, at each episode
_RECENT_DECAY = 0.95  # how much less each earlier episode counts: about the last 20
_FIRST_FIT = 10  # episodes
_REFIT_GROWTH = 0.15
_MAX_TESTED = 500  # the newest probabilities, for intervals
_MAX_FITTED = 1_000  # the newest episodes
_MIN_PROBABILITY = 1e-3
# Standard deviations below this count as constant features.
_MIN_DEVIATION = 1e-9
_BIN_EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # probabilities

# Whether two events, by ID, are of the same kind; None: unknown.
SameKind = Callable[[str, str], bool | None]


@dataclass(frozen=True)
class CalibrationCase:
    """An answer of known outcome, one for each episode.

    `ts`: event time. `known_at`: the event time from which on its outcome may be used. `features`:
    see `calibration_model.answer_features`. `best_hit_correct`: whether the best hit is of the same
    kind as the event; None: no hit, or unknown. `is_nothing_comparable`: whether no past event is;
    None: unknown.
    """

    ts: Micros
    known_at: Micros
    features: tuple[float, ...]
    best_hit_correct: bool | None
    is_nothing_comparable: bool | None = None


@dataclass(frozen=True)
class ReliabilityBin:
    """The test cases with a predicted probability in [low, high); the last bin includes 1."""

    low: float
    high: float
    cases: int
    mean_predicted: float
    observed_share: float
    """The share of the cases in which it came true."""


@dataclass(frozen=True)
class OutcomeReliability:
    """How the predicted probabilities of an outcome held, by episode.

    `withheld_share`: of the episodes, those with too few before them to say: they count as the
    share of past episodes in which it came true. `brier_score`: the mean squared error;
    `baseline_brier_score`: of always predicting that share. `perfect_calibration_error`: what a
    perfect model of as many episodes would show.
    """

    episodes: int
    withheld_share: float
    brier_score: float
    baseline_brier_score: float
    calibration_error: float
    perfect_calibration_error: float
    bins: list[ReliabilityBin]
    """Without empty bins."""


@dataclass(frozen=True)
class Reliability:
    """How probabilities held: that the best hit is of the same kind, and that nothing is.

    None: there were too few episodes.
    """

    match: OutcomeReliability | None
    nothing_comparable: OutcomeReliability | None


class _OutcomeLearner:
    """Learns the probability of one outcome, episode by episode."""

    def __init__(self) -> None:
        self._cases: deque[tuple[tuple[float, ...], bool]] = deque(maxlen=_MAX_FITTED)
        self._count = 0
        self._mixture = SwitchingMixture(_INITIAL_MIXTURE, _SWITCH_SHARE)
        # By the share of all and of recent episodes: how many came true, of how many.
        self._hits = np.array([0.5, 0.5])
        self._totals = np.array([1.0, 1.0])
        self._tested: deque[float] = deque(maxlen=_MAX_TESTED)
        self._next_fit = _FIRST_FIT
        self._center, self._scale = np.zeros(_FEATURES), np.ones(_FEATURES)
        self._weights = np.zeros(_FEATURES + 1)

    @property
    def model(self) -> OutcomeModel:
        """What was learned."""
        return OutcomeModel(
            center=tuple(self._center.tolist()),
            scale=tuple(self._scale.tolist()),
            weights=tuple(self._weights[1:].tolist()),
            offset=float(self._weights[0]) if self._is_fitted else _log_odds(self.base_share),
            shares=tuple((self._hits / self._totals).tolist()),
            mixture=tuple(self._mixture.weights.tolist()),
            tested=tuple(self._tested),
        )

    @property
    def _is_fitted(self) -> bool:
        return bool(self._weights.any())

    @property
    def base_share(self) -> float:
        """The share of all episodes in which it came true."""
        return float(self._hits[0] / self._totals[0])

    @property
    def count(self) -> int:
        """From how many episodes this was learned."""
        return self._count

    def predict(self, features: tuple[float, ...]) -> tuple[float, ...]:
        """As `OutcomeModel.predictions` of the model."""
        standardised = (np.array(features) - self._center) / self._scale
        offset = self._weights[0] if self._is_fitted else _log_odds(self.base_share)
        regressed = sigmoid(offset + self._weights[1:] @ standardised)
        return float(regressed), *(self._hits / self._totals).tolist()

    def mix(self, predictions: Sequence[float]) -> float:
        """The probability from what `predict` returned."""
        return float(self._mixture.weights @ predictions)

    def learn(
        self, features: tuple[float, ...], outcome: bool, predictions: Sequence[float]
    ) -> None:
        """An outcome is known. `predictions`: see `OutcomeModel`, from before."""
        chances = np.clip(predictions, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        self._tested.append(float(self._mixture.weights @ chances))
        self._mixture.learn(-np.log(chances if outcome else 1 - chances))
        decays = np.array([1.0, _RECENT_DECAY])
        self._hits = self._hits * decays + outcome
        self._totals = self._totals * decays + 1
        self._cases.append((features, outcome))
        self._count += 1
        if self._count >= self._next_fit:
            self._next_fit = int(self._count * (1 + _REFIT_GROWTH)) + 1
            self.fit()

    def fit(self) -> None:
        """Fit the regression to the cases; nothing happens without one."""
        if not self._cases:
            return
        features = np.array([row for row, _ in self._cases])
        self._center, self._scale = features.mean(axis=0), features.std(axis=0)
        self._scale[self._scale < _MIN_DEVIATION] = 1.0
        standardised = (features - self._center) / self._scale
        rows = np.column_stack([np.ones(len(features)), standardised])
        prior = np.zeros(_FEATURES + 1)
        prior[0] = _log_odds(self.base_share)
        self._weights = fit_logistic(rows, [outcome for _, outcome in self._cases], prior)


@dataclass(frozen=True)
class _Tested:
    """A prediction from before its outcome was known. `share`: of past episodes."""

    probability: float
    share: float
    outcome: bool
    withheld: bool


def _learn_in_order(
    cases: Sequence[CalibrationCase], outcome_of: Callable[[CalibrationCase], bool | None]
) -> tuple[_OutcomeLearner, list[_Tested]]:
    """Learn from cases in the order of time."""
    learner = _OutcomeLearner()
    tested: list[_Tested] = []
    waiting: deque[tuple[CalibrationCase, bool, tuple[float, ...]]] = deque()

    def learn_until(ts: Micros | None) -> None:
        while waiting and (ts is None or waiting[0][0].known_at <= ts):
            case, outcome, predictions = waiting.popleft()
            learner.learn(case.features, outcome, predictions)

    for case in sorted(cases, key=attrgetter("ts")):
        outcome = outcome_of(case)
        if outcome is None:
            continue
        learn_until(case.ts)
        predictions = learner.predict(case.features)
        withheld = learner.count < MIN_EPISODES
        probability = learner.base_share if withheld else learner.mix(predictions)
        tested.append(_Tested(probability, learner.base_share, outcome, withheld))
        waiting.append((case, outcome, predictions))
    learn_until(None)
    return learner, tested


def fit_calibration(cases: Sequence[CalibrationCase]) -> Calibration | None:
    """Learn from cases; None without any."""
    if not cases:
        return None
    match, _ = _learn_in_order(cases, attrgetter("best_hit_correct"))
    nothing, _ = _learn_in_order(cases, attrgetter("is_nothing_comparable"))
    match.fit()
    nothing.fit()
    until = max(map(attrgetter("ts"), cases))
    return Calibration(match.model, nothing.model, len(cases), until)


def measure_reliability(cases: Sequence[CalibrationCase]) -> Reliability | None:
    """Test each case from what was known before it; None if there are too few."""
    match = _measure(_learn_in_order(cases, attrgetter("best_hit_correct"))[1])
    nothing = _measure(_learn_in_order(cases, attrgetter("is_nothing_comparable"))[1])
    return None if match is None and nothing is None else Reliability(match, nothing)


def _measure(tested: Sequence[_Tested]) -> OutcomeReliability | None:
    if len(tested) < _MIN_TESTED_CASES:
        return None
    predicted = np.array([case.probability for case in tested])
    shares = np.array([case.share for case in tested])
    outcomes = np.array([float(case.outcome) for case in tested])
    return OutcomeReliability(
        episodes=len(tested),
        withheld_share=float(np.mean([case.withheld for case in tested])),
        brier_score=float(np.mean((outcomes - predicted) ** 2)),
        baseline_brier_score=float(np.mean((outcomes - shares) ** 2)),
        calibration_error=calibration_error(predicted, outcomes),
        perfect_calibration_error=perfect_calibration_error(predicted, np.arange(len(tested))),
        bins=_reliability_bins(predicted, outcomes),
    )


def _reliability_bins(predicted: Floats, observed: Floats) -> list[ReliabilityBin]:
    """`predicted`: probabilities; `observed`: 1 if it came true, else 0."""
    bins = []
    for low, high in pairwise(_BIN_EDGES):
        inside = (predicted >= low) & ((predicted < high) | (high == 1.0))
        if inside.any():
            reliability_bin = ReliabilityBin(
                low=low,
                high=high,
                cases=int(inside.sum()),
                mean_predicted=float(predicted[inside].mean()),
                observed_share=float(observed[inside].mean()),
            )
            bins.append(reliability_bin)
    return bins


class CaseMaker:
    """Makes the cases of alerts, which must come in order of time.

    `kinds`: by event ID, as far as known. `known_after`: how much later than an event its outcome
    may be used.
    """

    def __init__(
        self,
        ranker: Ranker,
        k: int,
        kinds: Mapping[str, str],
        same_kind: SameKind,
        known_after: Micros,
    ) -> None:
        self._ranker = ranker
        self._k = k
        self._kinds = kinds
        self._same_kind = same_kind
        self._known_after = known_after
        # By type of event: how many of its events were looked at, and the rows of each kind.
        self._row_counts: dict[str, int] = {}
        self._rows_by_kind: dict[str, dict[str, list[int]]] = {}

    def make(self, candidate_set: CandidateSet) -> CalibrationCase | None:
        """The case of one alert; None if nothing is known of its outcome."""
        alert = candidate_set.alert
        answer = candidate_set.rank(self._ranker, self._k)
        correct = None
        if answer.hits:
            best_hit, _ = answer.hits[0]
            correct = self._same_kind(alert.event_id, best_hit.event_id)
        nothing = self._is_nothing_comparable(candidate_set)
        if correct is None and nothing is None:
            return None
        hit_scores = [score for _, score in answer.hits]
        hit_kinds = [self._kinds.get(past.event_id) for past, _ in answer.hits]
        features = answer_features(hit_scores, hit_kinds, candidate_set.counts.event_count)
        return CalibrationCase(alert.ts, alert.ts + self._known_after, features, correct, nothing)

    def _is_nothing_comparable(self, candidate_set: CandidateSet) -> bool | None:
        """Whether no candidate is of the alert's kind; None if its kind, or all of theirs, is
        unknown.
        """
        kind = self._kinds.get(candidate_set.alert.event_id)
        if kind is None:
            return None
        rows_by_kind = self._advance(candidate_set)
        excluded = set(candidate_set.excluded_rows)
        # Of so many rows, at least one is not excluded.
        first_rows = rows_by_kind.get(kind, [])[: len(excluded) + 1]
        if any(row not in excluded for row in first_rows):
            return False
        return True if rows_by_kind else None

    def _advance(self, candidate_set: CandidateSet) -> dict[str, list[int]]:
        """The rows of the candidates of each kind."""
        event_type = candidate_set.alert.event_type
        rows_by_kind = self._rows_by_kind.setdefault(event_type, {})
        first = self._row_counts.get(event_type, 0)
        alerts = candidate_set.history.alerts
        for row in range(first, candidate_set.candidate_count):
            kind = self._kinds.get(alerts[row].event_id)
            if kind is not None:
                rows_by_kind.setdefault(kind, []).append(row)
        self._row_counts[event_type] = max(first, candidate_set.candidate_count)
        return rows_by_kind


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))
