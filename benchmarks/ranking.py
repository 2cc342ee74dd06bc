"""AC-3: P@10 of `learned` beside simple rankings, each compared with it by episodes.

The scenarios are those by which `learned` is judged in the benchmark Q. A ranking is below another
one if the 95 % interval of their mean difference, resampled over episodes, lies below 0.
Classifiers that share nothing with `learned` say how well its tags can be predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.classifiers import CLASSIFIERS, ClassifierRanker
from benchmarks.quality import (
    LEARNED_SCENARIOS,
    SCENARIOS,
    evaluate_scenario,
    make_learned,
    read_kinds,
)
from benchmarks.results import BenchmarkResult, make_result, replace_section
from benchmarks.timing import time_noise_kernel
from recall.relevance import Evaluation, MetricEstimate
from recall.relevance.rankers import BASELINES, Ranker, rank_by
from recall.similarity.measures import LEARNED_MEASURE, MEASURES

_DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "quality.md"
_BEGIN_MARK = "<!-- ranking: begin -->"
_END_MARK = "<!-- ranking: end -->"
_BASELINES = ("bm25", "recency")
_COMPARED_MEASURES = ("tfidf", "binary")
_METRIC = "p10"


@dataclass(frozen=True)
class ScenarioRanking:
    """The rankings of a scenario. `accuracies`: of the classifiers, by name."""

    evaluation: Evaluation
    accuracies: Mapping[str, float]

    @property
    def learned(self) -> float:
        """P@10 of `learned`."""
        return self.p10(LEARNED_MEASURE)

    @property
    def best_compared(self) -> float:
        """P@10 of the better one of TF-IDF and binary."""
        return max(map(self.p10, _COMPARED_MEASURES))

    def p10(self, ranker: str) -> float:
        """P@10 of a ranker."""
        return self.evaluation.estimates()[ranker][_METRIC].value

    def difference(self, ranker: str) -> MetricEstimate:
        """How much higher P@10 of `learned` is than that of another ranker."""
        return self.evaluation.differences(LEARNED_MEASURE, ranker)[_METRIC]


def run() -> list[BenchmarkResult]:
    """Measure P@10; write all rankings to `docs/reference/quality.md`."""
    noise = [time_noise_kernel()]
    rankings = {name: rank_scenario(name) for name in LEARNED_SCENARIOS}
    noise.append(time_noise_kernel())
    replace_section(_DOCUMENT, _BEGIN_MARK, _END_MARK, _format_rankings(rankings))
    return [_make_result(rankings, noise)]


def rank_scenario(name: str) -> ScenarioRanking:
    """Rank by `learned`, the measures, two baselines and the classifiers."""
    leave_one_out = SCENARIOS[name].gap is None
    tags = read_kinds(name)
    classifiers = {
        classifier: ClassifierRanker(make_classifier, tags, leave_one_out=leave_one_out)
        for classifier, make_classifier in CLASSIFIERS.items()
    }
    rankers: dict[str, Ranker] = {LEARNED_MEASURE: make_learned(name)}
    rankers |= {measure_name: rank_by(measure) for measure_name, measure in MEASURES.items()}
    rankers |= {baseline: BASELINES[baseline] for baseline in _BASELINES}
    evaluation = evaluate_scenario(name, rankers | classifiers)
    accuracies = {
        classifier: float(np.mean(ranker.correct)) for classifier, ranker in classifiers.items()
    }
    return ScenarioRanking(evaluation, accuracies)


def _make_result(
    rankings: Mapping[str, ScenarioRanking], noise: Sequence[float]
) -> BenchmarkResult:
    details: dict[str, float] = {}
    for name, ranking in rankings.items():
        details[name] = round(ranking.learned, 4)
    details["scenarios_below"] = float(sum(map(_is_below, rankings.values())))
    learned = sum(ranking.learned for ranking in rankings.values())
    compared = sum(ranking.best_compared for ranking in rankings.values())
    return make_result(
        "AC-3",
        f"sum of P@10 of `learned` ÷ that of the better of TF-IDF and binary, {len(rankings)} "
        "scenarios",
        [learned / compared],
        target="≥ 1.4",
        details=details,
        noise=noise,
    )


def _is_below(ranking: ScenarioRanking) -> bool:
    """Whether `learned` is below TF-IDF, binary or `attributes`."""
    return any(ranking.difference(measure).high < 0 for measure in MEASURES)


def _format_rankings(rankings: Mapping[str, ScenarioRanking]) -> list[str]:
    """A Markdown table: P@10 of each ranking, and how much higher that of `learned` is."""
    lines = [
        "| scenario | ranking | P@10 (95 %) | `learned` minus this (95 %) | accuracy of the tag |",
        "|" + "---|" * 5,
    ]
    for name, ranking in rankings.items():
        ceiling = ranking.evaluation.ceilings()[_METRIC]
        lines.append(f"| {name} | largest possible | {ceiling:.3f} | | |")
        for ranker, estimates in ranking.evaluation.estimates().items():
            difference = ""
            if ranker != LEARNED_MEASURE:
                difference = _format_signed(ranking.difference(ranker))
            estimate = estimates[_METRIC]
            accuracy = ranking.accuracies.get(ranker)
            cells = (
                "",
                ranker,
                f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})",
                difference,
                "" if accuracy is None else f"{accuracy:.3f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _format_signed(estimate: MetricEstimate) -> str:
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"
