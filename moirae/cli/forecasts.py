"""`moirae similarity forecasts`: how shown probabilities have held."""

from typing import TYPE_CHECKING

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
    print_table,
)
from moirae.cli.remote import open_services

if TYPE_CHECKING:
    from moirae.services.operations.similarity import ForecastRecordSummary

_COLUMNS = (
    "rule",
    "recall",
    "episodes",
    "withheld",
    "log loss",
    "frequencies",
    "difference",
    "shown",
)


def list_records(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List how the probabilities of recalls by `learned` have held as they were shown.

    The figures are of the last 50 resolved episodes: the mean log loss (nats) beside that of plain
    frequencies, and the difference with its 95 % interval. While the interval lies above 0,
    frequencies are shown instead.
    """
    from moirae.services.operations.similarity import list_forecast_records

    with open_services(workspace) as services:
        records = list_forecast_records(services)
    if output is OutputFormat.JSON:
        print_json([vars(record) for record in records])
        return
    print_table(_COLUMNS, map(_format_record, records), "no recall by `learned`")
    for record in records:
        if record.reason is not None:
            print(f"\n{record.rule} {record.recall}: {record.reason}")


def _format_record(record: "ForecastRecordSummary") -> tuple[str, ...]:
    shown = "frequencies" if record.reason is not None else "learned"
    if record.excess is None:
        return (record.rule, record.recall, "0", "", "", "", "", shown)
    return (
        record.rule,
        record.recall,
        str(record.episodes),
        f"{record.withheld_share or 0:.0%}",
        f"{record.log_loss:.3f}",
        f"{record.frequency_log_loss:.3f}",
        f"{record.excess:+.3f} ({record.excess_low:+.2f} to {record.excess_high:+.2f})",
        shown,
    )
