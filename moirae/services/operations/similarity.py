"""Evaluate the ranking of similar past events on the feedback of operators."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from moirae.errors import NotFound, UsageError
from moirae.runtime import open_storage
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation

if TYPE_CHECKING:
    from moirae.feedback import EvaluationReport, JudgedCorpus
    from moirae.services.workspace import LocalWorkspace
    from recall.relevance import CandidateSet, Gains
    from recall.similarity import Measure

Track = Callable[["Iterable[CandidateSet]", int, str], "Iterable[CandidateSet]"]
"""Passes items through; gets their number and a description too, to show progress."""


class EvaluationQuery(Arguments):
    """What to evaluate."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    measure: Name | None = Field(
        None, description="Measure whose probabilities are tested. Default: the rule's."
    )


@dataclass(frozen=True)
class EvaluationSummary:
    """The evaluation of one corpus: all figures, and the rows of its tables as text."""

    report: dict[str, Any]
    ranker_rows: Sequence[Sequence[str]]
    period_columns: Sequence[str]
    period_rows: Sequence[Sequence[str]]
    reliability_rows: Sequence[Sequence[str]]


@operation("GET", "/similarity/evaluation", role="operator", in_child=True)
def evaluate(workspace: "LocalWorkspace", query: EvaluationQuery) -> list[EvaluationSummary]:
    """Evaluate the ranking of similar past events, event by event in order of time."""
    reports = evaluate_workspace(workspace, query, lambda queries, total, description: queries)
    return [summarize(report) for report in reports]


def evaluate_workspace(
    workspace: "LocalWorkspace", query: EvaluationQuery, track: Track
) -> "Iterator[EvaluationReport]":
    """A report for each similarity recall of the applied rules."""
    from moirae.feedback import load_judged_corpora

    storage = open_storage(workspace.settings)
    judged = load_judged_corpora(workspace.connection, storage, query.rule)
    corpora = [entry.corpus for entry in judged]
    if not corpora:
        if query.rule is not None:
            raise NotFound(f"no applied rule {query.rule!r} has a similarity recall")
        raise NotFound("no applied rule has a similarity recall")
    for corpus in corpora:
        if query.measure is not None:
            corpus = replace(corpus, measure=find_measure(query.measure).name)
        yield build_report(corpus, corpus.gains_of, leave_one_out=False, track=track)


def build_report(
    corpus: "JudgedCorpus",
    gains: "Callable[[CandidateSet], Gains]",
    *,
    leave_one_out: bool,
    track: Track,
) -> "EvaluationReport":
    """The report about one corpus."""
    from moirae.feedback import EvaluationReport, build_training_cases
    from recall.relevance import BASELINES, evaluate, measure_reliability, rank_by
    from recall.similarity import MEASURES

    def with_progress(queries: "Iterable[CandidateSet]") -> "Iterable[CandidateSet]":
        return track(queries, len(corpus.alerts), f"evaluating {corpus.name}")

    rankers = {name: rank_by(measure) for name, measure in MEASURES.items()} | BASELINES
    evaluation = evaluate(corpus.alerts, gains, rankers, corpus.gap, leave_one_out, with_progress)
    reliability = None
    # Probabilities are learned in the order of time, which leave-one-out does not have.
    if not leave_one_out:
        reliability = measure_reliability(build_training_cases(corpus))
    return EvaluationReport(corpus.name, evaluation, corpus.measure, reliability)


def summarize(report: "EvaluationReport") -> EvaluationSummary:
    """The figures and tables of a report."""
    if not report.query_count:
        return EvaluationSummary(report.to_json(), [], [], [], [])
    columns, rows = report.period_rows()
    return EvaluationSummary(
        report.to_json(), report.ranker_rows(), columns, rows, report.reliability_rows()
    )


def find_measure(name: str) -> "Measure":
    """The similarity measure with a name. Raises `UsageError`."""
    from recall.similarity import MEASURES

    if name not in MEASURES:
        choices = ", ".join(sorted(MEASURES))
        raise UsageError(f"--measure: unknown measure {name!r}: must be one of {choices}")
    return MEASURES[name]
