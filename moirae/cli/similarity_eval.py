"""`similarity eval`: how good the answers are; `agree`, `disagree`: what people say of single hits."""

import getpass
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moirae import storage
from moirae.cli.options import (
    WORKSPACE,
    Output,
    OutputOption,
    Workspace,
    database,
    print_json,
    print_table,
)
from moirae.cli.recalls import one
from moirae.cli.similarity import Gap, Groups, LeaveOneOut, chosen, duration, loaded, watched
from moirae.errors import MoiraeError, UsageError

if TYPE_CHECKING:
    from moirae.evaluation.judged import Judged
    from moirae.evaluation.report import Report
    from recall.similarity.quality import Gains
    from recall.similarity.run import Question

_HELP_EVENTS = "Ready contexts, as `similarity run` takes them; if not given, the workspace's own events."
_HELP_LABELS = "CSV with event_id and label: events of one label help with each other."
_HELP_JUDGEMENTS = "CSV with query and relevant_events (event:gain, with spaces between them)."

Eid = Annotated[str, typer.Argument(metavar="EID", help="The new event or its alert, or how its id begins.")]
Past = Annotated[str, typer.Argument(metavar="PAST", help="The past event, as `moirae similar` shows it.")]
Author = Annotated[str | None, typer.Option("--author", help="Who; your login name if not given.")]


def evaluate(
    workspace: Workspace = WORKSPACE,
    rule: Annotated[str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")] = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_EVENTS)] = None,
    labels: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_LABELS)] = None,
    judgements: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_JUDGEMENTS)
    ] = None,
    groups: Groups = None,
    gap: Gap = "0s",
    leave_one_out: LeaveOneOut = False,
    measure: Annotated[
        str | None, typer.Option(help="The measure whose probabilities are put to the test; the rule's, or tfidf.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.", dir_okay=False)
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """How good the similar past events are, judged by the tags of resolutions (`alerts resolve --tag`) and by what was
    said of single hits (`similarity agree|disagree`): each measure beside simple guesses, event by event as time went
    on."""
    if events is None:
        if labels or judgements or groups or leave_one_out or gap != "0s":
            raise UsageError("--labels, --judgements, --groups, --gap and --leave-one-out go with --events")
        reports = list(_of_workspace(workspace, rule, measure))
    else:
        if (labels is None) == (judgements is None):
            raise UsageError("--events goes with one of --labels and --judgements")
        reports = [_of_files(events, labels, judgements, groups, gap, leave_one_out, measure)]
    if picture is not None:
        _draw([report for report in reports if report.queries], picture)
    if output is Output.JSON:
        print_json([report.to_json() for report in reports])
        return
    for report in reports:
        _print(report)


def agree(eid: Eid, past: Past, author: Author = None, workspace: Workspace = WORKSPACE) -> None:
    """Say that a past event helps with this one."""
    _say(workspace, eid, past, True, author)


def disagree(eid: Eid, past: Past, author: Author = None, workspace: Workspace = WORKSPACE) -> None:
    """Say that a past event does not help with this one."""
    _say(workspace, eid, past, False, author)


def _say(workspace: Path, eid: str, past: str, helps: bool, author: str | None) -> None:
    from moirae.evaluation.judged import Opinion
    from moirae.evaluation.workspace import say

    with database(workspace) as (_, connection):
        opinion = Opinion(one(connection, eid), one(connection, past), helps, author or getpass.getuser())
        say(connection, opinion)
    print(f"kept: {opinion.past_eid} {'helps' if helps else 'does not help'} with {opinion.eid}")


def _of_workspace(workspace: Path, rule: str | None, measure: str | None) -> "Iterator[Report]":
    from moirae.evaluation.workspace import judged

    with database(workspace) as (settings, connection):
        found = [known for _, _, known in judged(connection, storage.root(settings), rule)]
    if not found:
        which = "no applied rule" if rule is None else f"no applied rule {rule!r}"
        raise UsageError(f"{which} has a similarity recall")
    for known in found:
        changed = known if measure is None else replace(known, measure=chosen(measure).name)
        yield _report(changed, changed.gains, False)


def _of_files(
    events: Path,
    labels: Path | None,
    judgements: Path | None,
    groups: Path | None,
    gap: str,
    leave_one_out: bool,
    measure: str | None,
) -> "Report":
    from moirae.evaluation.files import read_judgements, read_labels
    from moirae.evaluation.judged import Judged

    known = Judged(
        events.name,
        loaded(events, groups),
        read_labels(labels) if labels else {},
        gap=duration(gap),
        measure=chosen(measure or "tfidf").name,
    )
    if judgements is None:
        return _report(known, known.gains, leave_one_out)
    gains = read_judgements(judgements)
    unknown = gains.keys() - {alert.event_id for alert in known.alerts}
    if unknown:
        raise MoiraeError(f"{judgements}: query {min(unknown)!r} is no event of {events}")
    return _report(known, lambda question: gains.get(question.alert.event_id, {}), leave_one_out)


def _report(known: "Judged", gains: "Callable[[Question], Gains]", leave_one_out: bool) -> "Report":
    from moirae.evaluation.cases import cases
    from moirae.evaluation.report import Report
    from recall.similarity.baselines import BASELINES
    from recall.similarity.calibration import reliability
    from recall.similarity.measure import MEASURES
    from recall.similarity.quality import evaluate
    from recall.similarity.run import by

    def looked_at(asked: "Iterable[Question]") -> "Iterable[Question]":
        return watched(asked, len(known.alerts), f"evaluating {known.name}")

    rankers = {**{name: by(measure) for name, measure in MEASURES.items()}, **BASELINES}
    found = evaluate(known.alerts, gains, rankers, known.gap, leave_one_out, looked_at)
    # Probabilities are learned in the order of time, which leaving one out does not have.
    tested = None if leave_one_out else reliability(cases(known))
    return Report(known.name, found, known.measure, tested)


def _print(report: "Report") -> None:
    from moirae.evaluation.report import TITLES

    if not report.queries:
        print(
            f"{report.name}: nothing to judge by: no event has a past one of its kind. Kinds are the tags of "
            "resolutions (moirae alerts resolve --tag), or said of single hits (moirae similarity agree|disagree)"
        )
        return
    print(f"{report.name}: {report.queries} judged events; means with their 95 % intervals")
    print_table(["", *TITLES.values()], report.rows(), "")
    print("\nP@10 over time")
    print_table(*report.over_time(), "")
    if report.reliability is None:
        print(f"\nToo few events of known kind to learn from them when there is nothing comparable ({report.own}).\n")
        return
    tested = report.reliability
    print(
        f"\nThe probability that the best hit is of the same kind ({report.own}), learned from {tested.learned} "
        f"events, tested on {tested.tested} later ones; Brier score {tested.brier:.3f} (mean: {tested.plain:.3f})"
    )
    print_table(["said", "events", "mean said", "was right"], report.bins(), "")
    print()


def _draw(reports: "list[Report]", picture: Path) -> None:
    from moirae.evaluation.report import draw

    if picture.suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"--picture {picture}: a picture ends in .png, .svg or .pdf")
    if not reports:
        raise MoiraeError("there is nothing to draw: no judged event")
    try:
        draw(reports, picture)
    except OSError as error:
        raise MoiraeError(f"{picture}: {error.strerror}") from error
