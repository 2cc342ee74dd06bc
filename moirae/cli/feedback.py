"""`similarity eval`: how good the answers are; `agree`, `disagree`: what people say of single hits."""

import getpass
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moirae.alerts import find_event
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
    print_table,
)
from moirae.cli.similarity import (
    GapOption,
    GroupsOption,
    LeaveOneOutOption,
    load_alerts,
    parse_gap,
    parse_measure,
    show_progress,
)
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import open_storage

if TYPE_CHECKING:
    from moirae.feedback import EvaluationReport, JudgedCorpus
    from recall.relevance import CandidateSet, Gains

_HELP_EVENTS = (
    "Ready contexts, as `similarity run` takes them; if not given, the workspace's own events."
)
_HELP_LABELS = "CSV with event_id and label: events of one label help with each other."
_HELP_JUDGEMENTS = "CSV with query and relevant_events (event:gain, with spaces between them)."

EvaluatedEventArgument = Annotated[
    str, typer.Argument(metavar="EID", help="The new event or its alert, or how its id begins.")
]
PastEventArgument = Annotated[
    str, typer.Argument(metavar="PAST", help="The past event, as `moirae similar` shows it.")
]
AuthorOption = Annotated[
    str | None, typer.Option("--author", help="Who; your login name if not given.")
]


def evaluate(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: Annotated[
        str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_EVENTS)
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_LABELS)
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_JUDGEMENTS),
    ] = None,
    groups: GroupsOption = None,
    gap: GapOption = "0s",
    leave_one_out: LeaveOneOutOption = False,
    measure: Annotated[
        str | None,
        typer.Option(
            help="The measure whose probabilities are put to the test; the rule's, or tfidf."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.", dir_okay=False),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """How good the similar past events are, judged by the tags of resolutions (`alerts resolve --tag`) and by what was
    said of single hits (`similarity agree|disagree`): each measure beside simple guesses, event by event as time went
    on."""
    if events is None:
        if labels or judgements or groups or leave_one_out or gap != "0s":
            raise UsageError(
                "--labels, --judgements, --groups, --gap and --leave-one-out go with --events"
            )
        reports = list(_evaluate_workspace(workspace, rule, measure))
    else:
        if (labels is None) == (judgements is None):
            raise UsageError("--events goes with one of --labels and --judgements")
        reports = [_evaluate_files(events, labels, judgements, groups, gap, leave_one_out, measure)]
    if picture is not None:
        _draw_reports([report for report in reports if report.query_count], picture)
    if output is OutputFormat.JSON:
        print_json([report.to_json() for report in reports])
        return
    for report in reports:
        _print_report(report)


def agree(
    eid: EvaluatedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Say that a past event helps with this one."""
    _record_judgement(workspace, eid, past, True, author)


def disagree(
    eid: EvaluatedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Say that a past event does not help with this one."""
    _record_judgement(workspace, eid, past, False, author)


def _record_judgement(
    workspace: Path, eid: str, past: str, helps: bool, author: str | None
) -> None:
    from moirae.feedback import Judgement, record_judgement

    with open_workspace(workspace) as (_, connection):
        opinion = Judgement(
            find_event(connection, eid),
            find_event(connection, past),
            helps,
            author or getpass.getuser(),
        )
        record_judgement(connection, opinion)
    print(f"kept: {opinion.past_eid} {'helps' if helps else 'does not help'} with {opinion.eid}")


def _evaluate_workspace(
    workspace: Path, rule: str | None, measure: str | None
) -> "Iterator[EvaluationReport]":
    from moirae.feedback import load_judged_corpora

    with open_workspace(workspace) as (settings, connection):
        found = [
            known for _, _, known in load_judged_corpora(connection, open_storage(settings), rule)
        ]
    if not found:
        which = "no applied rule" if rule is None else f"no applied rule {rule!r}"
        raise UsageError(f"{which} has a similarity recall")
    for known in found:
        changed = known if measure is None else replace(known, measure=parse_measure(measure).name)
        yield _build_report(changed, changed.gains_of, False)


def _evaluate_files(
    events: Path,
    labels: Path | None,
    judgements: Path | None,
    groups: Path | None,
    gap: str,
    leave_one_out: bool,
    measure: str | None,
) -> "EvaluationReport":
    from moirae.feedback import JudgedCorpus, read_judgements, read_labels

    known = JudgedCorpus(
        events.name,
        load_alerts(events, groups),
        read_labels(labels) if labels else {},
        gap=parse_gap(gap),
        measure=parse_measure(measure or "tfidf").name,
    )
    if judgements is None:
        return _build_report(known, known.gains_of, leave_one_out)
    gains = read_judgements(judgements)
    unknown = gains.keys() - {alert.event_id for alert in known.alerts}
    if unknown:
        raise MoiraeError(f"{judgements}: query {min(unknown)!r} is no event of {events}")
    return _build_report(
        known, lambda question: gains.get(question.alert.event_id, {}), leave_one_out
    )


def _build_report(
    known: "JudgedCorpus", gains: "Callable[[CandidateSet], Gains]", leave_one_out: bool
) -> "EvaluationReport":
    from moirae.feedback import EvaluationReport, build_training_cases
    from recall.relevance import BASELINES, evaluate, measure_reliability, rank_by
    from recall.similarity import MEASURES

    def looked_at(asked: "Iterable[CandidateSet]") -> "Iterable[CandidateSet]":
        return show_progress(asked, len(known.alerts), f"evaluating {known.name}")

    rankers = {**{name: rank_by(measure) for name, measure in MEASURES.items()}, **BASELINES}
    found = evaluate(known.alerts, gains, rankers, known.gap, leave_one_out, looked_at)
    # Probabilities are learned in the order of time, which leaving one out does not have.
    tested = None if leave_one_out else measure_reliability(build_training_cases(known))
    return EvaluationReport(known.name, found, known.measure, tested)


def _print_report(report: "EvaluationReport") -> None:
    from moirae.feedback import METRIC_TITLES

    if not report.query_count:
        print(
            f"{report.name}: nothing to judge by: no event has a past one of its kind. Kinds are the tags of "
            "resolutions (moirae alerts resolve --tag), or said of single hits (moirae similarity agree|disagree)"
        )
        return
    print(f"{report.name}: {report.query_count} judged events; means with their 95 % intervals")
    print_table(["", *METRIC_TITLES.values()], report.ranker_rows(), "")
    print("\nP@10 over time")
    print_table(*report.period_rows(), "")
    if report.reliability is None:
        print(
            f"\nToo few events of known kind to learn from them when there is nothing comparable ({report.measure}).\n"
        )
        return
    tested = report.reliability
    print(
        f"\nThe probability that the best hit is of the same kind ({report.measure}), learned from {tested.training_cases} "
        f"events, tested on {tested.test_cases} later ones; Brier score {tested.brier_score:.3f} (mean: {tested.baseline_brier_score:.3f})"
    )
    print_table(["said", "events", "mean said", "was right"], report.reliability_rows(), "")
    print()


def _draw_reports(reports: "list[EvaluationReport]", picture: Path) -> None:
    from moirae.feedback import draw_reports

    if picture.suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"--picture {picture}: a picture ends in .png, .svg or .pdf")
    if not reports:
        raise MoiraeError("there is nothing to draw: no judged event")
    try:
        draw_reports(reports, picture)
    except OSError as error:
        raise MoiraeError(f"{picture}: {error.strerror}") from error
